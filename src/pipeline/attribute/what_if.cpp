#include "pipeline/attribute/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "analysis/replay/replay.hpp"
#include "analysis/statistics/ratio_noise.hpp"
#include "analysis/statistics/statistics.hpp"
#include "clock/job_time.hpp"
#include "clock/level_zero.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::ActivityPiece;
using analysis::ReplayArrival;

/// Whose pieces and arrivals follow. Trivially copyable.
struct ReplayHeader {
  std::int64_t rank = 0;  ///< index of the trace rank
  std::int64_t pieces = 0, arrivals = 0;
};

/// All of one tool rank, or of all of them.
struct ReplayData {
  std::vector<ReplayHeader> headers;
  std::vector<ActivityPiece> pieces;
  std::vector<ReplayArrival> arrivals;
};

void add_arrivals(const LocalRank& rank, const clock::JobTime& job_time, std::vector<ReplayArrival>& arrivals) {
  const analysis::Path& path = rank.path;
  for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
    const analysis::PathArrival& arrival = path.arrivals[i];
    const analysis::Outcome& outcome = path.outcomes[i];
    ReplayArrival here;
    here.enter_ns = job_time(arrival.enter_ns);
    here.exit_ns = std::max(here.enter_ns, job_time(arrival.exit_ns));
    if (arrival.matched) here.instance = std::int64_t{outcome.communicator} << 32U | outcome.sequence;
    here.place = analysis::place_among_peers(path, i);
    here.step_place = analysis::step_among_peers(path, i);
    if (arrival.matched) here.met_place = path.role ^ static_cast<std::uint64_t>(here.instance) * 0x9E3779B97F4A7C15;
    here.own_place = analysis::place_among_steps(path, i);
    here.surplus_ns = arrival.surplus_ns;
    here.step = arrival.step;
    here.slow_link = outcome.slow_link;
    arrivals.push_back(here);
  }
}

void add_pieces(const LocalRank& rank, const clock::JobTime& job_time, Nanoseconds start_ns,
                std::span<const ReplayArrival> arrivals, std::vector<ActivityPiece>& pieces) {
  for (ActivityPiece piece : rank.pieces) {
    piece.start_ns = job_time(piece.start_ns + start_ns);
    piece.end_ns = std::max(piece.start_ns, job_time(piece.end_ns + start_ns));
    if (piece.kind == analysis::PieceKind::collective) {
      const ReplayArrival& arrival = arrivals[static_cast<std::size_t>(piece.arrival)];
      piece.start_ns = arrival.enter_ns;
      piece.end_ns = arrival.exit_ns;
    }
    pieces.push_back(piece);
  }
}

/// Collective: what all trace ranks waited for, on rank 0.
ReplayData gather_replay(const exchange::Communicator& communicator, const ReplaySetting& setting,
                         const std::vector<LocalTrace>& local_traces) {
  ReplayData mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const clock::JobTime job_time(setting.clock.sessions[rank.session], setting.clock.pivot_ns);
      const Nanoseconds start_ns =
          clock::session_start_ns(setting.job.sessions[rank.session], setting.job.epoch_utc_ns);
      mine.headers.push_back({static_cast<std::int64_t>(setting.job.index_of(rank.trace_rank)), std::ssize(rank.pieces),
                              std::ssize(rank.path.arrivals)});
      const std::size_t first = mine.arrivals.size();
      add_arrivals(rank, job_time, mine.arrivals);
      add_pieces(rank, job_time, start_ns, std::span(mine.arrivals).subspan(first), mine.pieces);
    }
  }
  ReplayData all;
  all.headers = communicator.gather(std::span<const ReplayHeader>(mine.headers)).values;
  all.pieces = communicator.gather(std::span<const ActivityPiece>(mine.pieces)).values;
  all.arrivals = communicator.gather(std::span<const ReplayArrival>(mine.arrivals)).values;
  return all;
}

