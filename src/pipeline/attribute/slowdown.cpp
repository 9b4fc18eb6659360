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

}  // namespace

std::optional<Slowdown> measure_slowdown(const analysis::JobGraph& graph, const analysis::Replay& replay,
                                         const analysis::ReplayedTime& measured, const ReplaySetting& setting) {
  using analysis::TransferTime;
  const std::size_t ranks = graph.ranks.size();
  std::vector<std::size_t> every(ranks);
  std::iota(every.begin(), every.end(), std::size_t{0});
  const auto elapsed_ns = [&](const Scenario& scenario) { return replay.run(scenario).end_ns - graph.start_ns; };
  Slowdown slowdown;
  slowdown.measured_ns = measured.end_ns - graph.start_ns;
  slowdown.without_launch_gaps_ns = elapsed_ns(ideal_but(ranks, every, TransferTime::measured));
  slowdown.ideal_ns = elapsed_ns(ideal_but(ranks, {}, TransferTime::usual));
  if (slowdown.ideal_ns <= 0 || slowdown.without_launch_gaps_ns <= 0) return std::nullopt;
  const auto slowed = [&](const Scenario& scenario) {
    return static_cast<double>(elapsed_ns(scenario)) / static_cast<double>(slowdown.ideal_ns);
  };
  slowdown.by.push_back({"operation", "compute", slowed(ideal_but(ranks, every, TransferTime::usual))});
  slowdown.by.push_back({"operation", "transfer", slowed(ideal_but(ranks, {}, TransferTime::measured))});
  std::vector<std::pair<double, std::size_t>> worst;
  for (const std::size_t r : ranks_by_excess(graph, replay)) {
    if (worst.size() == most_ranks) break;
    worst.emplace_back(-slowed(ideal_but(ranks, std::span(&r, 1), TransferTime::usual)), r);
  }
  std::sort(worst.begin(), worst.end());
  for (const auto& [negated, r] : worst)
    slowdown.by.push_back({"trace_rank", std::to_string(setting.job.numbers[r]), -negated});
  const Nanoseconds to_save_ns = slowdown.without_launch_gaps_ns - slowdown.ideal_ns;
  const auto share_saved_by = [&](std::span<const std::size_t> these) -> std::optional<double> {
    if (to_save_ns <= 0 || these.empty()) return std::nullopt;
    const Nanoseconds mended_ns = elapsed_ns(ideal_but(ranks, all_but(ranks, these), TransferTime::measured));
    return static_cast<double>(slowdown.without_launch_gaps_ns - mended_ns) / static_cast<double>(to_save_ns);
  };
  worst.resize(std::min(worst.size(), static_cast<std::size_t>(std::ceil(worst_share * static_cast<double>(ranks)))));
  std::vector<std::size_t> worst_ranks;
  for (const auto& [negated, r] : worst) worst_ranks.push_back(r);
  slowdown.worst_ranks_share = share_saved_by(worst_ranks);
  slowdown.last_stage_share = share_saved_by(last_stage(setting));
  return slowdown;
}

}  // namespace nsys_explain::pipeline
