#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// What both sources tell of one trace rank: that with more time below its clock.
struct Throttled {
  std::int64_t rank = -1;
  std::string source;
  std::int64_t spans = 0;
  Nanoseconds total_ns = 0;
  double lowest_mhz = -1;
  bool by_driver = false;
};

/// Most time first.
std::vector<Throttled> throttled_ranks(const Table& throttling) {
  const auto& rank = column(throttling, schema::trace_rank);
  const auto& source = column(throttling, schema::gpu_throttling.source);
  const auto& start = column(throttling, schema::gpu_throttling.start_ns);
  const auto& end = column(throttling, schema::gpu_throttling.end_ns);
  const auto& lowest = column(throttling, schema::gpu_throttling.lowest_sm_clock_mhz);
  const auto& by_driver = column(throttling, schema::gpu_throttling.by_driver);
  std::map<std::pair<std::int64_t, std::string>, Throttled> by_source;
  for (std::size_t i = 0; i < rank.size(); ++i) {
    Throttled& sum = by_source[{rank[i], source[i]}];
    sum.rank = rank[i];
    sum.source = source[i];
    if (lowest[i] >= 0) sum.lowest_mhz = sum.lowest_mhz < 0 ? lowest[i] : std::min(sum.lowest_mhz, lowest[i]);
    ++sum.spans;
    sum.total_ns += end[i] - start[i];
    sum.by_driver = sum.by_driver || by_driver[i] != 0;
  }
  std::vector<Throttled> ranks;
  for (auto& [key, sum] : by_source) {
    if (ranks.empty() || ranks.back().rank != sum.rank) {
      ranks.push_back(std::move(sum));
    } else if (sum.total_ns > ranks.back().total_ns) {
      ranks.back() = std::move(sum);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const Throttled& a, const Throttled& b) { return a.total_ns > b.total_ns; });
  return ranks;
}

/// True where a GPU was slow for a moment only, as it is whenever it wakes up: what a twentieth of the time at lower
/// clocks costs is within what any run loses.
bool is_brief(const JobReport& report, const Throttled& one) {
  constexpr double worth_telling = 0.05;
  const auto rank = std::find_if(report.ranks.begin(), report.ranks.end(),
                                 [&](const RankSummary& summary) { return summary.trace_rank == one.rank; });
  return rank != report.ranks.end() && share(one.total_ns, rank->budget.window_ns) < worth_telling;
}

/// GPUs that ran below their clock, but those of which a finding tells that they are late, with their clocks.
void find_throttling(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t most_named = 8;
  const Table* const throttling = find_table(report.tables, schema::gpu_throttling);
  if (throttling == nullptr) return;
  const LateRanks told = late_by(report, {Cause::slow_kernel});
  std::vector<Throttled> ranks = throttled_ranks(*throttling);
  std::erase_if(ranks, [&](const Throttled& one) { return is_brief(report, one); });
  const auto more = std::erase_if(ranks, [&](const Throttled& one) { return is_among(told, one.rank); });
  if (ranks.empty()) return;
  std::vector<std::string> evidence;
  for (std::size_t i = 0; i < std::min(ranks.size(), most_named); ++i) {
    const Throttled& of_rank = ranks[i];
    const std::string lowest =
        of_rank.lowest_mhz >= 0 ? fmt::format(", SM clock down to {:.0f} MHz", of_rank.lowest_mhz) : std::string();
    evidence.push_back(fmt::format("rank {}: {} spans, {:.3f} s{} ({}){}", of_rank.rank, of_rank.spans,
                                   seconds(of_rank.total_ns), lowest, of_rank.source,
                                   of_rank.by_driver ? "; the driver gives a reason" : ""));
  }
  if (ranks.size() > most_named) evidence.emplace_back("table gpu_throttling has all");
  findings.push_back(
      {.id = "gpu-throttling",
       .severity = FindingSeverity::medium,
       .title = fmt::format("the {}{} {} ran slower than they can while they were used",
                            ranks.size() == 1 ? "GPU of 1" : fmt::format("GPUs of {}", ranks.size()),
                            more > 0 ? " more" : "", ranks.size() == 1 ? "rank" : "ranks"),
       .evidence = std::move(evidence),
       .recommendation =
           "compare power and temperature of these GPUs with their peers (nvidia-smi -q -d POWER,TEMPERATURE,PERFORMANCE), then power caps, cooling and the application clocks"});
}

}  // namespace

Question gpu_throttling() {
  return {.shown = {.table = schema::gpu_throttling.table_name(), .findings = {"gpu-throttling"}, .view = "strips"},
          .find = find_throttling};
}

}  // namespace nsys_explain::analysis::questions
