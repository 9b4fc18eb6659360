#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <set>

#include <fmt/format.h>
#include <unistd.h>

#include "attribution.hpp"
#include "cross_rank.hpp"
#include "investigation.hpp"
#include "job_clock.hpp"
#include "job_ranks.hpp"
#include "link_analysis.hpp"
#include "local_traces.hpp"
#include "nsys_explain/analysis/activity_summary.hpp"
#include "nsys_explain/analysis/findings.hpp"
#include "nsys_explain/analysis/link_peaks.hpp"
#include "nsys_explain/analysis/link_summary.hpp"
#include "nsys_explain/analysis/messages.hpp"
#include "nsys_explain/analysis/stragglers.hpp"
#include "nsys_explain/analysis/waits.hpp"
#include "nsys_explain/clock/level_zero.hpp"
#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/pipeline/job.hpp"
#include "nsys_explain/report/report.hpp"
#include "outputs.hpp"
#include "pack.hpp"
#include "phases.hpp"
#include "progress.hpp"
#include "rank_comparison.hpp"
#include "rank_tables.hpp"
#include "report_detail.hpp"
#include "tables.hpp"
#include "threads.hpp"
#include "timeline.hpp"
#include "topology.hpp"
#include "user_options.hpp"

namespace nsys_explain::pipeline {
namespace {

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown-host";
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

ingest::MergedDiscovery merge(const std::vector<std::string>& hosts, std::vector<ingest::Discovery> discoveries) {
  std::vector<ingest::HostDiscovery> by_tool_rank;
  for (std::size_t r = 0; r < hosts.size(); ++r) by_tool_rank.push_back({hosts[r], std::move(discoveries[r])});
  return ingest::merge_discoveries(by_tool_rank);
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
    rows.push_back({planned.name, planned.source_key, planned.trace_ranks, planned.size, total.instances,
                    total.complete, total.instances - total.complete, total.unmatched_arrivals, planned.evidence});
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

JobReport make_report(const JobRanks& job, const ClockReport& clock, const CrossRank& cross,
                      const analysis::Totals& totals, Verdict verdict, LinkAnalysis links,
                      std::vector<Table> rank_tables, const std::vector<analysis::LinkPeak>& link_peaks) {
  JobReport report;
  report.epoch_utc_ns = job.epoch_utc_ns;
  report.inputs = job.inputs;
  report.sessions = job.sessions;
  report.trace_ranks = job.trace_ranks;
  report.clock = clock;
  report.communicators = summarise_communicators(cross, totals);
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

/// Collective: the job epoch, from the inputs' session starts alone: a window of time counts from it.
Nanoseconds find_epoch(const exchange::Communicator& communicator, const std::vector<ingest::AssignedTrace>& traces) {
  std::vector<Session> mine;
  for (const ingest::AssignedTrace& assigned : traces) {
    if (assigned.tool_rank == communicator.rank()) mine.push_back(read_local_session(assigned));
  }
  std::vector<Session> all;
  for (std::vector<Session>& sessions : all_gather_packed(communicator, mine)) {
    std::move(sessions.begin(), sessions.end(), std::back_inserter(all));
  }
  return clock::job_epoch_utc_ns(all);
}

/// The small tables of the whole job, once everything is known; they come first.
void add_job_tables(JobReport& report) {
  std::vector<Table> tables = job_tables(report);
  report.tables.insert(report.tables.begin(), std::make_move_iterator(tables.begin()),
                       std::make_move_iterator(tables.end()));
}

/// The run, phase by phase. Throws exchange::AgreedFailure on all tool ranks alike; `failure_code` is the exit code
/// that a failure means at that point.
int run_phases(const JobSpecification& job, const exchange::Communicator& communicator, std::ostream& out,
               std::ostream& problems, int& failure_code) {
  failure_code = wrong_usage;
  Phases phases(communicator);
  std::unique_ptr<OutputDirectory> directory;  // on rank 0 only
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
  });
  ingest::Discovery found;
  phases.local("discovering traces", [&] { found = ingest::discover(job.inputs, job.export_reports); });
  const std::vector<std::string> hosts = communicator.all_gather_text(host_name());
  const ingest::MergedDiscovery discovery = merge(hosts, all_gather_packed(communicator, found));

  Nanoseconds epoch_utc_ns = 0;
  if (options.analysis.window.time) {
    phases.collective("finding the window", [&] { epoch_utc_ns = find_epoch(communicator, discovery.traces); });
  }
  const int threads = job.threads ? *job.threads : available_threads(communicator);
  const ReadSettings reading{options, epoch_utc_ns, job.reader, threads};
  std::vector<LocalTrace> local_traces;
  phases.local("reading traces", [&] {
    std::vector<ingest::AssignedTrace> mine;
    std::int64_t bytes = 0;
    for (const ingest::AssignedTrace& assigned : discovery.traces) {
      if (assigned.tool_rank != communicator.rank()) continue;
      mine.push_back(assigned);
      bytes += assigned.bytes;
    }
    const bool shows = communicator.is_root() && !job.quiet && stderr_is_terminal();
    Progress progress(static_cast<std::int64_t>(mine.size()), bytes, shows ? &problems : nullptr);
    local_traces = read_local_traces(mine, reading, progress);
    phases.count(progress.rows(), progress.bytes());
  });
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
  phases.collective("gathering tables", [&] { rank_tables = gather_rank_tables(communicator, local_traces); });
  phases.local("comparing trace ranks", [&] {
    std::vector<Table> compared = compare_trace_ranks(rank_tables, *categories, job.elapsed_unprofiled);
    std::move(compared.begin(), compared.end(), std::back_inserter(rank_tables));
  });
  JobReport report;
  Attribution attribution;
  phases.collective("attributing waits", [&] {
    compute_waits(clock, ranks, cross);
    attribution = attribute_delays(communicator, clock.report, ranks, cross, local_traces);
    const analysis::Totals totals = sum_waits(communicator, ranks, cross);
    Verdict verdict = reach_verdict(communicator, ranks, summarise_ranks(communicator, ranks, local_traces, totals),
                                    totals, attribution, groupings_of(ranks.trace_ranks, options.racks));
    report = make_report(ranks, clock.report, cross, totals, std::move(verdict),
                         analyse_links(communicator, ranks, cross), std::move(rank_tables), options.link_peaks);
    report.activity.category_map = categories->name();
    report.window = options.window_text;
    report.detail = gather_detail(communicator, cross, ranks, first_instances(report));
  });
  phases.collective("investigating stragglers", [&] {
    investigate_stragglers(communicator, {discovery.traces, reading, clock.report, ranks, cross, local_traces}, report);
    report.findings = analysis::find_problems(report);
    add_job_tables(report);
  });

  const std::set<std::string> distinct_hosts(hosts.begin(), hosts.end());
  report.run = {now_utc(), NSYS_EXPLAIN_VERSION, communicator.size(), {distinct_hosts.begin(), distinct_hosts.end()},
                threads,   phases.finished()};
  if (const int code = exit_code(job, report); code == nothing_analysed) {
    if (communicator.is_root()) {
      for (const InputReport& input : report.inputs) problems << fmt::format("{}: {}\n", input.path, input.message);
      problems << "nsys-explain-mpi: no input could be analysed, so there is no report\n";
    }
    return code;
  }
  phases.collective("writing results",
                    [&] { write_results(communicator, job, report, cross, attribution.step_rows, directory.get()); });
  if (timeline) {
    phases.collective("writing the timeline", [&] {
      const Inquiry inquiry{discovery.traces, reading, clock.report, ranks, cross, local_traces};
      write_timeline(communicator, *timeline, inquiry, report, problems);
    });
  }
  report.run.phases = phases.finished();
  if (communicator.is_root()) {
    for (const InputReport& input : report.inputs) {
      if (input.status == InputStatus::failed) problems << fmt::format("{}: {}\n", input.path, input.message);
    }
    if (!job.quiet)
      out << report::to_summary(report, job.output_directory) << '\n' << report::to_phase_table(report.run);
  }
  return exit_code(job, report);
}

}  // namespace

int run(const JobSpecification& job, const exchange::Communicator& communicator, std::ostream& out,
        std::ostream& problems) {
  int failure_code = results_not_written;
  try {
    return run_phases(job, communicator, out, problems, failure_code);
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
