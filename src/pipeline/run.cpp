#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <set>

#include <fmt/format.h>

#include "attribution.hpp"
#include "cross_rank.hpp"
#include "heap.hpp"
#include "inputs.hpp"
#include "investigation.hpp"
#include "job_clock.hpp"
#include "job_ranks.hpp"
#include "link_analysis.hpp"
#include "local_traces.hpp"
#include "member_tables.hpp"
#include "memory_budget.hpp"
#include "nsys_explain/analysis/activity_summary.hpp"
#include "nsys_explain/analysis/findings.hpp"
#include "nsys_explain/analysis/level_sums.hpp"
#include "nsys_explain/analysis/link_peaks.hpp"
#include "nsys_explain/analysis/link_summary.hpp"
#include "nsys_explain/analysis/messages.hpp"
#include "nsys_explain/analysis/run_facts.hpp"
#include "nsys_explain/analysis/stage_balance.hpp"
#include "nsys_explain/analysis/waits.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/pipeline/job.hpp"
#include "nsys_explain/report/report.hpp"
#include "outputs.hpp"
#include "partial_report.hpp"
#include "phases.hpp"
#include "progress.hpp"
#include "rank_comparison.hpp"
#include "rank_tables.hpp"
#include "report_detail.hpp"
#include "tables.hpp"
#include "threads.hpp"
#include "timeline.hpp"
#include "topology.hpp"
#include "unfinished_run.hpp"
#include "user_options.hpp"
#include "watch.hpp"

