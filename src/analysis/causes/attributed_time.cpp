#include "analysis/causes/attributed_time.hpp"

#include <algorithm>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

std::vector<const Straggler*> attributed_stragglers(const JobReport& report) {
  std::vector<const Straggler*> told;
  for (const Straggler& straggler : report.stragglers) told.push_back(&straggler);
  for (const SuspectedStraggler& suspect : report.suspects) told.push_back(&suspect.late);
  return told;
}

LateRanks late_by(const JobReport& report, std::initializer_list<Cause> causes) {
  LateRanks late;
  for (const Straggler* const one : attributed_stragglers(report))
    if (std::find(causes.begin(), causes.end(), one->cause) != causes.end())
      late.insert(late.end(), one->trace_ranks.begin(), one->trace_ranks.end());
  std::sort(late.begin(), late.end());
  late.erase(std::unique(late.begin(), late.end()), late.end());
  return late;
}

bool is_among(const LateRanks& late, std::int64_t trace_rank) {
  return std::binary_search(late.begin(), late.end(), trace_rank);
}

TimeOfRank time_of_ranks(const JobReport& report, const schema::Declaration& table, const schema::Integer& time,
                         const std::function<bool(const Table&, std::size_t row)>& counts) {
  TimeOfRank time_ns;
  const Table* const rows = find_table(report.tables, table);
  if (rows == nullptr) return time_ns;
  for (const RankSummary& rank : report.ranks) time_ns[rank.trace_rank] = 0;
  const auto& ranks = column(*rows, schema::trace_rank);
  const auto& times = column(*rows, time);
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (counts(*rows, i)) time_ns[ranks[i]] += times[i];
  return time_ns;
}

Nanoseconds surplus_of(const LateRanks& late, const TimeOfRank& time_ns) {
  std::vector<Nanoseconds> others;
  for (const auto& [trace_rank, of_rank_ns] : time_ns)
    if (!is_among(late, trace_rank)) others.push_back(of_rank_ns);
  if (others.empty()) return 0;
  const Nanoseconds usual_ns = lower_median(others);
  Nanoseconds surplus_ns = 0;
  for (const std::int32_t trace_rank : late)
    if (const auto own = time_ns.find(trace_rank); own != time_ns.end())
      surplus_ns += std::max<Nanoseconds>(0, own->second - usual_ns);
  return surplus_ns;
}

}  // namespace nsys_explain::analysis
