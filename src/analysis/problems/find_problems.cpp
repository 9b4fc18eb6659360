#include "analysis/problems/find_problems.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/findings.hpp"
#include "analysis/links/links.hpp"
#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

/// What is proven of those who are late by a link.
Nanoseconds waits_for_stragglers(std::span<const Finding> late) {
  Nanoseconds waits_ns = 0;
  for (const Finding& finding : late)
    if (finding.id == "straggler") waits_ns += finding.cost_ns.value_or(0);
  return waits_ns;
}

/// The program of nccl-tests that runs the operation; all_reduce_perf where none does.
std::string_view test_of(Operation operation) {
  switch (operation) {
    case Operation::all_gather:
      return "all_gather_perf";
    case Operation::reduce_scatter:
      return "reduce_scatter_perf";
    case Operation::broadcast:
      return "broadcast_perf";
    case Operation::reduce:
      return "reduce_perf";
    case Operation::all_to_all:
      return "alltoall_perf";
    case Operation::send_recv:
      return "sendrecv_perf";
    default:
      return "all_reduce_perf";
  }
}

/// The test that shows whether the link is slow without the job, and what it should print.
std::string test_to_run(const SlowLink& link) {
  const bool several = link.hosts.size() > 1;
  const bool inside = link.scope == LinkScope::within_node || (!several && link.scope == LinkScope::any);
  const std::string hosts = fmt::format("{}", fmt::join(link.hosts, " and "));
  const std::string where = hosts.empty() ? "on these GPUs"
                            : inside      ? "on the GPUs of " + hosts
                            : several     ? "between just " + hosts
                                          : "between " + hosts + " and another host";
  const std::string size = link.bytes > 0 ? fmt::format(" -b {} -e {}", link.bytes, link.bytes) : std::string();
  std::string text = fmt::format("run {}{} of nccl-tests{} {}", test_of(link.operation), size,
                                 inside ? "" : " and ib_write_bw", where);
  if (link.expected_gbs > 0)
    text += fmt::format(": equal links reach {:.3g} GB/s (busbw) in this job, this one {:.3g}", link.expected_gbs,
                        link.measured_gbs);
  return text +
         (inside
              ? "; if it is slow there, too, look for links that are down or retry (nvidia-smi nvlink -s -e, nvidia-smi topo -m, dmesg for Xid 74), else for the transport that NCCL chose (NCCL_DEBUG=INFO)"
              : "; if it is slow there, too, look for errors and speed of the ports in between (ibstat, perfquery -x, ethtool -S), else for NIC and GPUDirect RDMA that NCCL chose (NCCL_DEBUG=INFO)");
}

/// "trace rank 6 (GPU 2 on node001)"; of other places as they are described.
std::string link_and_place(const JobReport& report, const SlowLink& link) {
  std::string name = describe(link);
  if (link.place != LinkPlace::rank || link.hosts.size() != 1) return name;
  const std::string host = fmt::format("(host {})", link.hosts.front());
  const std::string place = place_of(report, link.trace_ranks.front());
  if (const std::size_t at = name.find(host); at != std::string::npos && !place.empty())
    name.replace(at, host.size(), '(' + place + ')');
  return name;
}

/// One finding for a link and all that it makes late: transfer time and waiting, which do not overlap, are its cost.
Finding slow_link_finding(const JobReport& report, const SlowLink& link, Nanoseconds window_ns) {
  Finding finding;
  finding.id = "slow-link";
  finding.trace_ranks = link.trace_ranks;
  finding.place = fmt::format("{}", fmt::join(link.hosts, ", "));
  const std::vector<Finding> late = findings_of_late_by(link, report);
  const Nanoseconds waits_ns = waits_for_stragglers(late), cost_ns = link.lost_ns + waits_ns;
  finding.title = fmt::format("transfers through {} take {:.2f} times as long as equal ones elsewhere",
                              link_and_place(report, link), link.slowdown);
  if (!tell_saving(report, finding)) {
    finding.severity = severity_of(share(cost_ns, window_ns), lost_time);
    finding.title += fmt::format(". They cost {:.1f}% of all GPU time", 100 * share(cost_ns, window_ns));
  }
  finding.evidence.push_back(fmt::format(
      "it costs {} in {} collectives{}", gpu_time(link.lost_ns), link.instances,
      waits_ns > 0 ? fmt::format(", and {} of waiting for who is late by it", gpu_time(waits_ns)) : std::string()));
  finding.evidence.push_back(fmt::format("{} slow group{} of ranks {} it, {} group{} without it {} not slow",
                                         link.slow_groups, link.slow_groups == 1 ? "" : "s",
                                         link.slow_groups == 1 ? "has" : "have", link.fast_groups,
                                         link.fast_groups == 1 ? "" : "s", link.fast_groups == 1 ? "is" : "are"));
  finding.evidence.insert(finding.evidence.end(), link.evidence.begin(), link.evidence.end());
  finding.evidence.emplace_back("rows: bandwidth of these communicators, slow_links");
  for (const Finding& of_late : late) {
    finding.evidence.push_back(of_late.title);
    finding.evidence.insert(finding.evidence.end(), of_late.evidence.begin(), of_late.evidence.end());
  }
  finding.recommendation = test_to_run(link);
  finding.cost_ns = cost_ns;
  return finding;
}

