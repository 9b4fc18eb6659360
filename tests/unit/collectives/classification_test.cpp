#include "collectives/classification.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

struct Known {
  const char* short_name;
  const char* demangled_name;
  Operation operation;
};

class CommunicationKernel : public testing::TestWithParam<Known> {};

TEST_P(CommunicationKernel, IsRecognised) {
  const KernelClass found = classify_kernel(GetParam().short_name, GetParam().demangled_name);
  EXPECT_TRUE(found.communication);
  EXPECT_EQ(operation_name(found.operation), operation_name(GetParam().operation));
  EXPECT_FALSE(found.library.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Names, CommunicationKernel,
    testing::Values(
        Known{"ncclKernel_AllReduce_RING_LL_Sum_half", "", Operation::all_reduce},
        Known{"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "", Operation::send_recv},
        Known{"ncclDevKernel_AllReduce_Sum_f32_RING_LL", "", Operation::all_reduce},
        Known{"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL", "", Operation::reduce_scatter},
        Known{"ncclDevKernel_Reduce_Sum_bf16_RING_LL", "", Operation::reduce},
        Known{"ncclDevKernel_AllGather_RING_LL", "", Operation::all_gather},
        Known{"ncclDevKernel_Broadcast_RING_LL", "", Operation::broadcast},
        Known{"ncclDevKernel_SendRecv", "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
              Operation::send_recv},
        Known{"ncclDevKernel_Generic", "", Operation::unknown},
        Known{"ncclSymDevKernel_AllGather_LL", "", Operation::all_gather},
        Known{"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f16", "", Operation::all_reduce},
        Known{"cross_device_reduce_1stage", "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(...)",
              Operation::all_reduce},
        Known{"allreduce_fusion_kernel_oneshot_lamport", "", Operation::all_reduce},
        Known{"twoShotAllReduceKernel", "", Operation::all_reduce},
        Known{"multimem_all_reduce_kernel", "", Operation::all_reduce},
        Known{"dispatch", "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)", Operation::all_to_all},
        Known{"combine", "void deep_ep::internode_ll::combine<true, 7168>(void*)", Operation::all_to_all},
        Known{"nvshmemi_barrier_all_kernel", "nvshmemi_barrier_all_kernel()", Operation::barrier},
        Known{"userbuffers_fp16_sum_inplace_gpu_mc", "", Operation::all_reduce},
        Known{"kuserbuffers_pushsend", "", Operation::send_recv},
        Known{"nccl_ep_jit_ll_combine_kernel", "nccl_ep_jit_ll_combine_kernel(nccl_ep::combine_kernel_args_t)",
              Operation::all_to_all},
        Known{"all_reduce_one_shot_push_kernel",
              "void (anonymous namespace)::all_reduce_one_shot_push_kernel<__half, 4u, true>(AllReducePushData)",
              Operation::all_reduce},
        Known{"allreduce_1shotLL_2node", "", Operation::all_reduce},
        Known{"moefinalize_allreduce_fusion_kernel_oneshot_lamport", "", Operation::all_reduce},
        Known{"oneshotAllreduceFusionKernel", "", Operation::all_reduce},
        Known{"twoshotAllreduceKernel", "", Operation::all_reduce},
        Known{"rmsNormLamport_fusion", "", Operation::unknown}, Known{"moeAllToAllKernel", "", Operation::all_to_all},
        Known{"moeA2ACombineKernel", "", Operation::all_to_all},
        Known{"minimax_reduce_rms_kernel_lamport", "", Operation::all_reduce},
        Known{"mnnvlAllGatherSplitKernel", "", Operation::all_gather},
        Known{"helixAllToAllKernel", "", Operation::all_to_all}, Known{"allToAllV_2d", "", Operation::all_to_all},
        Known{"dispatch_kernel", "void hybrid_ep::dispatch_kernel<unsigned short, 4>(param_t)", Operation::all_to_all},
        Known{"device_sync_kernel", "void hybrid_ep::device_sync_kernel<64>(unsigned int *)", Operation::barrier},
        Known{"ag_nvl_kernel", "void ag_nvl_kernel<1024>(void **)", Operation::all_gather},
        Known{"combine", "void uccl::internode_ll::combine<true, 7168>(void*)", Operation::all_to_all},
        Known{"cached_notify_dispatch", "void uccl::intranode::cached_notify_dispatch<8>(int const*)",
              Operation::all_to_all},
        Known{"dispatch", "void mooncake::dispatch<true, 3, 10, 7168>(void*)", Operation::all_to_all},
        Known{"mooncake_ep_jit_elastic_hybrid_combine_kernel", "", Operation::all_to_all},
        Known{"a2a_dispatch_recv_kernel", "", Operation::unknown},
        Known{"barrier_on_stream_kernel_threadgroup",
              "void barrier_on_stream_kernel_threadgroup<(threadgroup_t)2>(int)", Operation::barrier},
        Known{"rdxn_on_stream_kernel", "", Operation::all_reduce},
        Known{"fcollect_on_stream_kernel", "", Operation::all_gather}));

class ComputeKernel : public testing::TestWithParam<Known> {};

TEST_P(ComputeKernel, IsNot) {
  EXPECT_FALSE(classify_kernel(GetParam().short_name, GetParam().demangled_name).communication);
}

INSTANTIATE_TEST_SUITE_P(
    Names, ComputeKernel,
    testing::Values(
        Known{"reduce_kernel", "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(T3)", {}},
        Known{"dispatch", "void mine::dispatch<8>(int)", {}},  // DeepEP's short name in other code
        Known{"combine", "combine(float*)", {}},
        Known{"flash_fwd_kernel", "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(flash::Params)", {}},
        Known{"my_ncclDevKernel_like", "", {}},
        Known{"scale", "void scale(deep_ep::Config)", {}},  // only an argument's type
        Known{"scale", "void scale<deep_ep::Config>(int)", {}},
        Known{"scan", "void hybrid_ep::scan<256, 8>(bool const*)", {}},  // before an exchange, on one GPU
        Known{"moeA2APrepareDispatchKernel", "moeA2APrepareDispatchKernel(int*, int*, int, unsigned int*)", {}},
        Known{"mooncake_ep_jit_elastic_dispatch_prologue_kernel", "", {}}, Known{"", "", {}}));

TEST(KernelClasses, TakesTheUsersPatternsBesidesTheTable) {
  const std::vector<Regex> of_user{Regex("^ring::"), Regex("Gather$")};
  const auto known = [&](const char* short_name, const char* demangled) {
    return classify_kernel(short_name, demangled, of_user);
  };
  const KernelClass reduce = known("allReduceStep", "void ring::allReduceStep<4>(int*)");
  EXPECT_TRUE(reduce.communication);
  EXPECT_EQ(reduce.operation, Operation::all_reduce);
  EXPECT_EQ(reduce.library, "--communication-kernels");
  EXPECT_EQ(known("shift", "void ring::shift(int*)").operation, Operation::unknown);
  EXPECT_TRUE(known("shift", "void ring::shift(int*)").communication);
  EXPECT_FALSE(known("shift", "void bring::shift(ring::Step)").communication);
  EXPECT_EQ(known("myAllGather", "").operation, Operation::all_gather);  // no long name: the short one
  EXPECT_FALSE(known("myAllGather", "void mine::myAllGather2()").communication);
  EXPECT_EQ(known("ncclDevKernel_AllGather_RING_LL", "").library, "NCCL");  // of the table
}

TEST(KernelClasses, FindsByDemangledNameElseByShortName) {
  Trace trace;
  trace.strings = {"", "dispatch", "void deep_ep::intranode::dispatch<8>()", "void mine::dispatch<8>()",
                   "ncclDevKernel_SendRecv"};
  trace.processes.resize(1);
  trace.processes[0].devices.resize(1);
  auto& kinds = trace.processes[0].devices[0].kernel_kinds;
  kinds.resize(3);
  kinds[0].short_name = kinds[1].short_name = 1;
  kinds[0].demangled_name = 2;
  kinds[1].demangled_name = 3;
  kinds[2].short_name = 4;
  const KernelClasses classes(trace);
  EXPECT_EQ(classes.communication_kinds(trace.processes[0].devices[0]), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(classes.of(kinds[2]).operation, Operation::send_recv);
}

}  // namespace
}  // namespace nsys_explain::collectives
