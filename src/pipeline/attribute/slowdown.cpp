#include "pipeline/attribute/slowdown.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace nsys_explain::pipeline {
namespace {

using analysis::Scenario;

/// Trace ranks that are replayed: those that work most beyond what is usual.
constexpr std::size_t most_ranks = 16;

/// The share of the trace ranks whose part in the slowdown is M_W.
constexpr double worst_share = 0.03;

std::vector<std::size_t> ranks_by_excess(const analysis::JobGraph& graph, const analysis::Replay& replay) {
  std::vector<Nanoseconds> excess_ns(graph.ranks.size(), 0);
  Nanoseconds host_before_ns = 0;  // a piece's holds that of those before it since the host's latest wait
  for (std::size_t p = 0; p < graph.pieces(); ++p) {
    const analysis::PieceExcess& here = replay.excess()[p];
    if (p == graph.first_piece[graph.rank_of[p]]) host_before_ns = 0;
    excess_ns[graph.rank_of[p]] += here.gpu_ns + here.after_ns + here.host_ns - host_before_ns;
    host_before_ns = graph.piece(p).kind == analysis::PieceKind::host_wait ? 0 : here.host_ns;
  }
  std::vector<std::size_t> ranks(graph.ranks.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::stable_sort(ranks.begin(), ranks.end(),
                   [&](std::size_t a, std::size_t b) { return excess_ns[a] > excess_ns[b]; });
  return ranks;
}

std::vector<std::size_t> last_stage(const ReplaySetting& setting) {
  const analysis::Grouping* const stages = analysis::find_grouping(setting.groupings, Level::pipeline_stage);
  if (stages == nullptr) return {};
  const auto by_number = [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  };
  const std::string last = *std::max_element(stages->place_of_rank.begin(), stages->place_of_rank.end(), by_number);
  std::vector<std::size_t> ranks;
  for (std::size_t r = 0; r < stages->place_of_rank.size(); ++r)
    if (stages->place_of_rank[r] == last) ranks.push_back(r);
  return ranks;
}

/// What groups of trace ranks as usual save of what the ideal job does; empty of nobody.
std::vector<std::optional<double>> parts_saved(const JobReplay& job,
                                               const std::vector<std::vector<std::size_t>>& groups, double to_save) {
  std::vector<Scenario> mended;
  for (const std::vector<std::size_t>& ranks : groups) mended.push_back({.ranks = ranks});
  const std::vector<analysis::ReplayedTime> replayed = job.run(mended);
  std::vector<std::optional<double>> parts(groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (!groups[g].empty() && to_save > 0)
      parts[g] = std::min(1.0, job.saving(job.measured(), replayed[g]).share / to_save);
  return parts;
}

/// Scenarios before those of single trace ranks.
enum Of : std::size_t { ideal, without_launch_gaps, usual_work, usual_transfers, first_rank };

}  // namespace

std::vector<Scenario> slowdown_scenarios(const JobReplay& job) {
  using analysis::TransferTime;
  std::vector<std::size_t> every(job.graph().ranks.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  std::vector<std::size_t> most_excess = ranks_by_excess(job.graph(), job.replay());
  most_excess.resize(std::min(most_excess.size(), most_ranks));
  std::vector<Scenario> scenarios(first_rank);
  scenarios[ideal] = {.ranks = every, .transfers = TransferTime::usual};
  scenarios[without_launch_gaps] = {.has_launch_gaps = false};
  scenarios[usual_work] = {.ranks = every};
  scenarios[usual_transfers] = {.transfers = TransferTime::usual};
  for (const std::size_t r : most_excess) scenarios.push_back({.ranks = {r}});
  return scenarios;
}

std::optional<Slowdown> measure_slowdown(const JobReplay& job, const ReplaySetting& setting,
                                         std::span<const Scenario> scenarios,
                                         std::span<const analysis::ReplayedTime> replayed) {
  Slowdown slowdown;
  slowdown.measured_ns = job.elapsed_ns(job.measured());
  const auto elapsed_ns = [&](std::size_t i) { return std::min(job.elapsed_ns(replayed[i]), slowdown.measured_ns); };
  slowdown.ideal_ns = elapsed_ns(ideal);
  slowdown.without_launch_gaps_ns = elapsed_ns(without_launch_gaps);
  if (slowdown.ideal_ns <= 0 || slowdown.without_launch_gaps_ns <= 0) return std::nullopt;
  const auto slowed_by = [&](std::size_t i) {
    return static_cast<double>(slowdown.measured_ns) / static_cast<double>(std::max<Nanoseconds>(1, elapsed_ns(i)));
  };
  slowdown.by.push_back({"operation", "compute", slowed_by(usual_work)});
  slowdown.by.push_back({"operation", "transfer", slowed_by(usual_transfers)});
  std::vector<std::pair<double, std::size_t>> worst;
  for (std::size_t i = first_rank; i < scenarios.size(); ++i)
    worst.emplace_back(-slowed_by(i), scenarios[i].ranks.front());
  std::sort(worst.begin(), worst.end());
  for (const auto& [negated, r] : worst)
    slowdown.by.push_back({"trace_rank", std::to_string(setting.job.numbers[r]), -negated});
  const double share = worst_share * static_cast<double>(job.graph().ranks.size());
  worst.resize(std::min(worst.size(), static_cast<std::size_t>(std::ceil(share))));
  std::vector<std::size_t> worst_ranks;
  for (const auto& [negated, r] : worst) worst_ranks.push_back(r);
  const double to_save = job.saving(job.measured(), replayed[ideal]).share;
  const auto parts = parts_saved(job, {worst_ranks, last_stage(setting)}, to_save);
  slowdown.worst_ranks_share = parts[0];
  slowdown.last_stage_share = parts[1];
  return slowdown;
}

}  // namespace nsys_explain::pipeline
