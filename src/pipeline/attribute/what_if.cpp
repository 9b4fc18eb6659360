#include "pipeline/attribute/what_if.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "analysis/causes/causes.hpp"
#include "analysis/replay/critical_path.hpp"
#include "analysis/replay/replay.hpp"
#include "analysis/replay/saving.hpp"
#include "analysis/replay/stage_times.hpp"
#include "analysis/statistics/statistics.hpp"
#include "nsys_explain/model/report_parts.hpp"
#include "pipeline/attribute/gathered_job.hpp"
#include "pipeline/attribute/job_replay.hpp"

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

/// What measure_slowdown needs, of a job that is replayed here.
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

/// `replayed`: the scenarios of slowdown_scenarios(). Empty where nothing took time.
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

/// `unmended`: the job that the replay is compared with. False where nothing can be told.
bool set_saving(const JobReplay& job, const analysis::ReplayedTime& unmended, const analysis::ReplayedTime& replayed,
                WhatIf& what_if) {
  const analysis::Saving saving = job.saving(unmended, replayed);
  if (!job.tells(saving)) return false;
  what_if.saved_share = saving.share;
  what_if.low_share = saving.low;
  what_if.high_share = saving.high;
  what_if.pauses = saving.pauses;
  what_if.pauses_ns = saving.pauses_ns;
  const auto steps = static_cast<std::int64_t>(job.steps_of(unmended).lengths_ns.size());
  if (steps == 0) return true;
  what_if.step_ns_before = job.elapsed_ns(unmended) / steps;
  what_if.step_ns_after = std::min(what_if.step_ns_before, job.elapsed_ns(replayed) / steps);
  return true;
}

/// What to replay, and of whom it tells.
struct PlannedScenario {
  WhatIf what_if;
  analysis::Scenario scenario{};
};

PlannedScenario planned(std::string subject, std::vector<std::int32_t> trace_ranks, std::string finding) {
  PlannedScenario one;
  one.what_if.subject = std::move(subject);
  one.what_if.trace_ranks = std::move(trace_ranks);
  one.what_if.finding = std::move(finding);
  return one;
}

std::vector<std::size_t> indices_of(const JobRanks& job, std::span<const std::int32_t> trace_ranks) {
  std::vector<std::size_t> indices;
  for (const std::int32_t rank : trace_ranks) indices.push_back(job.index_of(rank));
  return indices;
}

/// Those who are late, or were for once, and slow links, as usual.
std::vector<PlannedScenario> scenarios_of_culprits(const JobReport& report, const JobRanks& job) {
  std::vector<PlannedScenario> scenarios;
  const auto subject_of = [](const Straggler& late) { return late.level == Level::gpu ? "trace_rank" : "place"; };
  std::set<std::int32_t> all;
  for (const Straggler& straggler : report.stragglers) {
    scenarios.push_back(planned(subject_of(straggler), straggler.trace_ranks,
                                straggler.behind.empty() ? "straggler" : "hidden-straggler"));
    scenarios.back().what_if.after = straggler.behind;
    all.insert(straggler.trace_ranks.begin(), straggler.trace_ranks.end());
  }
  if (!all.empty()) scenarios.push_back(planned("all", {all.begin(), all.end()}, ""));
  for (const SuspectedStraggler& suspect : report.suspects) {
    scenarios.push_back(planned(subject_of(suspect.late), suspect.late.trace_ranks, ""));
    scenarios.back().what_if.after = suspect.late.behind;
  }
  if (const std::optional<std::int32_t> alone = analysis::waited_for_alone(report.long_waits))
    scenarios.push_back(planned("trace_rank", {*alone}, "long-waits"));
  for (const SlowLink& link : report.slow_links) scenarios.push_back(planned("link", link.trace_ranks, "slow-link"));
  for (PlannedScenario& one : scenarios) {
    std::vector<std::size_t>& mended = one.what_if.subject == "link" ? one.scenario.links : one.scenario.ranks;
    mended = indices_of(job, one.what_if.trace_ranks);
    const std::vector<std::size_t> before = indices_of(job, one.what_if.after);
    mended.insert(mended.end(), before.begin(), before.end());
  }
  return scenarios;
}

