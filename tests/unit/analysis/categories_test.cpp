#include "analysis/tables/categories.hpp"

#include <gtest/gtest.h>

#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::table_of;
using testing::texts;
using testing::Texts;

TEST(Elapsed, EachMomentBelongsToTheActivityThatReachedItFirst) {
  OneRank rank;
  rank.kernel("a", 0, 100, 0, 1);
  rank.kernel("b", 50, 150, 0, 2);                                  // adds 50
  rank.kernel("c", 60, 90, 0, 3);                                   // within: adds nothing
  rank.kernel("a", 150, 160, 0, 1);                                 // touches: adds 10
  rank.copy(1, 300, 340, 5);                                        // apart: adds all
  rank.device().graph_launches.push_back({330, 350, 0, 4, 12, 1});  // adds 10
  const Table table = elapsed_table(rank.events());
  EXPECT_EQ(texts(table, "name"), (Texts{"a", "b", "[CUDA memcpy Host-to-Device]", "[CUDA graph 12]", "c"}));
  EXPECT_EQ(integers(table, "elapsed_ns"), (Integers{110, 50, 40, 10, 0}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{110, 100, 40, 20, 30}));
  EXPECT_EQ(integers(table, "instances"), (Integers{2, 1, 1, 1, 1}));
}

TEST(CategoryMap, FirstMatchWins) {
  const CategoryMap map("mine", {{"flash|fmha", "attention"}, {"^void .*gemm", "gemm"}, {"a+b", "plus"}});
  EXPECT_EQ(map.category_of("flash_gemm"), "attention");
  EXPECT_EQ(map.category_of("void x::gemm<int>(float)"), "gemm");
  EXPECT_EQ(map.category_of("gemm"), "misc") << "the pattern is anchored";
  EXPECT_EQ(map.category_of("xaab"), "plus");
  EXPECT_EQ(map.category_of("Flash"), "misc") << "patterns tell case";
  EXPECT_EQ(map.category_of(std::string(1'000'000, 'x') + "flash"), "attention")
      << "to the end of a name of any length";
  EXPECT_EQ(map.category_of(std::string(1'000'000, 'x')), "misc") << "a long name is no reason to overflow the stack";
}

TEST(CategoryMap, BadOnesSayWhatIsWrong) {
  try {
    CategoryMap("mine", {{"(", "open"}});
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("'('"), std::string::npos);
  }
  try {
    CategoryMap::built_in("vllm/gpt");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("vllm/gpt-oss"), std::string::npos) << "names what there is";
  }
}

TEST(CategoryMap, BuiltInMapsKnowTheirKernels) {
  EXPECT_EQ(CategoryMap::built_in_names(),
            (std::vector<std::string_view>{"vllm/llama", "vllm/ds", "vllm/gpt-oss", "llm"}));
  const CategoryMap llama = CategoryMap::built_in("vllm/llama");
  EXPECT_EQ(llama.category_of("nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NTN"), "gemm");
  EXPECT_EQ(llama.category_of("void flash::flash_fwd_splitkv_kernel<...>"), "attn");
  EXPECT_EQ(llama.category_of("[CUDA memcpy Host-to-Device]"), "non-gpu-H_D_memops");
  EXPECT_EQ(llama.category_of("triton_poi_fused_1"), "triton_kernel");
  EXPECT_EQ(llama.category_of("triton_red_fused_moe"), "moe") << "in the order of the map";
  const CategoryMap deepseek = CategoryMap::built_in("vllm/ds");
  EXPECT_EQ(deepseek.category_of("deep_gemm::fp8_gemm_kernel"), "gemm");
  EXPECT_EQ(deepseek.category_of("_mla_decode"), "attn");
  const CategoryMap oss = CategoryMap::built_in("vllm/gpt-oss");
  EXPECT_EQ(oss.category_of("_topk_forward"), "moe_gemm");
  EXPECT_EQ(oss.category_of("topk_kernel"), "topk");
  const CategoryMap general = CategoryMap::built_in("llm");
  EXPECT_EQ(general.category_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            "communication");
  EXPECT_EQ(general.category_of("void cudnn_generated_fort_native_sdpa_sm90_flash_fprop"), "attention");
  EXPECT_EQ(general.category_of("void at::native::vectorized_elementwise_kernel<4, x>"), "elementwise");
  EXPECT_EQ(general.category_of("[CUDA memset]"), "copy");
  // What only contains the letters of a purpose does not have it: LAMB in lambda, sampling in upsampling.
  EXPECT_EQ(
      general.category_of(
          "void at::native::elementwise_kernel<128, 2, void at::native::gpu_kernel_impl_nocast<at::native::CUDAFunctor_add<float>>(at::TensorIteratorBase &, const T1 &)::[lambda(int) (instance 1)]>(int, T3)"),
      "elementwise");
  EXPECT_EQ(
      general.category_of(
          "void at::native::vectorized_elementwise_kernel<8, at::native::bfloat16_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) (instance 1)], x>"),
      "data_movement");
  EXPECT_EQ(general.category_of("void at::native::<unnamed>::upsample_nearest2d_out_frame<float>"), "misc");
  EXPECT_EQ(general.category_of("void vllm::reshape_and_cache_flash_kernel<float>(float const*)"), "data_movement");
  EXPECT_EQ(general.category_of("void at::native::<unnamed>::multi_tensor_apply_kernel<Adam>"), "optimizer");
  EXPECT_EQ(general.category_of("reduce_block_into_lamb_kernel"), "optimizer");
  // FlashInfer's, and what vLLM samples with.
  EXPECT_EQ(general.category_of("void flashinfer::BatchDecodeWithPagedKVCacheKernel<4, x>(x)"), "attention");
  EXPECT_EQ(general.category_of("void flashinfer::BatchPrefillWithPagedKVCacheKernel<x>(x)"), "attention");
  EXPECT_EQ(general.category_of("void flashinfer::sampling::RadixTopKMaskLogitsKernel_MultiCTA<512, x>(x)"),
            "sampling");
  EXPECT_EQ(general.category_of("fused_layernorm_kernel"), "norm");
}