std::vector<analysis::ReplayRank> ranks_of(const ReplayData& data, std::size_t trace_ranks) {
  std::vector<analysis::ReplayRank> ranks(trace_ranks);
  std::size_t piece = 0, arrival = 0;
  for (const ReplayHeader& header : data.headers) {
    const auto pieces = static_cast<std::size_t>(header.pieces), arrivals = static_cast<std::size_t>(header.arrivals);
    ranks[static_cast<std::size_t>(header.rank)] = {std::span(data.pieces).subspan(piece, pieces),
                                                    std::span(data.arrivals).subspan(arrival, arrivals)};
    piece += pieces;
    arrival += arrivals;
  }
  return ranks;
}

/// Who does not wait in the replay for those that it waited for tells nothing. With 1.8% of the arrivals unmatched, for
/// lost records, what was told was right; with 22% it was not.
bool can_tell(const ReplayData& data) {
  constexpr double most_unmatched = 0.05;
  const auto unmatched = std::count_if(data.arrivals.begin(), data.arrivals.end(),
                                       [](const ReplayArrival& arrival) { return arrival.instance < 0; });
  const auto folded = std::count_if(data.pieces.begin(), data.pieces.end(), [](const ActivityPiece& piece) {
    return piece.kind == analysis::PieceKind::collective;
  });
  const auto all = static_cast<double>(data.arrivals.size());
  return all > 0 && static_cast<double>(unmatched) <= most_unmatched * all &&
         static_cast<double>(folded) >= (1 - most_unmatched) * all;
}

/// From the latest exit of one step to that of the next; steps that hold none are left out.
std::vector<double> step_durations(const analysis::ReplayedTime& replayed, Nanoseconds start_ns) {
  std::vector<double> durations;
  Nanoseconds before_ns = start_ns;
  for (const Nanoseconds end_ns : replayed.step_ends_ns) {
    if (end_ns == no_time) continue;
    durations.push_back(static_cast<double>(end_ns - before_ns));
    before_ns = end_ns;
  }
  return durations;
}

/// What a replay tells, as it travels to all tool ranks. Trivially copyable.
struct ReplayedShares {
  double saved = 0, low = 0, high = 0;
  Nanoseconds step_before_ns = 0, step_after_ns = 0;
};

ReplayedShares compare_replays(const analysis::ReplayedTime& measured, const analysis::ReplayedTime& replayed,
                               Nanoseconds start_ns) {
  ReplayedShares shares;
  const auto elapsed_ns = static_cast<double>(measured.end_ns - start_ns);
  if (elapsed_ns <= 0) return shares;
  shares.saved = static_cast<double>(measured.end_ns - replayed.end_ns) / elapsed_ns;
  const std::vector<double> before = step_durations(measured, start_ns), after = step_durations(replayed, start_ns);
  std::vector<double> saved;
  for (std::size_t s = 0; s < before.size(); ++s)
    saved.push_back((before[s] - after[s]) / (elapsed_ns / static_cast<double>(before.size())));
  // The replay's own error: with it 96% of the intervals hold what the job without the fault takes (74 simulated jobs
  // of tests/scans/what_if.py, seeds 300 to 308 and 500 to 509).
  constexpr double own_error = 0.0005;
  const double half_width = analysis::mean_half_width(saved) + own_error;
  shares.low = shares.saved - half_width;
  shares.high = shares.saved + half_width;
  if (before.empty()) return shares;
  const auto steps = static_cast<std::int64_t>(before.size());
  shares.step_before_ns = (measured.end_ns - start_ns) / steps;
  shares.step_after_ns = (replayed.end_ns - start_ns) / steps;
  return shares;
}

/// What to replay: of whom it tells, without the results.
std::vector<WhatIf> scenarios_of(const JobReport& report) {
  std::vector<WhatIf> scenarios;
  const auto add = [&](const Straggler& late, const char* finding) {
    WhatIf what_if;
    what_if.subject = late.level == Level::gpu ? "trace_rank" : "place";
    what_if.trace_ranks = late.trace_ranks;
    what_if.finding = finding;
    scenarios.push_back(std::move(what_if));
  };
  for (const Straggler& straggler : report.stragglers) add(straggler, "straggler");
  if (!report.stragglers.empty()) {
    WhatIf all;
    all.subject = "all";
    for (const WhatIf& one : scenarios)
      all.trace_ranks.insert(all.trace_ranks.end(), one.trace_ranks.begin(), one.trace_ranks.end());
    std::sort(all.trace_ranks.begin(), all.trace_ranks.end());
    all.trace_ranks.erase(std::unique(all.trace_ranks.begin(), all.trace_ranks.end()), all.trace_ranks.end());
    scenarios.push_back(std::move(all));
  }
  for (const SuspectedStraggler& suspect : report.suspects) add(suspect.late, "");
  for (const SlowLink& link : report.slow_links) {
    WhatIf what_if;
    what_if.subject = "link";
    what_if.trace_ranks = link.trace_ranks;
    what_if.finding = "slow-link";
    scenarios.push_back(std::move(what_if));
  }
  return scenarios;
}

