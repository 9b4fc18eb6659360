#include "analysis/findings/findings.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/links/links.hpp"
#include "model/schema/job.hpp"
#include "model/shared_gpus.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/names.hpp"

namespace nsys_explain::analysis {

namespace {

struct JobTime {
  Nanoseconds all_windows_ns = 0;  ///< of all trace ranks
  Nanoseconds span_ns = 0;         ///< from the first to the last GPU activity of the job
};

JobTime job_time(const JobReport& report) {
  JobTime time;
  Nanoseconds first_ns = 0, last_ns = 0;
  for (const RankSummary& rank : report.ranks) {
    const Budget& budget = rank.budget;
    if (budget.window_ns == 0) continue;
    const Nanoseconds end_ns = budget.window_start_ns + budget.window_ns;
    first_ns = time.all_windows_ns == 0 ? budget.window_start_ns : std::min(first_ns, budget.window_start_ns);
    last_ns = time.all_windows_ns == 0 ? end_ns : std::max(last_ns, end_ns);
    time.all_windows_ns += budget.window_ns;
  }
  time.span_ns = last_ns - first_ns;
  return time;
}

/// Of a place the trace rank whose delays cost most.
std::string whereabouts(const JobReport& report, const Straggler& straggler) {
  const auto identity = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                     [&](const auto& rank) { return rank.trace_rank == straggler.trace_rank; });
  if (identity == report.trace_ranks.end()) return {};
  const std::string who =
      straggler.level == Level::gpu ? "it" : fmt::format("the costliest of them, rank {},", straggler.trace_rank);
  return fmt::format("{} is device {} of process {} on host '{}' ({})", who, identity->key.device_id,
                     identity->process_id, identity->host, identity->key.path);
}

bool has_rows(const JobReport& report, const schema::Declaration& declaration, std::int32_t trace_rank) {
  const Table* const table = find_table(report.tables, declaration);
  if (table == nullptr) return false;
  const auto& ranks = column(*table, schema::trace_rank);
  return std::find(ranks.begin(), ranks.end(), trace_rank) != ranks.end();
}

/// The rows of store.h5 that show it, of those that are there.
std::string rows_of(const JobReport& report, const Straggler& straggler) {
  std::vector<std::string> rows;
  if (straggler.last_share > 0)
    rows.push_back(
        fmt::format("collective_instances where last_trace_rank = {} and resolved = 1", straggler.trace_rank));
  std::vector<std::string_view> tables;
  for (const schema::Declaration* one :
       std::initializer_list<const schema::Declaration*>{&schema::straggler_cases, &schema::straggler_differences})
    if (has_rows(report, *one, straggler.trace_rank)) tables.push_back(one->table_name());
  if (!tables.empty())
    rows.push_back(fmt::format("{} where trace_rank = {}", fmt::join(tables, " and "), straggler.trace_rank));
  if (rows.empty()) return fmt::format("rows of store.h5: ranks where trace_rank = {}", straggler.trace_rank);
  return fmt::format("rows of store.h5: {}", fmt::join(rows, ", "));
}

/// "periodic, every 4 steps from step 1 to step 37: rows of table steps ..."; empty where no steps are known.
std::string steps_of(const Straggler& straggler) {
  if (!straggler.first_step || !straggler.last_step) return {};
  const std::string which = straggler.period_steps
                                ? fmt::format("every {} steps from step {} to step {}", *straggler.period_steps,
                                              *straggler.first_step, *straggler.last_step)
                                : fmt::format("steps {} to {}", *straggler.first_step, *straggler.last_step);
  return fmt::format("{}, {}: own_lateness_ns and caused_wait_ns in table steps where trace_rank = {}",
                     pattern_name(straggler.pattern), which, straggler.trace_rank);
}

/// A finding about them, without what it is.
Finding finding_about(const JobReport& report, const Straggler& late) {
  Finding finding;
  finding.trace_ranks = late.trace_ranks;
  finding.place = place_of(report, late);
  return finding;
}

/// Severity and end of the title: what mending saves, else the share of GPU time that others wait.
void tell_size(const JobReport& report, double cost_share, Finding& finding) {
  if (tell_saving(report, finding)) return;
  finding.severity = severity_of(cost_share, lost_time);
  finding.title += fmt::format(". Others wait for it {:.1f}% of all GPU time", 100 * cost_share);
}

Finding straggler_finding(const JobReport& report, const Straggler& straggler, const JobTime& time) {
  Finding finding = finding_about(report, straggler);
  const bool is_hidden = !straggler.behind.empty();
  finding.id = is_hidden ? "hidden-straggler" : "straggler";
  finding.title = fmt::format("{} {}{}", name_and_place(report, straggler), tell_cause(report, straggler),
                              is_hidden ? ", too" : "");
  tell_size(report, share(straggler.delay_cost_ns, time.all_windows_ns), finding);
  finding.evidence = straggler.evidence;
  finding.evidence.push_back(fmt::format("the others wait {} for it, {:.1f}% of all GPU time",
                                         gpu_time(straggler.delay_cost_ns),
                                         100 * share(straggler.delay_cost_ns, time.all_windows_ns)));
  if (const std::string where = whereabouts(report, straggler); !where.empty()) finding.evidence.push_back(where);
  if (const std::string steps = steps_of(straggler); !steps.empty()) finding.evidence.push_back(steps);
  finding.evidence.push_back(rows_of(report, straggler));
  finding.recommendation = advice(report, straggler);
  finding.cost_ns = straggler.delay_cost_ns;
  return finding;
}

Finding unproven_finding(const JobReport& report, const SuspectedStraggler& suspect) {
  const Straggler& who = suspect.late;
  Finding finding = finding_about(report, who);
  finding.id = "unproven-straggler";
  finding.title =
      fmt::format("{} seems to make the others wait{}; {} steps are too few to prove it", name_and_place(report, who),
                  who.cause == Cause::unknown ? "" : fmt::format(": it {}", tell_cause(report, who)), suspect.steps);
  tell_size(report, who.cost_share, finding);
  finding.severity = std::max(FindingSeverity::medium, finding.severity);
  finding.evidence = {fmt::format("{}; a verdict needs at most {}", p_value_equation(who.p_value),
                                  p_value_text(suspect.verdict_p_value)),
                      fmt::format("{} steps like these would prove it", suspect.steps_needed)};
  finding.recommendation = fmt::format(
      "capture {} steps or more of all ranks (a later end of --capture-range or --duration), and compare caused_wait_ns and own_lateness_ns by rank in table steps",
      suspect.steps_needed);
  finding.cost_ns = who.delay_cost_ns;
  return finding;
}

/// No replay tells what it costs, and nobody is seen to wait.
Finding unseen_finding(const JobReport& report, const SuspectedStraggler& suspect) {
  const Straggler& who = suspect.late;
  Finding finding = finding_about(report, who);
  finding.id = "unseen-straggler";
  finding.severity = std::max(FindingSeverity::medium, severity_of(suspect.unseen_cost_share, lost_time));
  finding.title = fmt::format(
      "{} takes longer than its peers and may make others wait, up to {:.1f}% of the time; their waiting is not seen",
      name_and_place(report, who), 100 * suspect.unseen_cost_share);
  finding.evidence = {
      fmt::format("{}; work at equal program positions is compared step by step, which needs no common clock",
                  p_value_equation(who.p_value)),
      "the cost is an upper bound: what it takes longer; too many collectives are unmatched, or there are too many to replay the job"};
  finding.recommendation = advice(report, who);
  finding.cost_ns = suspect.estimated_cost_ns;
  return finding;
}

Finding finding_of_doubt(const JobReport& report, const SuspectedStraggler& suspect) {
  switch (suspect.doubt) {
    case Doubt::too_few_steps:
      return unproven_finding(report, suspect);
    case Doubt::unseen:
      return unseen_finding(report, suspect);
  }
  return {};
}

Finding suspect_finding(const JobReport& report, const SuspectedStraggler& suspect) {
  Finding finding = finding_of_doubt(report, suspect);
  if (suspect.late.cause != Cause::unknown) {
    const bool is_told = suspect.late.pattern != Pattern::unknown;
    finding.evidence.push_back(fmt::format("{}most likely it {}",
                                           is_told ? fmt::format("{}, ", pattern_name(suspect.late.pattern)) : "",
                                           tell_cause(report, suspect.late)));
  }
  finding.evidence.insert(finding.evidence.end(), suspect.late.evidence.begin(), suspect.late.evidence.end());
  return finding;
}

}  // namespace

