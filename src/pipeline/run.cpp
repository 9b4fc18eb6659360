#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "analysis/findings/findings.hpp"
#include "analysis/problems/find_problems.hpp"
#include "analysis/replay/lanes.hpp"
#include "analysis/tables/tables.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"
#include "analysis/window/steps.hpp"
#include "analysis/window/window.hpp"
#include "clock/fit.hpp"
#include "exchange/agree.hpp"
#include "ingest/export_report.hpp"
#include "ingest/staging.hpp"
#include "pipeline/attribute/attribution.hpp"
#include "pipeline/attribute/collective_costs.hpp"
#include "pipeline/attribute/job_summary.hpp"
#include "pipeline/attribute/link_analysis.hpp"
#include "pipeline/attribute/rank_comparison.hpp"
#include "pipeline/attribute/what_if.hpp"
#include "pipeline/investigate/investigation.hpp"
#include "pipeline/investigate/moments.hpp"
#include "pipeline/investigate/report_detail.hpp"
#include "pipeline/match/cross_rank.hpp"
#include "pipeline/match/member_tables.hpp"
#include "pipeline/read/host_rows.hpp"
#include "pipeline/read/inputs.hpp"
#include "pipeline/read/job_choice.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/partial_report.hpp"
#include "pipeline/read/rank_tables.hpp"
#include "pipeline/read/reading.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/memory_budget.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "pipeline/tool_rank/phases.hpp"
#include "pipeline/tool_rank/threads.hpp"
#include "pipeline/tool_rank/user_options.hpp"
#include "pipeline/tool_rank/watch.hpp"
#include "pipeline/write/outcome.hpp"
#include "pipeline/write/outputs.hpp"
#include "pipeline/write/tables.hpp"
#include "pipeline/write/timeline.hpp"
#include "report/report.hpp"

namespace nsys_explain::pipeline {
namespace {

/// What a failure means at some point of the run.
struct Failure {
  int exit_code = wrong_usage;
  std::string advice;  ///< what can be done about it; empty: nothing more than it says itself
};

/// The run, phase by phase, in the order of whole(). Every function is collective, and throws exchange::AgreedFailure
/// on all tool ranks alike; `failure` is what that means.
class Run {
 public:
  /// `plan`: of the run that this one finishes.
  Run(const JobSpecification& job, std::optional<RunPlan> plan, const exchange::Communicator& communicator,
      std::ostream& out, std::ostream& problems, Failure& failure)
      : job_(job),
        communicator_(communicator),
        out_(out),
        problems_(problems),
        failure_(failure),
        unfinished_(job, communicator),
        had_report_(has_report(job)),
        watch_({job.timeout_s, fmt::format("tool rank {} on {}", communicator.rank(), host_name()),
                communicator.is_root(), [this] { return end_early(); }}),
        hosts_(communicator.all_gather_text(host_name())),
        phases_(communicator, watch_),
        plan_(std::move(plan)),
        memory_(job.memory_limit_bytes),
        exports_(job.nsys_command) {}

  /// Returns the exit code.
  int whole() {
    prepare();
    read();
    relate();
    attribute();
    investigate();
    return publish();
  }

 private:
  void prepare();
  void find_traces();
  void read();
  void relate();
  void attribute();
  void investigate();
  int publish();

  void write_report();
  int end_early();
  void end_well(int code);
  ReplaySetting replay_setting() const {
    return {clock_.report, ranks_, attribution_.steps, attribution_.steps_apart, groupings_};
  }
  Inquiry inquiry() const {
    return {plan_->discovery.traces, *reading_, ranks_, cross_, local_traces_, attribution_.delays};
  }

  const JobSpecification& job_;
  const exchange::Communicator& communicator_;
  std::ostream& out_;
  std::ostream& problems_;
  Failure& failure_;

  UnfinishedRun unfinished_;
  std::unique_ptr<OutputDirectory> directory_;  ///< on rank 0 only
  std::atomic<bool> has_results_ = false;
  const bool had_report_;
  Watch watch_;
  const std::vector<std::string> hosts_;  ///< by tool rank
  Phases phases_;