/// All stages of a pipeline compute as long as they do on average; nothing where there is none.
std::optional<PlannedScenario> balance_stages(const analysis::JobGraph& graph, const ReplaySetting& setting) {
  const analysis::Grouping* const stages = analysis::find_grouping(setting.groupings, Level::pipeline_stage);
  if (stages == nullptr) return std::nullopt;
  const analysis::StageTimes times = analysis::measure_stages(graph, stages->place_of_rank);
  if (times.gpu_factors.empty()) return std::nullopt;
  PlannedScenario balanced = planned("stage_balanced", {}, "longest-stage");
  for (std::size_t r = 0; r < stages->place_of_rank.size(); ++r)
    if (stages->place_of_rank[r] == times.longest) balanced.what_if.trace_ranks.push_back(setting.job.numbers[r]);
  balanced.scenario.gpu_factors = times.gpu_factors;
  return balanced;
}

/// What changes for all trace ranks.
std::vector<PlannedScenario> scenarios_of_all(const analysis::JobGraph& graph, const analysis::Replay& replay,
                                              const ReplaySetting& setting) {
  std::vector<PlannedScenario> scenarios;
  if (std::optional<PlannedScenario> balanced = balance_stages(graph, setting))
    scenarios.push_back(*std::move(balanced));
  scenarios.push_back(planned("work_balanced", {}, ""));
  scenarios.back().scenario.usual = analysis::Usual::mean;
  scenarios.push_back(planned("no_launch_gaps", {}, ""));
  scenarios.back().scenario.has_launch_gaps = false;
  scenarios.push_back(planned("communication_hidden", {}, "exposed-communication"));
  scenarios.back().scenario.transfers = analysis::TransferTime::none;
  if (replay.has_groups_alike()) {
    scenarios.push_back(planned("best_group", {}, ""));
    scenarios.back().scenario.transfers = analysis::TransferTime::best_group;
  }
  return scenarios;
}

/// What somebody late costs is what the replay saves without it.
void price(const std::vector<WhatIf>& what_if, std::size_t ranks, Straggler& late) {
  const auto mended = std::find_if(what_if.begin(), what_if.end(), [&](const WhatIf& one) {
    return (one.subject == "trace_rank" || one.subject == "place") && one.trace_ranks == late.trace_ranks &&
           one.after == late.behind;
  });
  if (mended == what_if.end()) return;
  late.cost_share = mended->saved_share;
  late.gpu_hours_per_day = late.cost_share * static_cast<double>(24 * ranks);
}

/// From exit to exit, where all steps are replayed; else it stays from begin to begin.
void measure_step_time(const JobReplay& job, StepTime& time) {
  std::vector<std::int64_t> durations;
  for (const double duration : job.steps_of(job.measured()).lengths_ns) durations.push_back(std::llround(duration));
  std::sort(durations.begin(), durations.end());
  if (job.is_whole()) time.steps = std::ssize(durations);
  if (job.is_whole() && !durations.empty()) {
    time.median_ns = std::llround(analysis::percentile(durations, 0.5));
    time.p95_ns = std::llround(analysis::percentile(durations, 0.95));
  }
  if (job.error().steps > 0) {
    time.replay_error = job.error().median;
    time.replay_error_p90 = job.error().most;
  }
  time.inferred_edges = job.graph().inferred_share();
}

CriticalPath critical_path_of(const analysis::JobGraph& graph, const analysis::ReplayedTime& measured,
                              const ReplaySetting& setting) {
  CriticalPath path{analysis::find_critical_path(graph), {}};
  path.by_step = analysis::share_by_step(path.segments, measured.step_ends_ns);
  const auto number_of = [&](std::int32_t index) { return setting.job.numbers[static_cast<std::size_t>(index)]; };
  for (CriticalSegment& segment : path.segments) segment.trace_rank = number_of(segment.trace_rank);
  for (CriticalShare& share : path.by_step) {
    share.trace_rank = number_of(share.trace_rank);
    if (share.step >= 0) share.step += setting.steps.first_number;
  }
  return path;
}

}  // namespace

