#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "fuzz/meaning.hpp"

namespace nsys_explain::meaning {

namespace fs = std::filesystem;

std::vector<Job> find_jobs(const std::vector<std::string>& directories) {
  std::vector<Job> jobs;
  const auto add = [&](const fs::path& directory) {
    Job job{directory.filename().string(), {}};
    for (const fs::directory_entry& entry : fs::directory_iterator(directory)) {
      if (entry.path().extension() == ".sqlite" || entry.path().extension() == ".json") job.files.push_back(entry);
    }
    std::sort(job.files.begin(), job.files.end());
    std::erase_if(job.files, [](const fs::path& file) { return file.filename() == "truth.json"; });
    if (!job.files.empty()) jobs.push_back(std::move(job));
    return !jobs.empty() && jobs.back().name == directory.filename();
  };
  for (const std::string& directory : directories) {
    if (add(directory)) continue;
    std::vector<fs::path> inner;
    for (const fs::directory_entry& entry : fs::directory_iterator(directory))
      if (entry.is_directory()) inner.push_back(entry);
    std::sort(inner.begin(), inner.end());
    for (const fs::path& one : inner) add(one);
  }
  if (jobs.empty()) throw std::runtime_error("no exports (.sqlite) and no unpacked traces (.json) in the directories");
  return jobs;
}

const std::string& word_for_range(Draw& draw) {
  static const std::vector<std::string> words = {"step ",
                                                 "step ",
                                                 "Step[",
                                                 "ProfilerStep#",
                                                 "iteration ",
                                                 "iter",
                                                 "train_step ",
                                                 "micro_batch ",
                                                 "load_batch",
                                                 "load_batch ",
                                                 "aten::batch_norm",
                                                 "batch ",
                                                 "optimizer.step",
                                                 "Optimizer.step#AdamW.step",
                                                 "forward",
                                                 "backward",
                                                 "optimizer",
                                                 "decode ",
                                                 "prefill",
                                                 "epoch ",
                                                 "dataloader",
                                                 "checkpoint",
                                                 "ncclAllReduce",
                                                 "ncclGroupStart",
                                                 "nccl:all_reduce",
                                                 "MPI_Barrier",
                                                 "execute_context_0(0)_generation_",
                                                 "record_param_comms",
                                                 "",
                                                 " ",
                                                 "7"};
  return draw.one_of(words);
}

const std::string& word_for_kernel(Draw& draw) {
  static const std::vector<std::string> words = {
      "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
      "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<(unsigned long)4096>)",
      "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)",
      "ncclDevKernel_ReduceScatter_Sum_bf16_TREE_SIMPLE",
      "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
      "ncclDevKernel_Broadcast_RING_LL",
      "void vllm::cross_device_reduce_1stage<float, 2>(vllm::RankData*)",
      "void deep_ep::internode::dispatch<true>(int4*)",
      "nvshmemi_transfer",
      "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32",
      "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128>>(Flash_fwd_params)",
      "vectorized_elementwise_kernel",
      "triton_poi_fused_add_0",
      "cudaGraphLaunch",
      "Memcpy HtoD (Pinned -> Device)",
      "step 3",
      ""};
  return draw.one_of(words);
}

const Counting& way_of_counting(Draw& draw) {
  static const std::vector<Counting> ways = {
      {"n", [](std::int64_t n) { return fmt::format("{}", n); }},
      {"n", [](std::int64_t n) { return fmt::format("{}", n); }},
      {"''", [](std::int64_t) { return std::string(); }},
      {"7", [](std::int64_t) { return std::string("7"); }},
      {"-n", [](std::int64_t n) { return fmt::format("{}", -n); }},
      {"100 - n", [](std::int64_t n) { return fmt::format("{}", 100 - n); }},
      {"n % 3", [](std::int64_t n) { return fmt::format("{}", n % 3); }},
      {"n / 2", [](std::int64_t n) { return fmt::format("{}", n / 2); }},
      {"n * n", [](std::int64_t n) { return fmt::format("{}", n * n); }},
      {"n + (n > 2) * 1000", [](std::int64_t n) { return fmt::format("{}", n + (n > 2 ? 1000 : 0)); }},
      {"n + 999999998", [](std::int64_t n) { return fmt::format("{}", n + 999'999'998); }},
      {"n * 3000000000", [](std::int64_t n) { return fmt::format("{}", n * 3'000'000'000); }},
      {"(n + 9223372036854775800)", [](std::int64_t n) { return fmt::format("9223372036854775{}", 800 + n); }},
      {"'99999999999999999999999' || n", [](std::int64_t n) { return fmt::format("99999999999999999999999{}", n); }},
      {"n || ']'", [](std::int64_t n) { return fmt::format("{}]", n); }},
      {"n || ' of 9'", [](std::int64_t n) { return fmt::format("{} of 9", n); }}};
  return draw.one_of(ways);
}

std::int64_t some_duration_ns(Draw& draw) {
  constexpr std::int64_t day_ns = 86'400'000'000'000;
  const auto one = draw.one_of<std::int64_t>({1, 1'000, 20'000, 1'000'000, 25'000'000, 100'000'000, 1'000'000'000,
                                              30'000'000'000, 3'600'000'000'000, 3 * day_ns, 400 * day_ns});
  return draw.percent(50) ? one : -one;
}

std::string some_rows(ChangedDatabase& database, const std::string& table, Draw& draw) {
  if (draw.percent(30)) return "1";
  const auto rows = static_cast<std::uint64_t>(database.number(fmt::format("SELECT count(*) FROM \"{}\"", table)));
  const std::uint64_t row = rows == 0 ? 0 : draw.below(rows);
  switch (draw.below(8)) {
    case 0:
      return "0";
    case 1:
      return fmt::format("rowid = (SELECT rowid FROM \"{}\" LIMIT 1 OFFSET {})", table, row);
    case 2:
      return fmt::format("rowid % 13 = {}", row % 13);
    case 3:
      return fmt::format("rowid % 2 = {}", row % 2);
    case 4:
    case 5:
      return fmt::format("start {} (SELECT min(start) + (max(start) - min(start)) / 8 * {} FROM \"{}\")",
                         draw.percent(50) ? "<" : ">=", draw.below(9), table);
    default: {
      static const std::vector<std::string> columns = {"globalTid",     "deviceId", "streamId",  "contextId",
                                                       "demangledName", "textId",   "eventType", "nameId",
                                                       "domainId",      "text",     "globalPid", "correlationId"};
      const std::size_t first = draw.below(columns.size());
      for (std::size_t i = 0; i < columns.size(); ++i) {  // the first from there on that the table has
        const std::string& column = columns[(first + i) % columns.size()];
        if (database.number(
                fmt::format("SELECT count(*) FROM pragma_table_info('{}') WHERE name = '{}'", table, column)) == 0)
          continue;
        return fmt::format("{} IS (SELECT {} FROM \"{}\" LIMIT 1 OFFSET {})", column, column, table, row);
      }
      return "1";
    }
  }
}

}  // namespace nsys_explain::meaning
