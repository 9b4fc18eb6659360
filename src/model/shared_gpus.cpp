#include "model/shared_gpus.hpp"

#include <algorithm>

namespace nsys_explain {

std::map<std::string, std::vector<std::int32_t>> shared_gpus_of(const JobReport& report) {
  std::map<std::string, std::vector<std::int32_t>> ranks_of_gpu;
  for (const TraceRankIdentity& rank : report.trace_ranks)
    if (!rank.gpu_uuid.empty() && !rank.is_gpu_presumed) ranks_of_gpu[rank.gpu_uuid].push_back(rank.trace_rank);
  std::erase_if(ranks_of_gpu, [](const auto& gpu) { return gpu.second.size() < 2; });
  return ranks_of_gpu;
}

bool shares_its_gpu(const JobReport& report, std::int32_t trace_rank) {
  const auto gpus = shared_gpus_of(report);
  return std::any_of(gpus.begin(), gpus.end(), [&](const auto& gpu) {
    return std::find(gpu.second.begin(), gpu.second.end(), trace_rank) != gpu.second.end();
  });
}

}  // namespace nsys_explain