/// One finding per slow link of the report, with all that it makes late.
std::vector<Finding> find_slow_links(const JobReport& report) {
  std::vector<Finding> findings;
  for (const SlowLink& link : report.slow_links)
    findings.push_back(slow_link_finding(report, link, windows_of(report).ranks_ns));
  return findings;
}

/// Share of the window time of all trace ranks from which on a finding is worth a line.
constexpr double share_worth_telling = 0.05;

struct JobTotals {
  Nanoseconds window = 0, communication = 0, exposed = 0, opaque = 0, wait = 0;
};

JobTotals add_up(const JobReport& report) {
  JobTotals totals;
  for (const RankSummary& rank : report.ranks) {
    totals.window += rank.budget.window_ns;
    totals.communication += rank.budget.communication_ns;
    totals.exposed += rank.budget.exposed_communication_ns;
    totals.opaque += rank.budget.opaque_graph_ns;
    totals.wait += rank.wait_ns;
  }
  return totals;
}

Nanoseconds cost_of(std::span<const Finding> findings) {
  Nanoseconds cost_ns = 0;
  for (const Finding& finding : findings) cost_ns += finding.cost_ns.value_or(0);
  return cost_ns;
}

/// Null where there is none.
const Finding* find_by_id(std::span<const Finding> findings, std::string_view id) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.id == id; });
  return found == findings.end() ? nullptr : &*found;
}

Nanoseconds cost_of(std::span<const Finding> findings, std::string_view id) {
  const Finding* const found = find_by_id(findings, id);
  return found == nullptr ? 0 : found->cost_ns.value_or(0);
}

/// What compute waits for once the last member has entered, as in table step_budget: no waiting, and nothing that the
/// host had not launched.
Nanoseconds exposed_transfers(const JobReport& report) {
  constexpr auto transfer = static_cast<std::size_t>(CollectivePhase::transfer);
  constexpr auto launch_paced = static_cast<std::size_t>(StandstillReason::launch_paced);
  Nanoseconds sum_ns = 0;
  for (const ExposedTime& exposed : report.exposed)
    for (std::size_t reason = 0; reason < standstill_reason_count; ++reason)
      if (reason != launch_paced) sum_ns += exposed.duration_ns[transfer][reason];
  return sum_ns;
}

/// Transfers that no compute hides. `late_ns`: of waiting that other findings tell, `setup_ns`: of connections made.
/// Where waiting cannot be told from transfers, nothing says what overlapping would save.
void add_exposed_communication(const JobReport& report, const JobTotals& totals, Nanoseconds late_ns,
                               Nanoseconds setup_ns, std::vector<Finding>& findings) {
  const bool known = waiting_is_known(report);
  Nanoseconds lost_ns = 0;  // by slow links, in transfers
  for (const SlowLink& link : report.slow_links) lost_ns += link.lost_ns;
  const Nanoseconds left_ns = (known ? exposed_transfers(report) : totals.exposed - late_ns) - lost_ns - setup_ns;
  const double part = share(left_ns, totals.window);
  if (part < share_worth_telling) return;
  Finding finding;
  finding.id = "exposed-communication";
  finding.cost_ns = left_ns;
  finding.evidence.push_back(fmt::format("exposed communication: {}, summed over {} ranks",
                                         gpu_time_of(totals.exposed, totals.window), report.ranks.size()));
  if (known) {
    const WhatIf* const hidden = what_if_hidden(report);
    finding.severity = severity_of(hidden != nullptr ? hidden->saved_share : part);
    finding.title = fmt::format("{:.1f}% of GPU time is transfers that no compute hides", 100 * part);
    if (hidden != nullptr) finding.title += ". " + saving_text(*hidden);
    if (totals.wait > 0)
      finding.evidence.push_back(fmt::format("besides, {} of waiting for late members", gpu_time(totals.wait)));
    OverlapAdvice advice = explain_exposed_communication(report);
    std::move(advice.evidence.begin(), advice.evidence.end(), std::back_inserter(finding.evidence));
    finding.recommendation = std::move(advice.recommendation);
  } else {
    finding.severity = FindingSeverity::low;
    finding.title = fmt::format(
        "{:.1f}% of GPU time is communication that no compute hides, of which waiting and transfers cannot be separated",
        100 * part);
    finding.recommendation =
        "capture all ranks over the same steps on clocks that can be compared, then see how much of it is waiting";
  }
  findings.push_back(std::move(finding));
}