void add_straggler_findings(const JobReport& report, std::vector<Finding>& findings) {
  const JobTime time = job_time(report);
  for (const Straggler& straggler : report.stragglers)
    if (link_behind(report, straggler) == nullptr) findings.push_back(straggler_finding(report, straggler, time));
}

std::vector<Finding> findings_of_late_by(const SlowLink& link, const JobReport& report) {
  const JobTime time = job_time(report);
  std::vector<Finding> findings;
  for (const Straggler& straggler : report.stragglers)
    if (link_behind(report, straggler) == &link) findings.push_back(straggler_finding(report, straggler, time));
  for (const SuspectedStraggler& suspect : report.suspects)
    if (link_behind(report, suspect.late) == &link) findings.push_back(suspect_finding(report, suspect));
  return findings;
}

namespace {

/// Why delays wander, and what to do.
void tell_rotating_cause(const JobReport& report, Finding& finding) {
  const double held = 100 * report.delay.rotating_share;
  switch (report.delay.rotating_cause) {
    case Cause::uneven_work:
      finding.evidence.push_back(fmt::format(
          "{:.0f}% of it is for who runs more or larger kernels in that step than the median of its peers: work that depends on data (columns of table steps; grids in kernels_by_launch)",
          held));
      finding.recommendation = std::string(advice_for_uneven_work);
      break;
    case Cause::slow_kernel:
      finding.evidence.push_back(fmt::format(
          "{:.0f}% of it is for whose kernels of equal grids take longer in that step: work that depends on data, or clocks that change",
          held));
      finding.recommendation =
          "see which kernels take longer (table kernel_peers, spread of kernels_by_launch): a few, and work depends on data (sequence lengths, tokens per expert), or all, and clocks change (nvidia-smi -q -d CLOCK,POWER)";
      break;
    default:
      finding.recommendation =
          "look for what hits every host now and then: data loader workers that run dry, launching threads without a separate core (srun --cpu-bind=cores), daemons and interrupts on the hosts, garbage collection; capture with NVTX ranges around them; one rank's pause costs everybody, so pauses at the same step are cheaper";
  }
}

}  // namespace