namespace nsys_explain::pipeline {
namespace {

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Sums equal warnings, orders them by severity, then source and message.
std::vector<Warning> tidy_warnings(std::vector<Warning> warnings) {
  const auto key = [](const Warning& w) {
    return std::tuple(-static_cast<int>(w.severity), w.source, std::string_view(w.message));
  };
  std::sort(warnings.begin(), warnings.end(), [&](const Warning& a, const Warning& b) { return key(a) < key(b); });
  std::vector<Warning> tidy;
  for (Warning& warning : warnings) {
    if (!tidy.empty() && key(tidy.back()) == key(warning)) {
      tidy.back().count += warning.count;
    } else {
      tidy.push_back(std::move(warning));
    }
  }
  return tidy;
}

std::vector<CommunicatorSummary> summarise_communicators(const CrossRank& cross, const analysis::Totals& totals) {
  std::vector<CommunicatorSummary> rows;
  for (std::size_t c = 0; c < cross.communicators.size(); ++c) {
    const collectives::PlannedCommunicator& planned = cross.communicators[c];
    const analysis::CommunicatorTotals& total = totals.communicators[c];
    rows.push_back({planned.name, planned.given_name, planned.source_key, planned.trace_ranks, planned.size,
                    total.instances, total.complete, total.instances - total.complete, total.unmatched_arrivals,
                    planned.evidence});
  }
  return rows;
}

void add_missing_rank_warnings(const JobReport& report, std::vector<Warning>& warnings) {
  for (const CommunicatorSummary& communicator : report.communicators) {
    const auto seen = static_cast<std::int32_t>(communicator.trace_ranks.size());
    if (seen == communicator.size) continue;
    warnings.push_back(
        {Severity::data_loss, WarningSource::analysis, communicator.size - seen,
         fmt::format("members of communicator {} have no trace ({} of {} seen): who they made wait, and whether "
                     "they came last, cannot be told; add their traces",
                     communicator.name, seen, communicator.size)});
  }
}

std::vector<analysis::Grouping> groupings_of(const JobRanks& job, const CrossRank& cross,
                                             std::span<const analysis::CommunicatorTotals> totals,
                                             const RackOfHost& racks) {
  std::vector<analysis::Grouping> groupings = hardware_groupings(job.trace_ranks, racks);
  const auto communicators = layout_communicators(cross.communicators, totals, job.numbers);
  for (analysis::Grouping& grouping : analysis::layout_groupings(job.numbers.size(), communicators))
    groupings.push_back(std::move(grouping));
  return groupings;
}

JobReport make_report(const JobRanks& job, const ClockReport& clock, const CrossRank& cross,
                      const analysis::Totals& totals, Verdict verdict, LinkAnalysis links,
                      std::vector<Table> rank_tables, const std::vector<analysis::LinkPeak>& link_peaks) {
  JobReport report;
  report.epoch_utc_ns = job.epoch_utc_ns;
  report.inputs = job.inputs;
  report.sessions = job.sessions;
  report.trace_ranks = job.trace_ranks;
  report.run_facts = analysis::summarise_run_facts(rank_tables);
  report.clock = clock;
  report.communicators = summarise_communicators(cross, totals);
  report.withheld_arrivals = cross.withheld_arrivals;
  report.clock.violations = 0;
  for (std::size_t c = 0; c < report.communicators.size(); ++c) {
    report.instances += report.communicators[c].instances;
    report.complete += report.communicators[c].complete;
    report.partial += report.communicators[c].partial;
    report.unmatched_arrivals += report.communicators[c].unmatched_arrivals;
    report.clock.violations += totals.communicators[c].infeasible;
    report.unjudged += totals.communicators[c].unjudged;
  }
  if (totals.largest_skew_uncertainty_ns >= 0) {
    report.clock.smallest_skew_ns = analysis::resolution_factor * totals.largest_skew_uncertainty_ns;
  }
  report.by_operation = analysis::summarise_operations(totals.operations);
  report.ranks = std::move(verdict.ranks);
  report.stragglers = std::move(verdict.stragglers);
  report.suspects = std::move(verdict.suspects);
  report.delay = std::move(verdict.delay);
  report.nvlink = analysis::summarise_nvlink(rank_tables, job.trace_ranks, link_peaks);
  report.network = analysis::summarise_network(rank_tables, job.trace_ranks);
  report.slow_links = std::move(links.slow_links);
  report.activity = analysis::summarise_activity(rank_tables, report);
  report.warnings = job.warnings;
  add_missing_rank_warnings(report, report.warnings);
  report.warnings = tidy_warnings(std::move(report.warnings));
  report.tables = std::move(links.tables);
  report.tables.push_back(analysis::byte_matrix_table(rank_tables));
  std::move(rank_tables.begin(), rank_tables.end(), std::back_inserter(report.tables));
  return report;
}

int exit_code(const JobSpecification& job, const JobReport& report) {
  const auto failed = std::count_if(report.inputs.begin(), report.inputs.end(),
                                    [](const InputReport& input) { return input.status == InputStatus::failed; });
  if (static_cast<std::size_t>(failed) == report.inputs.size()) return nothing_analysed;
  const bool ranks_missing =
      job.require_ranks && static_cast<std::int32_t>(report.trace_ranks.size()) < *job.require_ranks;
  return failed > 0 || ranks_missing ? some_inputs_failed : all_analysed;
}

/// The small tables of the whole job, once everything is known; they come first.
void add_job_tables(JobReport& report) {
  std::vector<Table> tables = job_tables(report);
  report.tables.insert(report.tables.begin(), std::make_move_iterator(tables.begin()),
                       std::make_move_iterator(tables.end()));
}

std::vector<ingest::AssignedTrace> traces_of(int tool_rank, const RunPlan& plan) {
  std::vector<ingest::AssignedTrace> traces;
  for (const ingest::AssignedTrace& assigned : plan.discovery.traces) {
    if (assigned.tool_rank == tool_rank) traces.push_back(assigned);
  }
  return traces;
}

/// Collective: reads this tool rank's inputs, from their records where there are any.
std::vector<LocalTrace> read_inputs(const exchange::Communicator& communicator, const JobSpecification& job,
                                    const std::vector<ingest::AssignedTrace>& mine, const ReadSettings& reading,
                                    Phases& phases, std::ostream& problems) {
  std::vector<LocalTrace> local_traces;
  phases.local("reading traces", [&] {
    std::int64_t bytes = 0;
    for (const ingest::AssignedTrace& assigned : mine) bytes += assigned.bytes;
    const bool shows = communicator.is_root() && !job.quiet && stderr_is_terminal();
    Progress progress(static_cast<std::int64_t>(mine.size()), bytes, shows ? &problems : nullptr);
    keep_freed_memory(reading.threads);
    local_traces = read_local_traces(mine, reading, progress);
    return_freed_memory();
    phases.count(progress.rows(), progress.bytes());
  });
  return local_traces;
}

/// Collective: what comes after reading is shared evenly by the tool ranks, and goes by the arrivals of all of them.
void check_memory_for_arrivals(const exchange::Communicator& communicator, const MemoryBudget& memory,
                               const std::vector<LocalTrace>& local_traces) {
  std::int64_t arrivals = 0;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) arrivals += static_cast<std::int64_t>(rank.arrivals.size());
  }
  arrivals = communicator.sum(arrivals) / communicator.size();
  exchange::run_agreed(communicator, "planning memory", [&] { memory.require_for_arrivals(arrivals); });
}