  UserOptions options_;
  std::optional<CategoryPlan> categories_;
  std::optional<TimelineRequest> timeline_;
  std::optional<RunPlan> plan_;
  MemoryBudget memory_;
  KeptExports exports_;
  int threads_ = 1;
  std::optional<ReadSettings> reading_;
  std::vector<LocalTrace> local_traces_;  ///< of this tool rank
  JobChoice choice_;
  JobRanks ranks_;
  CrossRank cross_;
  clock::ClockFit clock_;
  std::vector<Table> rank_tables_;
  std::vector<analysis::Grouping> groupings_;
  Attribution attribution_;
  std::optional<JobReplay> replay_;  ///< until everybody who is late is known
  JobReport report_;
};

/// Options are understood, the output has room, and every trace has a tool rank that reads it.
void Run::prepare() {
  phases_.local("checking the options", [&] {
    options_ = read_user_options(job_);
    categories_.emplace(job_);
    timeline_ = read_timeline_request(job_);
    if (!communicator_.is_root()) return;
    check_output_directory(job_.output_directory, job_.overwrite);
    check_outside_files(job_);
  });
  failure_.exit_code = results_not_written;
  phases_.local("preparing the output", [&] {
    if (communicator_.is_root()) {
      check_own_places(job_.output_directory);
      directory_ = std::make_unique<OutputDirectory>(job_.output_directory);
    }
    ingest::ScratchDirectory::remove_abandoned_ones();
  });
  find_traces();
  failure_.exit_code = wrong_usage;
  exchange::run_agreed(communicator_, "checking the options", [&] {
    if (!communicator_.is_root()) return;
    require_outside_of_traces(job_, plan_->discovery);
    categories_->require_inputs(plan_->discovery);
  });
  failure_.exit_code = results_not_written;
}

void Run::find_traces() {
  if (plan_) {
    phases_.collective("taking up the plan", [&] { assign_inputs(communicator_, job_, *plan_); });
    return;
  }
  plan_ = find_inputs(phases_, communicator_, job_, options_, hosts_);
  failure_.exit_code = some_inputs_failed;
  if (job_.require_ranks) require_ranks(phases_, communicator_, *job_.require_ranks, plan_->discovery);
  failure_.exit_code = results_not_written;
}

/// Each tool rank turns its own traces into small records.
void Run::read() {
  threads_ = job_.threads ? *job_.threads : available_threads(communicator_);
  reading_.emplace(ReadSettings{options_, unfinished_.records(), memory_, exports_, plan_->epoch_utc_ns, job_.reader,
                                threads_, trace_access(job_), communicator_.size()});
  const std::vector<ingest::AssignedTrace> mine = traces_of(communicator_.rank(), *plan_);
  if (job_.memory_limit_bytes) {
    failure_.exit_code = wrong_usage;  // a limit that is too low, whenever it shows
    std::int64_t enough = 0;
    phases_.local("planning memory", [&] { enough = memory_limit_for(mine, *reading_); });
    enough = communicator_.maximum(enough);
    if (enough > 0)
      exchange::run_agreed(communicator_, "planning memory", [&] { check_memory_for(mine, *reading_, enough); });
  }
  if (unfinished_.keep(*plan_)) failure_.advice = how_to_finish(job_);
  local_traces_ = read_inputs(communicator_, job_, mine, *reading_, phases_);
  failure_.exit_code = wrong_usage;
  phases_.collective("choosing the job",
                     [&] { choice_ = choose_job(communicator_, local_traces_, options_, job_.job_of); });
  agree_on_steps(communicator_, mine, *reading_, phases_, local_traces_);
  keep_chosen(choice_, local_traces_);
  report_unkept(communicator_, unfinished_, problems_);
  prepare_for_arrivals(communicator_, memory_, local_traces_);
  failure_.exit_code = results_not_written;
}

/// Trace ranks get their numbers, collectives their members, and sessions a common clock.
void Run::relate() {
  phases_.collective("resolving ranks", [&] {
    const ingest::MergedDiscovery& discovery = plan_->discovery;
    ranks_ = resolve_job(communicator_, local_traces_, discovery.failed, options_.ranks, choice_);
    ranks_.warnings.insert(ranks_.warnings.end(), discovery.warnings.begin(), discovery.warnings.end());
  });
  const clock::ClockOptions clock_options{job_.clock_method, job_.ptp_uncertainty_ns};
  phases_.collective("matching collectives",
                     [&] { cross_ = match_collectives(communicator_, ranks_, clock_options, local_traces_); });
  phases_.collective("aligning clocks", [&] {
    clock_ = estimate_clock(communicator_, ranks_, cross_, clock_options);
    ranks_.warnings.insert(ranks_.warnings.end(), clock_.warnings.begin(), clock_.warnings.end());
    apply_clock(communicator_, clock_, ranks_, cross_, local_traces_);
    return_freed_memory();  // arrivals, of which timelines and blocks have been made
  });
  phases_.collective("gathering tables",
                     [&] { rank_tables_ = gather_rank_tables(communicator_, ranks_.numbers, local_traces_); });
  phases_.local("comparing ranks", [&] {
    std::vector<Table> compared = compare_trace_ranks(rank_tables_, *categories_, ranks_.trace_ranks);
    std::move(compared.begin(), compared.end(), std::back_inserter(rank_tables_));
  });
}

/// Who made the job wait, and what else the numbers of all trace ranks come to.
void Run::attribute() {
  phases_.collective("attributing waits", [&] {
    std::vector<analysis::CommunicatorTotals> instances = count_instances(communicator_, cross_);
    groupings_ = groupings_of(ranks_, cross_, instances, options_.racks);
    LinkAnalysis links = analyse_links(communicator_, ranks_, cross_);
    attribution_ =
        attribute_delays(communicator_, clock_.report, ranks_, cross_, local_traces_, rank_tables_, groupings_, links);
    analysis::correct_gpu_speeds(attribution_.delays.speed, rank_tables_);
    analysis::compare_gpu_counters(rank_tables_);
    const analysis::Totals totals = sum_waits(communicator_, ranks_, cross_, std::move(instances));
    // The others wait for rank 0; each replay takes memory of its own.
    replay_.emplace(communicator_, replay_setting(), local_traces_, HostCores(communicator_, hosts_, threads_),
                    job_.memory_limit_bytes.has_value());
    Verdict verdict =
        reach_verdict(communicator_, ranks_, summarise_ranks(communicator_, ranks_, local_traces_, totals), totals,
                      attribution_, groupings_, *replay_);
    report_ = summarise_job(ranks_, clock_.report, cross_, totals, std::move(verdict), std::move(links),
                            std::move(rank_tables_), options_.link_peaks);
    report_.detail.steps = {report_.delay.first_step, attribution_.steps.start_ns, attribution_.steps.end_ns};
    report_.exposed = gather_exposed_time(communicator_, local_traces_);
    // Without a collective nothing tells which steps of several trace ranks are one.
    if (report_.ranks.size() < 2 || report_.instances > 0)
      analysis::describe_changes(attribution_.steps, report_.step_time);
    report_.tables.push_back(analysis::level_sums_table(report_.ranks, groupings_));
    report_.tables.push_back(collectives_in_step(communicator_, local_traces_));
    report_.tables.push_back(first_collectives(communicator_, cross_));
    report_.tables.push_back(collective_slack(communicator_, cross_, *replay_));
    report_.tables.push_back(exchange_balances(communicator_, cross_, local_traces_, report_.tables));
    report_.tables.push_back(wait_matrix_table(attribution_.waits));
    report_.tables.push_back(rank_places_table(ranks_.numbers, groupings_));
    report_.tables.push_back(analysis::stage_balance_table(attribution_.delays.stages));
    for (Table& table : side_file_tables(options_)) report_.tables.push_back(std::move(table));
    for (Table& table : member_tables(communicator_, cross_)) report_.tables.push_back(std::move(table));
    for (Warning& warning : mismatch_warnings(report_.tables)) report_.warnings.push_back(std::move(warning));
    report_.category_map = categories_->names();
    report_.title = job_.title;
    report_.window = options_.window_text;
    report_.left_out = analysis::describe_left_out(report_.tables, attribution_.steps, attribution_.steps_apart);
  });
}

/// Why they are late, and what the user should know and do.
void Run::investigate() {
  phases_.collective("investigating stragglers", [&] {
    investigate_stragglers(communicator_, inquiry(), saved_besides_told(*replay_, ranks_, report_), report_);
    replay_scenarios(*replay_, replay_setting(), report_);
    RankLanes lanes;
    if (report::has_html() && replay_->is_whole())
      lanes = analysis::lanes_of(replay_->graph(), ranks_.numbers, report_.detail.steps, first_moment_ns(report_));
    replay_.reset();
    StepStarts steps = std::move(report_.detail.steps);
    report_.detail =
        gather_detail(communicator_, cross_, ranks_, first_instances(report_), instances_looked_into(report_.tables));
    report_.detail.steps = std::move(steps);
    report_.detail.lanes = std::move(lanes);
    if (report::has_html() || timeline_) report_.detail.moments = gather_moments(communicator_, inquiry(), report_);
    report_.warnings = tidy_warnings(std::move(report_.warnings));
    report_.findings = analysis::find_problems(report_);
    if (job_.only_shards) add_partial_finding(report_);
    report_.verdict = analysis::judge(report_);
    add_host_rows(communicator_, ranks_, local_traces_, report_);
    // The small tables of the whole job, once everything is known; they come first.
    std::vector<Table> tables = job_tables(report_);
    std::move(report_.tables.begin(), report_.tables.end(), std::back_inserter(tables));
    report_.tables = std::move(tables);
  });
  report_.run = {now_utc(),
                 NSYS_EXPLAIN_VERSION,
                 communicator_.size(),
                 {},
                 threads_,
                 phases_.finished(),
                 memory_facts(communicator_, memory_)};
  const std::set<std::string> distinct_hosts(hosts_.begin(), hosts_.end());
  report_.run.hosts.assign(distinct_hosts.begin(), distinct_hosts.end());
}

/// Rank 0 writes. Returns the exit code.
int Run::publish() {
  const int code = exit_code(job_, report_);
  if (is_report_worth_writing(report_)) write_report();
  phases_.local("writing metrics", [&] {
    if (communicator_.is_root()) write_metrics(job_, report_, code);
  });
  end_well(code);
  if (communicator_.is_root()) print_outcome(job_, report_, code, out_, problems_);
  return code;
}

void Run::write_report() {
  if (!timeline_) release_timelines(local_traces_);  // nobody asks for them any more
  return_freed_memory();
  phases_.collective("writing results", [&] {
    write_results(communicator_, job_, report_, cross_, attribution_.step_rows, local_traces_, directory_.get());
  });
  phases_.local("publishing results", [&] {
    if (!directory_) return;  // nor does a tool rank stay here that is about to end
    watch_.undisturbed([&] {
      directory_->publish(only_ours(results_in(job_.output_directory)));
      has_results_ = true;
    });
    check_outside_files(job_);  // others may have written there meanwhile
  });
  has_results_ = true;
  if (timeline_)
    phases_.collective("writing the timeline",
                       [&] { write_timeline(communicator_, *timeline_, inquiry(), report_, problems_); });
  report_.run.phases = phases_.finished();
  report_.run.memory = memory_facts(communicator_, memory_);
}

/// Where the run is cut off: on the thread of the watch, whatever the others hang in. Returns the exit code.
int Run::end_early() {
  ingest::end_exports();
  const int code = has_results_ && communicator_.is_root()
                       ? say_what_is_missing(job_)
                       : end_in_turn(job_, communicator_.rank(), had_report_, has_results_);
  ingest::remove_own_staging();
  if (code == results_not_written && communicator_.is_root()) tell_cut_off(job_, code, out_);
  return code;
}

/// The last thing that all tool ranks agree on: from here on records are removed, and the rest is talk.
void Run::end_well(int code) {
  exchange::run_agreed(communicator_, "ending the run", [&] { watch_.done(code); });
  const bool is_whole = code == all_analysed || (code == nothing_analysed && is_report_worth_writing(report_));
  unfinished_.complete(is_whole && !job_.only_shards);
}

}  // namespace

int run(const JobSpecification& job, const exchange::Communicator& communicator, std::ostream& out,
        std::ostream& problems) {
  Failure failure;
  try {
    std::optional<RunPlan> plan = recall_plan(communicator, job);
    const JobSpecification whole = plan ? continued(plan->job, job) : job;
    return Run(whole, std::move(plan), communicator, out, problems, failure).whole();
  } catch (const exchange::AgreedFailure& agreed) {
    if (communicator.is_root()) {
      problems << "nsys-explain-mpi: " << agreed.what() << '\n';
      if (!failure.advice.empty()) problems << "nsys-explain-mpi: " << failure.advice << '\n';
      tell_failure(job, agreed.what(), failure.exit_code, out);
    }
    return failure.exit_code;
  } catch (const std::exception& alone) {
    // Not agreed on: the others may be waiting for this rank, so it takes them along.
    problems << fmt::format("nsys-explain-mpi: tool rank {}: {}\n", communicator.rank(), sentence_of(alone));
    problems.flush();
    tell_failure(job, sentence_of(alone), results_not_written, out);
    communicator.abort(results_not_written);
  }
}

}  // namespace nsys_explain::pipeline