void add_rotating_delay_finding(const JobReport& report, std::vector<Finding>& findings) {
  if (!report.delay.rotating) return;
  Nanoseconds unnamed_ns = report.delay.attributed_ns;
  std::set<std::int32_t> named;
  for (const Straggler& straggler : report.stragglers) {
    unnamed_ns -= straggler.delay_cost_ns;
    named.insert(straggler.trace_ranks.begin(), straggler.trace_ranks.end());
  }
  const RankSummary* worst = nullptr;
  std::int64_t ranks = 0;
  for (const RankSummary& rank : report.ranks) {
    if (named.contains(rank.trace_rank) || rank.caused_wait_ns == 0) continue;
    ++ranks;
    if (worst == nullptr || rank.caused_wait_ns > worst->caused_wait_ns) worst = &rank;
  }
  if (worst == nullptr) return;
  const JobTime time = job_time(report);
  const double cost = share(unnamed_ns, time.all_windows_ns);
  Finding finding;
  finding.id = "rotating-delay";
  finding.severity = severity_of(cost, lost_time);
  const std::string longer = describe_late_without_cost(report);
  const WhatIf* const balanced = what_if_balanced(report);
  const std::string nobody =
      !longer.empty() ? longer
                      : fmt::format("nobody {}is late as a rule", attributed_stragglers(report).empty() ? "" : "else ");
  if (report.delay.rotating_cause == Cause::uneven_work) {
    const double waiting = share(report.delay.wait_ns, time.all_windows_ns);
    finding.severity = severity_of(waiting, lost_time);
    finding.title = fmt::format(
        "work is uneven, and in each step another rank has most of it: {:.1f}% of all GPU time is waiting; {}",
        100 * waiting, nobody);
  } else {
    finding.title =
        fmt::format("delays that wander from rank to rank cost {:.1f}% of all GPU time; {}", 100 * cost, nobody);
  }
  finding.evidence.push_back(
      fmt::format("the others wait {} in {} of the job", gpu_time(unnamed_ns), duration_text(time.span_ns)));
  finding.evidence.push_back(fmt::format(
      "{} ranks take part; the largest share is {:.1f}% (rank {}); in most steps one of them delays all others (column caused_wait_ns of table steps)",
      ranks, 100 * share(worst->caused_wait_ns, unnamed_ns), worst->trace_rank));
  if (balanced != nullptr) tell_saving(*balanced, finding);
  tell_rotating_cause(report, finding);
  finding.cost_ns = unnamed_ns;
  findings.push_back(std::move(finding));
}

