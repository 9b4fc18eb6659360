#include "nsys_explain/model/job_report.hpp"

#include <algorithm>

#include "model/shared_gpus.hpp"

namespace nsys_explain {
std::vector<Straggler*> everybody_late(std::vector<Straggler>& stragglers, std::vector<SuspectedStraggler>& suspects) {
  std::vector<Straggler*> late;
  for (Straggler& straggler : stragglers) late.push_back(&straggler);
  for (SuspectedStraggler& suspect : suspects) late.push_back(&suspect.late);
  return late;
}

std::vector<std::int64_t> first_instances(const JobReport& report) {
  std::vector<std::int64_t> first;
  std::int64_t next = 0;
  for (const CommunicatorSummary& communicator : report.communicators) {
    first.push_back(next);
    next += communicator.instances;
  }
  return first;
}

std::string_view critical_kind_name(CriticalKind kind) {
  constexpr std::array<std::string_view, critical_kind_count> names{"compute", "copy", "transfer",
                                                                    "launch",  "host", "unknown"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<CriticalShare> critical_shares(const CriticalPath& path) {
  std::map<std::int32_t, CriticalShare> sums;
  for (const CriticalShare& share : path.by_step) {
    CriticalShare& sum = sums[share.trace_rank];
    sum.trace_rank = share.trace_rank;
    for (std::size_t kind = 0; kind < critical_kind_count; ++kind) sum.duration_ns[kind] += share.duration_ns[kind];
  }
  std::vector<CriticalShare> shares;
  for (const auto& [trace_rank, sum] : sums) shares.push_back(sum);
  return shares;
}

std::string_view collective_phase_name(CollectivePhase phase) {
  constexpr std::array<std::string_view, collective_phase_count> names{"arrival_skew", "transfer", "unmatched",
                                                                       "inconclusive"};
  return names[static_cast<std::size_t>(phase)];
}

std::string_view standstill_reason_name(StandstillReason reason) {
  constexpr std::array<std::string_view, standstill_reason_count> names{"blocking", "launch_paced", "not_told"};
  return names[static_cast<std::size_t>(reason)];
}

std::map<std::string, std::vector<std::int32_t>> shared_gpus_of(std::span<const TraceRankIdentity> trace_ranks) {
  std::map<std::string, std::vector<std::int32_t>> ranks_of_gpu;
  for (const TraceRankIdentity& rank : trace_ranks)
    if (!rank.gpu_uuid.empty() && !rank.is_gpu_presumed) ranks_of_gpu[rank.gpu_uuid].push_back(rank.trace_rank);
  std::erase_if(ranks_of_gpu, [](const auto& gpu) { return gpu.second.size() < 2; });
  return ranks_of_gpu;
}

bool shares_its_gpu(const JobReport& report, std::int32_t trace_rank) {
  const auto gpus = shared_gpus_of(report.trace_ranks);
  return std::any_of(gpus.begin(), gpus.end(), [&](const auto& gpu) {
    return std::find(gpu.second.begin(), gpu.second.end(), trace_rank) != gpu.second.end();
  });
}

}  // namespace nsys_explain