void add_opaque_graphs(const JobTotals& totals, std::vector<Finding>& findings) {
  if (const double part = share(totals.opaque, totals.window); part >= share_worth_telling) {
    findings.push_back(
        {.id = "opaque-graphs",
         .severity = severity_of(part),
         .title = fmt::format("{:.1f}% of GPU time lies inside CUDA graphs recorded as one interval", 100 * part),
         .evidence = {fmt::format("{}; their kernels and collectives are not recorded", gpu_time(totals.opaque))},
         .recommendation = "capture again with: nsys profile -t cuda,nvtx --cuda-graph-trace=node ..."});
  }
}

/// "12 of node000, node002 and 1 more host".
std::string describe_group(std::span<const SessionClock* const> sessions) {
  constexpr std::size_t named_hosts = 4;
  std::set<std::string> hosts;
  for (const SessionClock* session : sessions) hosts.insert(session->host);
  const std::vector<std::string> named(
      hosts.begin(), std::next(hosts.begin(), static_cast<std::ptrdiff_t>(std::min(hosts.size(), named_hosts))));
  std::string text = fmt::format("{} of {}", sessions.size(), fmt::join(named, ", "));
  if (named.size() < hosts.size()) text += fmt::format(" and {} more hosts", hosts.size() - named.size());
  return text;
}

void add_unrelated_clocks(std::span<const SessionClock> sessions, std::vector<Finding>& findings) {
  constexpr std::size_t told_groups = 4;
  std::map<std::int32_t, std::vector<const SessionClock*>> by_component;
  for (const SessionClock& session : sessions) by_component[session.component].push_back(&session);
  if (by_component.size() < 2) return;
  std::vector<std::vector<const SessionClock*>> groups;
  for (auto& [component, members] : by_component) groups.push_back(std::move(members));
  std::stable_sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::vector<std::string> told;
  for (std::size_t g = 0; g < std::min(groups.size(), told_groups); ++g) told.push_back(describe_group(groups[g]));
  findings.push_back(
      {.id = "clocks-unrelated",
       .severity = FindingSeverity::medium,
       .title = "some sessions' clocks cannot be related: no lateness is stated between them",
       .evidence =
           {fmt::format("{} groups of sessions: {}{}", groups.size(), fmt::join(told, "; "),
                        groups.size() > told_groups ? "; ..." : ""),
            "neither a shared host clock nor matched collectives relate them: a wait for another group is not seen"},
       .recommendation =
           "capture the same collectives on all ranks; on several nodes nsys 2026.4 offers --enable vclock"});
}

/// Of jobs without communication kernels, calls of the host.
bool communicates_by_kernels(const JobReport& report) {
  const Table* const kernels = find_table(report.tables, schema::kernels);
  if (kernels == nullptr) return true;
  const auto& communication = column(*kernels, schema::kernels.communication);
  return std::any_of(communication.begin(), communication.end(), [](std::int64_t is_one) { return is_one != 0; });
}

Finding find_withheld(const JobReport& report) {
  if (!communicates_by_kernels(report)) {
    return {
        .id = "withheld-arrivals",
        .severity = FindingSeverity::medium,
        .title = fmt::format("{} calls into MPI are in no collective: nothing tells their communicators",
                             report.withheld_arrivals),
        .evidence =
            {"handles of communicators differ from process to process; which of them are one is concluded from when calls end, and no conclusion is drawn where that is not clear"},
        .recommendation = "capture with a version of nsys that records commUid (table MPI_COLLECTIVES_EVENTS)"};
  }
  return {
      .id = "withheld-arrivals",
      .severity = FindingSeverity::medium,
      .title = fmt::format("{} communication kernels are in no collective: nothing tells their communicators",
                           report.withheld_arrivals),
      .evidence =
          {"without NCCL's payload, which streams communicate with each other is concluded from when operations end; where several communicators share a stream, or their operations end alike, no conclusion is drawn"},
      .recommendation =
          "export again with: nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep (NCCL 2.25 or later records communicators)"};
}

