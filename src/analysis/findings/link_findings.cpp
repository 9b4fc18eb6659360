#include "analysis/findings/link_findings.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <string_view>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/straggler_findings.hpp"
#include "analysis/links/messages.hpp"
#include "analysis/links/slow_links.hpp"

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

void add_slow_links(const JobReport& report, std::vector<Finding>& findings) {
  Nanoseconds window_ns = 0;
  for (const RankSummary& rank : report.ranks) window_ns += rank.budget.window_ns;
  for (const SlowLink& link : report.slow_links) findings.push_back(slow_link_finding(report, link, window_ns));
}

/// True where a slow link tells why the trace rank's NVLinks carry less.
bool is_on_slow_link(const JobReport& report, std::int32_t trace_rank) {
  return std::any_of(report.slow_links.begin(), report.slow_links.end(), [&](const SlowLink& link) {
    return link.place != LinkPlace::node && link.place != LinkPlace::node_pair &&
           std::find(link.trace_ranks.begin(), link.trace_ranks.end(), trace_rank) != link.trace_ranks.end();
  });
}

/// GPUs that should carry equal traffic: same host, same model, same counter.
void add_asymmetry(const JobReport& report, std::vector<Finding>& findings) {
  constexpr std::size_t fewest_peers = 4;
  constexpr double least_share = 0.7, least_difference_percent = 5;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<const NvlinkUse*>> peers;
  for (const NvlinkUse& use : report.nvlink.gpus) {
    const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                   [&](const TraceRankIdentity& r) { return r.trace_rank == use.trace_rank; });
    if (rank == report.trace_ranks.end() || !use.mean_during_percent) continue;
    peers[{rank->host, rank->gpu_name, use.metric}].push_back(&use);
  }
  for (const auto& [key, uses] : peers) {
    if (uses.size() < fewest_peers) continue;
    std::vector<double> means;
    for (const NvlinkUse* use : uses) means.push_back(*use->mean_during_percent);
    std::sort(means.begin(), means.end());
    const double median = means[means.size() / 2];
    for (const NvlinkUse* use : uses) {
      const double mean = *use->mean_during_percent;
      if (mean >= least_share * median || median - mean < least_difference_percent) continue;
      if (is_on_slow_link(report, use->trace_rank)) continue;
      findings.push_back(
          {"nvlink-asymmetry",
           FindingSeverity::low,
           fmt::format("the NVLinks of rank {} carry less during collectives than those of its host's other GPUs",
                       use->trace_rank),
           {fmt::format("{}: {:.1f}% of their peak, the median of {} GPUs of host '{}' is {:.1f}%", use->metric, mean,
                        uses.size(), std::get<0>(key), median),
            "a rank that waits long for others shows less traffic per time in collectives, too: compare its waits",
            fmt::format("rows: nvlink where trace_rank = {}", use->trace_rank)},
           "if its waits are not longer than its peers', compare the state of its links: nvidia-smi nvlink -s",
           {},
           {},
           {use->trace_rank},
           place_of(report, use->trace_rank)});
    }
  }
}

void add_idle_artefact(const JobReport& report, std::vector<Finding>& findings) {
  std::int64_t samples = 0, artefacts = 0;
  for (const NvlinkUse& use : report.nvlink.gpus) {
    samples += use.samples + use.artefacts;
    artefacts += use.artefacts;
  }
  if (artefacts * 20 < samples || artefacts == 0) return;
  findings.push_back(
      {"nvlink-idle-artefact",
       FindingSeverity::info,
       "NVLink counters read as fully utilised while links were idle",
       {fmt::format(
            "{} of {} samples read as (nearly) 100% on every counter though no collective ran, or as more than a link can carry; they are left out of all means",
            artefacts, samples),
        "a documented limitation of nsys' GPU metrics for inactive links"},
       "trust means during collectives only; a newer driver and nsys may not show this"});
}

void add_unbalanced_exchange(const JobReport& report, std::vector<Finding>& findings) {
  constexpr double telling_imbalance = 1.5;
  for (const ExchangeBalance& balance : exchange_balances(report.tables)) {
    const double imbalance =
        static_cast<double>(balance.most_bytes) / static_cast<double>(std::max<std::int64_t>(balance.mean_bytes, 1));
    if (imbalance < telling_imbalance) continue;
    findings.push_back({"unbalanced-exchange",
                        FindingSeverity::medium,
                        fmt::format("rank {} sends {:.1f} times the mean in the all-to-alls of communicator {}",
                                    balance.busiest_trace_rank, imbalance, balance.communicator),
                        {fmt::format("{} bytes against a mean of {} over {} members; all wait for the fullest",
                                     balance.most_bytes, balance.mean_bytes, balance.members),
                         "rows: messages of this communicator, byte_matrix"},
                        "balance what is exchanged: for experts, capacity factor and load-balancing loss"});
  }
}

}  // namespace

std::vector<Finding> find_link_problems(const JobReport& report) {
  std::vector<Finding> findings;
  add_slow_links(report, findings);
  add_asymmetry(report, findings);
  add_idle_artefact(report, findings);
  add_unbalanced_exchange(report, findings);
  return findings;
}

}  // namespace nsys_explain::analysis
