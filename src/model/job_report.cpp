#include "nsys_explain/model/job_report.hpp"

#include <map>

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

}  // namespace nsys_explain