/// Collective.
std::optional<RunFacts::Memory> memory_facts(const exchange::Communicator& communicator, const MemoryBudget& memory) {
  if (!memory.limit_bytes()) return std::nullopt;
  return RunFacts::Memory{*memory.limit_bytes(), communicator.sum(memory.traces_in_files()),
                          communicator.maximum(memory.most_file_bytes())};
}

/// Collective: a run whose shards cannot be written goes on, but its user should know.
void report_unkept(const exchange::Communicator& communicator, const UnfinishedRun& unfinished,
                   std::ostream& problems) {
  const std::vector<std::string> failures = communicator.all_gather_text(unfinished.failure());
  const auto failure = std::find_if(failures.begin(), failures.end(), [](const std::string& f) { return !f.empty(); });
  if (failure == failures.end() || !communicator.is_root()) return;
  problems << fmt::format(
      "nsys-explain-mpi: tool rank {} {}; if this run is cut off, what it read is lost; make room there, or ignore "
      "this\n",
      failure - failures.begin(), *failure);
}

TraceAccess trace_access(const JobSpecification& job) {
  if (job.shard_directories.empty()) return TraceAccess::always;
  return job.only_shards ? TraceAccess::never : TraceAccess::when_unchanged;
}

/// The run, phase by phase. `plan`: of the run that this one finishes. Throws exchange::AgreedFailure on all tool ranks
/// alike; `failure_code` is the exit code that a failure means at that point.
int run_phases(const JobSpecification& job, std::optional<RunPlan> plan, const exchange::Communicator& communicator,
               std::ostream& out, std::ostream& problems, int& failure_code) {
  const std::vector<std::string> hosts = communicator.all_gather_text(host_name());
  std::unique_ptr<OutputDirectory> directory;  // on rank 0 only
  UnfinishedRun unfinished(job, communicator);
  std::atomic<const OutputDirectory*> prepared = nullptr;
  std::atomic<bool> has_results = false;
  const auto last_deed = [&]() -> int {
    if (has_results) return results_not_written;  // those that come after the report
    if (const OutputDirectory* unpublished = prepared) unpublished->remove();
    return write_partial_report(job);
  };
  Watch watch({job.timeout_s, fmt::format("tool rank {} on {}", communicator.rank(), host_name()),
               communicator.is_root() ? last_deed : std::function<int()>(), some_inputs_failed,
               partial_report_grace_s + 5});
  Phases phases(communicator, watch);
  UserOptions options;
  std::optional<analysis::CategoryMap> categories;
  std::optional<TimelineRequest> timeline;
  phases.local("checking the options", [&] {
    options = read_user_options(job);
    categories = read_category_map(job);
    timeline = read_timeline_request(job);
    if (communicator.is_root()) check_output_directory(job.output_directory, job.overwrite);
  });
  failure_code = results_not_written;
  phases.local("preparing the output", [&] {
    if (communicator.is_root()) directory = std::make_unique<OutputDirectory>(job.output_directory);
    prepared = directory.get();
  });
  if (plan) {
    phases.collective("taking up the plan", [&] { assign_inputs(communicator, job, *plan); });
  } else {
    plan = find_inputs(phases, communicator, job, options, hosts);
    failure_code = some_inputs_failed;
    if (job.require_ranks) require_ranks(phases, communicator, *job.require_ranks, plan->discovery);
    failure_code = results_not_written;
    unfinished.keep(*plan);
  }
  const ingest::MergedDiscovery& discovery = plan->discovery;
  const int threads = job.threads ? *job.threads : available_threads(communicator);
  MemoryBudget memory(job.memory_limit_bytes);
  const ReadSettings reading{options, unfinished.records(), memory, plan->epoch_utc_ns, job.reader,
                             threads, trace_access(job)};
  const std::vector<ingest::AssignedTrace> mine = traces_of(communicator.rank(), *plan);
  if (job.memory_limit_bytes) {
    failure_code = wrong_usage;  // a limit that is too low, whenever it shows
    phases.local("planning memory", [&] { check_memory_for(mine, reading); });
  }
  std::vector<LocalTrace> local_traces = read_inputs(communicator, job, mine, reading, phases, problems);
  report_unkept(communicator, unfinished, problems);
  check_memory_for_arrivals(communicator, memory, local_traces);
  failure_code = results_not_written;
  JobRanks ranks;
  phases.collective("resolving ranks", [&] {
    ranks = resolve_job(communicator, local_traces, discovery.failed, options.ranks);
    ranks.warnings.insert(ranks.warnings.end(), discovery.warnings.begin(), discovery.warnings.end());
  });
  CrossRank cross;
  const clock::ClockOptions clock_options{job.clock_method, job.ptp_uncertainty_ns};
  phases.collective("matching collectives",
                    [&] { cross = match_collectives(communicator, ranks, clock_options, local_traces); });
  clock::ClockFit clock;
  phases.collective("aligning clocks", [&] {
    clock = estimate_clock(communicator, ranks, cross, clock_options);
    ranks.warnings.insert(ranks.warnings.end(), clock.warnings.begin(), clock.warnings.end());
    apply_clock(communicator, clock, ranks, cross, local_traces);
  });
  std::vector<Table> rank_tables;
  phases.collective("gathering tables",
                    [&] { rank_tables = gather_rank_tables(communicator, ranks.numbers, local_traces); });
  phases.local("comparing trace ranks", [&] {
    std::vector<Table> compared = compare_trace_ranks(rank_tables, *categories, job.elapsed_unprofiled);
    std::move(compared.begin(), compared.end(), std::back_inserter(rank_tables));
  });
  JobReport report;
  Attribution attribution;
  phases.collective("attributing waits", [&] {
    std::vector<analysis::CommunicatorTotals> instances = count_instances(communicator, cross);
    const std::vector<analysis::Grouping> groupings = groupings_of(ranks, cross, instances, options.racks);
    LinkAnalysis links = analyse_links(communicator, ranks, cross);
    attribution =
        attribute_delays(communicator, clock.report, ranks, cross, local_traces, rank_tables, groupings, links);
    analysis::correct_gpu_speeds(attribution.delays.speed, rank_tables);
    const analysis::Totals totals = sum_waits(communicator, ranks, cross, std::move(instances));
    Verdict verdict = reach_verdict(communicator, ranks, summarise_ranks(communicator, ranks, local_traces, totals),
                                    totals, attribution, groupings);
    report = make_report(ranks, clock.report, cross, totals, std::move(verdict), std::move(links),
                         std::move(rank_tables), options.link_peaks);
    report.tables.push_back(analysis::level_sums_table(report.ranks, groupings));
    report.tables.push_back(wait_matrix_table(attribution.waits));
    report.tables.push_back(rank_places_table(ranks.numbers, groupings));
    report.tables.push_back(analysis::stage_balance_table(attribution.delays.stages));
    for (Table& table : member_tables(communicator, cross)) report.tables.push_back(std::move(table));
    for (Warning& warning : mismatch_warnings(report.tables)) report.warnings.push_back(std::move(warning));
    report.activity.category_map = categories->name();
    report.window = options.window_text;
  });
  phases.collective("investigating stragglers", [&] {
    investigate_stragglers(communicator,
                           {discovery.traces, reading, clock.report, ranks, cross, local_traces, attribution.delays},
                           report);
    report.detail =
        gather_detail(communicator, cross, ranks, first_instances(report), instances_looked_into(report.tables));
    report.detail.steps = {report.delay.first_step, attribution.steps.start_ns, attribution.steps.end_ns};
    report.warnings = tidy_warnings(std::move(report.warnings));
    report.findings = analysis::find_problems(report);
    if (job.only_shards) add_partial_finding(report);
    add_job_tables(report);
  });

  const std::set<std::string> distinct_hosts(hosts.begin(), hosts.end());
  report.run = {now_utc(),
                NSYS_EXPLAIN_VERSION,
                communicator.size(),
                {distinct_hosts.begin(), distinct_hosts.end()},
                threads,
                phases.finished(),
                memory_facts(communicator, memory)};
  if (exit_code(job, report) == nothing_analysed) {
    if (communicator.is_root()) {
      for (const InputReport& input : report.inputs) problems << fmt::format("{}: {}\n", input.path, input.message);
      problems << "nsys-explain-mpi: no input could be analysed, so there is no report\n";
      if (job.summary_line) out << report::to_summary_line(report, job.output_directory, nothing_analysed) << '\n';
    }
    return nothing_analysed;
  }
  phases.collective("writing results", [&] {
    write_results(communicator, job, report, cross, attribution.step_rows, local_traces, directory.get());
  });
  phases.local("publishing results", [&] {
    watch.undisturbed([&] {
      if (directory) directory->publish();
      prepared = nullptr;
      has_results = true;
    });
    if (directory && !job.prometheus_path.empty()) {
      write_whole_file(job.prometheus_path, report::to_prometheus(report, job.output_directory));
    }
  });
  if (timeline) {
    phases.collective("writing the timeline", [&] {
      const Inquiry inquiry{discovery.traces, reading, clock.report, ranks, cross, local_traces, attribution.delays};
      write_timeline(communicator, *timeline, inquiry, report, problems);
    });
  }
  report.run.phases = phases.finished();
  report.run.memory = memory_facts(communicator, memory);
  const int code = exit_code(job, report);
  if (communicator.is_root()) {
    for (const InputReport& input : report.inputs) {
      if (input.status == InputStatus::failed) problems << fmt::format("{}: {}\n", input.path, input.message);
    }
    if (job.summary_line) {
      out << report::to_summary_line(report, job.output_directory, code) << '\n';
    } else if (!job.quiet) {
      out << report::to_summary(report, job.output_directory) << '\n' << report::to_phase_table(report.run);
    }
  }
  if (code == all_analysed && !job.only_shards) unfinished.complete();
  return code;
}

}  // namespace

int run(const JobSpecification& job, const exchange::Communicator& communicator, std::ostream& out,
        std::ostream& problems) {
  int failure_code = wrong_usage;
  try {
    std::optional<RunPlan> plan = recall_plan(communicator, job);
    const JobSpecification whole = plan ? continued(plan->job, job) : job;
    return run_phases(whole, std::move(plan), communicator, out, problems, failure_code);
  } catch (const exchange::AgreedFailure& failure) {
    if (communicator.is_root()) problems << "nsys-explain-mpi: " << failure.what() << '\n';
    return failure_code;
  } catch (const std::exception& failure) {
    // Not agreed on: the others may be waiting for this rank, so it takes them along.
    problems << fmt::format("nsys-explain-mpi: tool rank {}: {}\n", communicator.rank(), failure.what());
    problems.flush();
    communicator.abort(results_not_written);
  }
}

}  // namespace nsys_explain::pipeline
