#include "analysis/findings/link_findings.hpp"

#include <span>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "analysis/findings/late_parts.hpp"
#include "analysis/findings/straggler_findings.hpp"
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

}  // namespace

std::vector<Finding> find_slow_links(const JobReport& report) {
  std::vector<Finding> findings;
  for (const SlowLink& link : report.slow_links)
    findings.push_back(slow_link_finding(report, link, windows_of(report).ranks_ns));
  return findings;
}

}  // namespace nsys_explain::analysis