/// `may_communicate`: by kernels that look like it.
void add_quality_findings(const JobReport& report, const JobTotals& totals, bool may_communicate,
                          std::vector<Finding>& findings) {
  const bool communicates = totals.communication > 0 || totals.opaque > 0;
  if (report.instances == 0 && report.trace_ranks.size() > 1 && !communicates && !may_communicate) {
    findings.push_back({.id = "no-communication",
                        .severity = FindingSeverity::info,
                        .title = "no communication between the ranks was recorded: nobody can be late for another",
                        .evidence = {fmt::format("{} ranks without a communication kernel", report.trace_ranks.size())},
                        .recommendation = "if they do communicate, capture the steps in which they do"});
  }
  if (report.instances == 0 && report.trace_ranks.size() > 1 && communicates) {
    findings.push_back(
        {.id = "no-collectives",
         .severity = FindingSeverity::medium,
         .title = "no collective could be matched across ranks",
         .evidence = {fmt::format("{} ranks, {} communication kernels without a counterpart", report.trace_ranks.size(),
                                  report.unmatched_arrivals + report.withheld_arrivals)},
         .recommendation = "capture all ranks over the same steps; with CUDA graphs add --cuda-graph-trace=node"});
  }
  if (report.withheld_arrivals > 0) findings.push_back(find_withheld(report));
  const bool no_payload = std::any_of(report.communicators.begin(), report.communicators.end(),
                                      [](const auto& c) { return !is_told_by_calls(c.evidence) && c.instances > 0; });
  if (no_payload) {
    findings.push_back(
        {.id = "no-nccl-payload",
         .severity = FindingSeverity::info,
         .title = "message sizes and communicators are not in (all of) the traces: collectives were matched by order",
         .evidence = {"sequences are equal on all members, or aligned; bandwidths need sizes and are left out"},
         .recommendation =
             "export with: nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep (NCCL 2.25 or later records communicators)"});
  }
  if (report.clock.violations * 10 > report.instances) {
    findings.push_back(
        {.id = "infeasible-matches",
         .severity = FindingSeverity::high,
         .title = fmt::format("{} of {} matched collectives are impossible: a member left before the last one entered",
                              report.clock.violations, report.instances),
         .evidence =
             {"operations of different groups were probably taken for one: without NCCL's payload the traces do not say who belongs to a communicator",
              "nothing about lateness is drawn from them; waits, bandwidths and verdicts leave them out"},
         .recommendation =
             "export with: nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep (NCCL 2.25 or later records communicators)"});
  }
  if (!report.trace_ranks.empty()) add_unrelated_clocks(report.clock.sessions, findings);
}

/// What is missing comes first, then what saves time when mended, most first; then the rest by severity and cost.
auto place_in_order(const Finding& finding) {
  const bool saves = finding.mended && finding.severity <= FindingSeverity::medium;
  return std::tuple(finding.id != "missing-ranks", !saves,
                    saves ? -finding.mended->saved_share : static_cast<double>(finding.severity),
                    -finding.cost_ns.value_or(0));
}

}  // namespace

std::vector<Finding> find_problems(const JobReport& report) {
  std::vector<Finding> findings;
  const JobTotals totals = add_up(report);
  add_straggler_findings(report, findings);
  const Nanoseconds by_stragglers_ns = cost_of(findings);
  add_suspect_findings(report, findings);
  const Nanoseconds by_late_ranks_ns = cost_of(findings);
  add_rotating_delay_finding(report, findings);
  add_long_wait_finding(report, findings);
  // A delay that rotates is all but that of stragglers, and long waits may be for suspects: both look at one thing.
  const Nanoseconds told_ns = std::max(
      {by_late_ranks_ns, by_stragglers_ns + cost_of(findings, "rotating-delay"), cost_of(findings, "long-waits")});
  std::vector<Finding> of_questions;
  for (const Question& question : all_questions())
    if (question.find != nullptr) question.find(report, of_questions);
  add_longest_stage_finding(report, findings);
  std::vector<Finding> link_findings = find_slow_links(report);
  Nanoseconds late_ns = told_ns + cost_of(link_findings);
  for (const SlowLink& link : report.slow_links) late_ns -= link.lost_ns;
  if (waiting_is_known(report))
    add_pipeline_bubble_finding(report, late_ns + cost_of(findings, "longest-stage"), findings);
  add_exposed_communication(report, totals, late_ns, cost_of(of_questions, "connection-setup"), findings);
  add_opaque_graphs(totals, findings);
  add_quality_findings(report, totals, find_by_id(of_questions, "unknown-communication") != nullptr, findings);
  for (Finding& finding : link_findings) findings.push_back(std::move(finding));
  add_late_without_cost(report, findings);
  std::move(of_questions.begin(), of_questions.end(), std::back_inserter(findings));
  for (Finding& finding : findings)
    if (!finding.mended && !names_who_is_late(finding)) tell_saving(report, finding);
  const bool somebody_is_late = std::any_of(findings.begin(), findings.end(), names_who_is_late);
  if (auto missing = find_missing_ranks(report, somebody_is_late)) findings.push_back(*std::move(missing));
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return place_in_order(a) < place_in_order(b); });
  judge_short_capture(report, findings);
  return findings;
}

}  // namespace nsys_explain::analysis