void add_long_wait_finding(const JobReport& report, std::vector<Finding>& findings) {
  if (report.long_waits.empty()) return;
  const JobTime time = job_time(report);
  Nanoseconds all_ns = 0, held_ns = 0;
  for (const RankSummary& rank : report.ranks) all_ns += rank.wait_ns;
  std::map<std::tuple<Cause, WorkPart, std::string>, Nanoseconds> by_cause;
  Finding finding;
  finding.id = "long-waits";
  for (const LongWait& wait : report.long_waits) {
    held_ns += wait.caused_wait_ns;
    by_cause[{wait.cause, wait.part, wait.host_was_in}] += wait.caused_wait_ns;
    std::string line = fmt::format(
        "collective {}: the others waited {:.3f} ms for rank {}; its work took {:.3f} ms longer than that of rank {}",
        wait.instance, 1e3 * seconds(wait.caused_wait_ns), wait.trace_rank, 1e3 * seconds(wait.behind_ns),
        wait.peer_trace_rank);
    if (wait.more_ns > 0) {
      line += fmt::format("; {} {:.3f} ms longer", work_parts()[static_cast<std::size_t>(wait.part)].meaning,
                          1e3 * seconds(wait.more_ns));
    }
    if (!wait.detail.empty()) line += fmt::format(" ({})", wait.detail);
    finding.evidence.push_back(std::move(line));
  }
  const auto main = std::max_element(by_cause.begin(), by_cause.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto& [cause, part, host_was_in] = main->first;
  const double cost = share(held_ns, time.all_windows_ns);
  finding.severity = cost >= lost_time.high ? FindingSeverity::medium : FindingSeverity::low;
  const bool is_one = report.long_waits.size() == 1;
  const std::optional<std::int32_t> alone = waited_for_alone(report.long_waits);
  finding.title = fmt::format("{} delay{}{} cost{} {:.1f}% of all GPU time: {} {}", report.long_waits.size(),
                              is_one ? "" : "s", alone ? fmt::format(" of rank {}", *alone) : "", is_one ? "s" : "",
                              100 * cost, alone ? "it" : "mostly the last one", tell_cause(cause, part, host_was_in));
  finding.evidence.push_back(fmt::format("that is {:.0f}% of all waiting", 100 * share(held_ns, all_ns)));
  finding.evidence.push_back(
      "each line is one delay, by the collective before which it came about (rows of table long_waits); nobody is late often enough for a verdict");
  finding.recommendation = cause == Cause::slow_kernel && shares_its_gpu(report, report.long_waits.front().trace_rank)
                               ? std::string(advice_for_shared_gpu)
                               : advice_for_one(cause, part, host_was_in);
  finding.cost_ns = held_ns;
  if (alone) {
    finding.trace_ranks = {*alone};
    finding.place = place_of(report, *alone);
    // Who waits in a collective may compute beside it: then nobody would have been done earlier.
    if (tell_saving(report, finding) && saves_nothing(*finding.mended))
      finding.title = fmt::format(
          "others wait {:.1f}% of all GPU time for {} delay{} of rank {}, which {}, but other work takes as long meanwhile: fixing it saves nothing",
          100 * cost, report.long_waits.size(), is_one ? "" : "s", *alone, tell_cause(cause, part, host_was_in));
  }
  findings.push_back(std::move(finding));
}

void add_suspect_findings(const JobReport& report, std::vector<Finding>& findings) {
  for (const SuspectedStraggler& suspect : report.suspects)
    if (link_behind(report, suspect.late) == nullptr) findings.push_back(suspect_finding(report, suspect));
}

namespace {

std::string ranks_text(const LateWithoutCost& late) {
  constexpr std::size_t most = 4;
  const bool several = late.trace_ranks.size() > 1;
  if (late.trace_ranks.size() > most)
    return fmt::format("{} ranks from {} on", late.trace_ranks.size(), late.trace_ranks.front());
  return fmt::format("rank{} {}", several ? "s" : "", fmt::join(late.trace_ranks, ", "));
}

}  // namespace

std::string describe_late_without_cost(const JobReport& report) {
  if (report.late_without_cost.empty()) return "";
  const LateWithoutCost& most = report.late_without_cost.front();
  return fmt::format("{} take{} {:.1f}% of the time longer than {} peers", ranks_text(most),
                     most.trace_ranks.size() > 1 ? "" : "s", 100 * most.longer_share,
                     most.trace_ranks.size() > 1 ? "their" : "its");
}

void add_late_without_cost(const JobReport& report, std::vector<Finding>& findings) {
  if (report.late_without_cost.empty()) return;
  Finding finding;
  finding.id = "late-without-cost";
  finding.severity = FindingSeverity::low;
  finding.title = describe_late_without_cost(report) + ", and fixing that saves no more than steps vary by";
  for (const LateWithoutCost& late : report.late_without_cost)
    finding.evidence.push_back(fmt::format("{}: {:.1f}% of the time longer; {}", ranks_text(late),
                                           100 * late.longer_share, p_value_equation(late.p_value)));
  finding.evidence.push_back(fmt::format("rows of store.h5: steps where trace_rank = {}",
                                         report.late_without_cost.front().trace_ranks.front()));
  finding.recommendation =
      "see whether others wait for it in a way that the replay does not know, such as collectives that are launched ahead: compare the length of a step with one of a run without it";
  finding.trace_ranks = report.late_without_cost.front().trace_ranks;
  findings.push_back(std::move(finding));
}

}  // namespace nsys_explain::analysis