analysis::SavedByRank saved_besides_told(const JobReplay& replay, const JobRanks& job, const JobReport& report) {
  std::vector<std::size_t> told;
  const auto add = [&](std::span<const std::int32_t> trace_ranks) {
    const std::vector<std::size_t> indices = indices_of(job, trace_ranks);
    told.insert(told.end(), indices.begin(), indices.end());
  };
  for (const Straggler& straggler : report.stragglers) add(straggler.trace_ranks);
  for (const SlowLink& link : report.slow_links) add(link.trace_ranks);
  return [&replay, &job, told](std::int32_t trace_rank) -> std::optional<double> {
    std::vector<std::size_t> with = told;
    with.push_back(job.index_of(trace_rank));
    const std::optional<double> saved_by_all = replay.saved_share(with), saved_by_told = replay.saved_share(told);
    if (!saved_by_all || !saved_by_told) return std::nullopt;
    return *saved_by_all - *saved_by_told;
  };
}

void replay_scenarios(const JobReplay& job, const ReplaySetting& setting, JobReport& report) {
  constexpr const char* sources[] = {"none", "nvtx", "order"};
  report.step_time.source = sources[static_cast<std::size_t>(setting.steps.source)];
  if (job.too_many_arrivals() > 0) {
    report.warnings.push_back(
        {Severity::info, WarningSource::analysis, job.too_many_arrivals(),
         job.sampled_steps() > 0
             ? fmt::format(
                   "arrivals are more than one tool rank replays: what mending would save is told of {} of {} steps, spread evenly; what happens in few steps may be missed there; for all of a part of the run use --steps",
                   job.sampled_steps(), setting.steps.start_ns.size())
             : "arrivals are more than one tool rank replays, so what mending would save is not told, and who is late is judged by what others wait; analyse a part of the run (--steps)"});
  }
  if (const std::int64_t contradicted = job.contradicted_waits(); contradicted > 0) {
    report.warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, contradicted,
         "calls that synchronise hold launches of the same thread, which cannot launch while it waits, so what the hosts waited for is not known: what mending would save is not told, and who is late is judged by what others wait; export the capture anew, or look for a program that changed it"});
  }
  if (!job.is_here()) return;
  if (job.is_whole()) report.critical_path = critical_path_of(job.graph(), job.measured(), setting);
  if (report.instances == 0) return;  // one trace rank without collectives: there is nobody to mend
  std::vector<PlannedScenario> scenarios = scenarios_of_culprits(report, setting.job);
  for (PlannedScenario& one : scenarios_of_all(job.graph(), job.replay(), setting)) scenarios.push_back(std::move(one));
  std::vector<analysis::Scenario> to_run;
  for (const PlannedScenario& one : scenarios) to_run.push_back(one.scenario);
  for (const PlannedScenario& one : scenarios)  // behind these, what some of them are compared with
    if (!one.what_if.after.empty()) to_run.push_back({.ranks = indices_of(setting.job, one.what_if.after)});
  const std::vector<analysis::Scenario> of_slowdown = slowdown_scenarios(job);
  const std::size_t first_of_slowdown = to_run.size();
  to_run.insert(to_run.end(), of_slowdown.begin(), of_slowdown.end());
  const std::vector<analysis::ReplayedTime> replayed = job.run(to_run);
  std::size_t next_unmended = scenarios.size();
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    WhatIf& what_if = scenarios[i].what_if;
    const analysis::ReplayedTime& unmended = what_if.after.empty() ? job.measured() : replayed[next_unmended++];
    if (set_saving(job, unmended, replayed[i], what_if)) report.what_if.push_back(std::move(what_if));
  }
  for (Straggler* late : everybody_late(report.stragglers, report.suspects))
    price(report.what_if, job.graph().ranks.size(), *late);
  report.slowdown = measure_slowdown(job, setting, of_slowdown, std::span(replayed).subspan(first_of_slowdown));
  measure_step_time(job, report.step_time);
}

}  // namespace nsys_explain::pipeline
