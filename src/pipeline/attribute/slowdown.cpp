#include "pipeline/attribute/slowdown.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>

namespace nsys_explain::pipeline {
namespace {

using analysis::Scenario;

/// Trace ranks whose part is replayed: those that work most beyond what is usual.
constexpr std::size_t most_ranks = 16;

/// The share of the trace ranks whose part in the slowdown is M_W.
constexpr double worst_share = 0.03;

std::vector<std::size_t> all_but(std::size_t ranks, std::span<const std::size_t> these) {
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < ranks; ++r)
    if (std::find(these.begin(), these.end(), r) == these.end()) others.push_back(r);
  return others;
}

/// Without launch gaps, the work of these trace ranks and the transfers as is usual.
Scenario ideal_but(std::size_t ranks, std::span<const std::size_t> these, analysis::TransferTime transfers) {
  Scenario scenario;
  scenario.ranks = all_but(ranks, these);
  scenario.transfers = transfers;
  scenario.has_launch_gaps = false;
  return scenario;
}

std::vector<std::size_t> ranks_by_excess(const analysis::JobGraph& graph, const analysis::Replay& replay) {
  std::vector<Nanoseconds> excess_ns(graph.ranks.size(), 0);
  for (std::size_t p = 0; p < graph.pieces(); ++p)
    if (graph.piece(p).kind == analysis::PieceKind::compute) excess_ns[graph.rank_of[p]] += replay.excess()[p].gpu_ns;
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

/// What these trace ranks as usual would save of what all and the transfers as usual would.
void add_shares_saved(const JobReplay& job, std::span<const std::size_t> worst_ranks,
                      std::span<const std::size_t> last_stage, Slowdown& slowdown) {
  const Nanoseconds to_save_ns = slowdown.without_launch_gaps_ns - slowdown.ideal_ns;
  if (to_save_ns <= 0) return;
  const std::size_t ranks = job.graph().ranks.size();
  std::vector<Scenario> scenarios;
  for (const std::span<const std::size_t> mended : {worst_ranks, last_stage})
    scenarios.push_back(ideal_but(ranks, all_but(ranks, mended), analysis::TransferTime::measured));
  const std::vector<analysis::ReplayedTime> replayed = job.run(scenarios);
  const auto share_saved = [&](std::size_t i) {
    const Nanoseconds mended_ns = replayed[i].end_ns - job.graph().start_ns;
    return static_cast<double>(slowdown.without_launch_gaps_ns - mended_ns) / static_cast<double>(to_save_ns);
  };
  if (!worst_ranks.empty()) slowdown.worst_ranks_share = share_saved(0);
  if (!last_stage.empty()) slowdown.last_stage_share = share_saved(1);
}

}  // namespace

std::optional<Slowdown> measure_slowdown(const JobReplay& job, const ReplaySetting& setting) {
  using analysis::TransferTime;
  const analysis::JobGraph& graph = job.graph();
  const std::size_t ranks = graph.ranks.size();
  std::vector<std::size_t> every(ranks);
  std::iota(every.begin(), every.end(), std::size_t{0});
  std::vector<std::size_t> most_excess = ranks_by_excess(graph, job.replay());
  most_excess.resize(std::min(most_excess.size(), most_ranks));
  std::vector<Scenario> scenarios = {
      ideal_but(ranks, every, TransferTime::measured), ideal_but(ranks, {}, TransferTime::usual),
      ideal_but(ranks, every, TransferTime::usual), ideal_but(ranks, {}, TransferTime::measured)};
  for (const std::size_t& r : most_excess) scenarios.push_back(ideal_but(ranks, std::span(&r, 1), TransferTime::usual));
  std::vector<Nanoseconds> elapsed_ns;
  for (const analysis::ReplayedTime& replayed : job.run(scenarios))
    elapsed_ns.push_back(replayed.end_ns - graph.start_ns);

  Slowdown slowdown;
  slowdown.measured_ns = job.measured().end_ns - graph.start_ns;
  slowdown.without_launch_gaps_ns = elapsed_ns[0];
  slowdown.ideal_ns = elapsed_ns[1];
  if (slowdown.ideal_ns <= 0 || slowdown.without_launch_gaps_ns <= 0) return std::nullopt;
  const auto slowed = [&](std::size_t scenario) {
    return static_cast<double>(elapsed_ns[scenario]) / static_cast<double>(slowdown.ideal_ns);
  };
  slowdown.by.push_back({"operation", "compute", slowed(2)});
  slowdown.by.push_back({"operation", "transfer", slowed(3)});
  std::vector<std::pair<double, std::size_t>> worst;
  for (std::size_t i = 0; i < most_excess.size(); ++i) worst.emplace_back(-slowed(4 + i), most_excess[i]);
  std::sort(worst.begin(), worst.end());
  for (const auto& [negated, r] : worst)
    slowdown.by.push_back({"trace_rank", std::to_string(setting.job.numbers[r]), -negated});
  worst.resize(std::min(worst.size(), static_cast<std::size_t>(std::ceil(worst_share * static_cast<double>(ranks)))));
  std::vector<std::size_t> worst_ranks;
  for (const auto& [negated, r] : worst) worst_ranks.push_back(r);
  add_shares_saved(job, worst_ranks, last_stage(setting), slowdown);
  return slowdown;
}

}  // namespace nsys_explain::pipeline