/// Rank 0 holds all of them, which takes some 160 MB.
constexpr std::int64_t most_arrivals = 1'000'000;

std::int64_t arrivals_of(const std::vector<LocalTrace>& local_traces) {
  std::int64_t arrivals = 0;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) arrivals += std::ssize(rank.path.arrivals);
  }
  return arrivals;
}

}  // namespace

void replay_scenarios(const exchange::Communicator& communicator, const ReplaySetting& setting,
                      const std::vector<LocalTrace>& local_traces, JobReport& report) {
  constexpr const char* sources[] = {"none", "nvtx", "order"};
  report.step_time.source = sources[static_cast<std::size_t>(setting.steps.source)];
  if (const std::int64_t arrivals = communicator.sum(arrivals_of(local_traces)); arrivals > most_arrivals) {
    report.warnings.push_back(
        {Severity::info, WarningSource::analysis, arrivals,
         fmt::format("arrivals are more than the {} that one tool rank replays, so what mending would save is not "
                     "told; analyse a part of the run (--steps)",
                     most_arrivals)});
    return;
  }
  const ReplayData data = gather_replay(communicator, setting, local_traces);
  report.what_if = scenarios_of(report);  // those of links on rank 0 only, where the links are
  std::vector<ReplayedShares> results;
  std::vector<std::int64_t> steps(5, 0);  // how many, median, p95; the replay's error in 1e-9, and 1: it is known
  if (communicator.is_root() && can_tell(data)) {
    const analysis::Replay replay(ranks_of(data, setting.job.numbers.size()), setting.steps.start_ns.size());
    const analysis::ReplayedTime measured = replay.measured();
    for (const WhatIf& what_if : report.what_if) {
      analysis::Scenario scenario;
      std::vector<std::size_t>& mended = what_if.subject == "link" ? scenario.links : scenario.ranks;
      for (const std::int32_t rank : what_if.trace_ranks) mended.push_back(setting.job.index_of(rank));
      results.push_back(compare_replays(measured, replay.run(scenario), replay.start_ns()));
    }
    std::vector<std::int64_t> durations;
    for (const double duration : step_durations(measured, replay.start_ns()))
      durations.push_back(std::llround(duration));
    std::sort(durations.begin(), durations.end());
    steps[0] = std::ssize(durations);
    if (!durations.empty()) {
      steps[1] = std::llround(analysis::percentile(durations, 0.5));
      steps[2] = std::llround(analysis::percentile(durations, 0.95));
    }
    const auto elapsed_ns = static_cast<double>(replay.end_ns() - replay.start_ns());
    if (elapsed_ns > 0) {
      steps[3] = std::llround(1e9 * static_cast<double>(measured.end_ns - replay.end_ns()) / elapsed_ns);
      steps[4] = 1;
    }
  }
  steps = communicator.broadcast(std::span<const std::int64_t>(steps));
  report.step_time.steps = steps[0];
  report.step_time.median_ns = steps[1];
  report.step_time.p95_ns = steps[2];
  if (steps[4] > 0) report.step_time.replay_error = static_cast<double>(steps[3]) / 1e9;
  results = communicator.broadcast(std::span<const ReplayedShares>(results));
  report.what_if.resize(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    WhatIf& what_if = report.what_if[i];
    std::tie(what_if.saved_share, what_if.low_share, what_if.high_share, what_if.step_ns_before,
             what_if.step_ns_after) = std::tie(results[i].saved, results[i].low, results[i].high,
                                               results[i].step_before_ns, results[i].step_after_ns);
  }
}

}  // namespace nsys_explain::pipeline