Table joined(const std::vector<std::pair<std::int64_t, std::string>>& kernels, const Integers& elapsed) {
  Table table = make_table({"gpu_elapsed",
                            "",
                            {{"trace_rank", ColumnKind::integer, "", ""},
                             {"name", ColumnKind::text, "", ""},
                             {"instances", ColumnKind::integer, "", ""},
                             {"total_ns", ColumnKind::integer, "ns", ""},
                             {"elapsed_ns", ColumnKind::integer, "ns", ""}}});
  RowWriter row(table);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    row << kernels[i].first << kernels[i].second << std::int64_t{1} << elapsed[i] << elapsed[i];
  }
  return table;
}

TEST(Categories, SumsByRankWithTheRestOfTheRunTime) {
  const Table elapsed = joined({{0, "gemm_a"}, {0, "x"}, {0, "gemm_b"}, {3, "x"}}, {100, 50, 200, 2'000'000'000});
  const CategoryMap map("mine", {{"gemm", "gemm"}});
  const std::vector<Table> tables = category_tables(elapsed, [&](std::int64_t) { return RankCategories{&map, 1.0}; });
  EXPECT_EQ(texts(table_of(tables, "category_kernels"), "category"), (Texts{"gemm", "misc", "gemm", "misc"}));
  const Table& categories = table_of(tables, "categories");
  EXPECT_EQ(integers(categories, "trace_rank"), (Integers{0, 0, 0, 3, 3}));
  EXPECT_EQ(texts(categories, "category"), (Texts{"cpu (non-GPU)", "gemm", "misc", "misc", "cpu (non-GPU)"}));
  EXPECT_EQ(integers(categories, "elapsed_ns"), (Integers{1'000'000'000 - 350, 300, 50, 2'000'000'000, 0}))
      << "never below 0, where the given time is shorter than the GPU time";
  EXPECT_DOUBLE_EQ(reals(categories, "share_percent")[1], 300.0 / 1e9 * 100);
  const std::vector<Table> without = category_tables(elapsed, [&](std::int64_t) { return RankCategories{&map}; });
  EXPECT_EQ(texts(table_of(without, "categories"), "category"), (Texts{"gemm", "misc", "misc"}));
}

TEST(Categories, EveryTraceRankMayHaveItsOwnMap) {
  const Table elapsed = joined({{0, "x"}, {3, "x"}}, {50, 70});
  const CategoryMap one("one", {{"x", "first"}}), other("other", {{"x", "second"}});
  const std::vector<Table> tables = category_tables(elapsed, [&](std::int64_t trace_rank) {
    return trace_rank == 0 ? RankCategories{&one} : RankCategories{&other};
  });
  EXPECT_EQ(texts(table_of(tables, "categories"), "category"), (Texts{"first", "second"}));
  EXPECT_EQ(texts(table_of(tables, "categories"), "map"), (Texts{"one", "other"}));
}

}  // namespace
}  // namespace nsys_explain::analysis
