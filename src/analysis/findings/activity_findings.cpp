#include "analysis/findings/activity_findings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/causes/attributed_time.hpp"
#include "analysis/findings/finding_parts.hpp"
#include "analysis/findings/finding_sizes.hpp"
#include "model/p_value_text.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/shared_gpus.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double idle_worth_telling = 0.05, tail_worth_telling = 0.02, copies_worth_telling = 0.01,
                 exposed_copies_worth_telling = 0.05, allocations_worth_telling = 0.02, overhead_worth_telling = 0.05;
constexpr std::size_t named_ranks = 8;

const NamedTotal* find(const std::vector<NamedTotal>& totals, std::string_view name) {
  const auto found = std::find_if(totals.begin(), totals.end(), [&](const NamedTotal& t) { return t.name == name; });
  return found != totals.end() ? &*found : nullptr;
}

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  const std::size_t shown = std::min(ranks.size(), named_ranks);
  std::string text =
      fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

/// Windows of all trace ranks, and of all processes: each counts once, with its longest trace rank.
struct Windows {
  Nanoseconds ranks_ns = 0, processes_ns = 0;
};

Windows windows_of(const JobReport& report) {
  Windows windows;
  std::map<std::int32_t, Nanoseconds> of_rank;
  for (const RankSummary& rank : report.ranks) {
    windows.ranks_ns += rank.budget.window_ns;
    of_rank[rank.trace_rank] = rank.budget.window_ns;
  }
  for (const ProcessSummary& process : report.activity.processes) {
    Nanoseconds longest_ns = 0;
    for (const std::int32_t rank : process.trace_ranks) longest_ns = std::max(longest_ns, of_rank[rank]);
    windows.processes_ns += longest_ns;
  }
  return windows;
}

/// Slow GPUs by host, but those of the late of that cause: their finding holds the same evidence and advice.
std::map<std::string, std::vector<const GpuSpeed*>> untold_slow_gpus(const JobReport& report) {
  std::map<std::int32_t, const std::string*> host_of_rank;
  for (const TraceRankIdentity& identity : report.trace_ranks) host_of_rank[identity.trace_rank] = &identity.host;
  const LateRanks told = late_by(report, {Cause::slow_kernel});
  std::map<std::string, std::vector<const GpuSpeed*>> slow;
  for (const GpuSpeed& speed : report.activity.gpu_speeds) {
    if (!speed.slow || is_among(told, speed.trace_rank)) continue;
    slow[*host_of_rank.at(speed.trace_rank)].push_back(&speed);
  }
  return slow;
}

/// All GPUs of one host of several, alike: the largest surplus is at most twice the smallest.
bool are_one_slow_node(const JobReport& report, const std::string& host, std::span<const GpuSpeed* const> slow) {
  std::size_t on_host = 0;
  for (const TraceRankIdentity& identity : report.trace_ranks) on_host += identity.host == host ? 1 : 0;
  if (slow.size() < 2 || slow.size() != on_host || on_host == report.trace_ranks.size()) return false;
  const auto [least, most] = std::minmax_element(
      slow.begin(), slow.end(), [](const GpuSpeed* a, const GpuSpeed* b) { return a->ratio < b->ratio; });
  return (*most)->ratio - 1 <= 2 * ((*least)->ratio - 1);
}

/// By how much less a slow GPU would compute at the speed of its peers.
Nanoseconds lost_by(const GpuSpeed& speed, const JobReport& report) {
  const auto rank = std::find_if(report.ranks.begin(), report.ranks.end(),
                                 [&](const RankSummary& one) { return one.trace_rank == speed.trace_rank; });
  if (rank == report.ranks.end()) return 0;
  return std::llround(static_cast<double>(rank->budget.compute_ns) * (1 - 1 / speed.ratio));
}

FindingSeverity severity_of_slowness(double ratio) {
  return ratio >= 1.1 ? FindingSeverity::high : FindingSeverity::medium;
}

Finding describe_slow_node(const JobReport& report, const std::string& host, std::span<const GpuSpeed* const> slow) {
  Nanoseconds lost_ns = 0;
  std::vector<std::int32_t> ranks;
  std::vector<double> ratios;
  double p_value = 0;
  for (const GpuSpeed* speed : slow) {
    ranks.push_back(speed->trace_rank);
    ratios.push_back(speed->ratio);
    p_value = std::max(p_value, speed->p_value);
    lost_ns += lost_by(*speed, report);
  }
  std::sort(ratios.begin(), ratios.end());
  const double middle = lower_median(ratios);
  return {
      "slow-gpu",
      severity_of_slowness(middle),
      fmt::format("the {} GPUs of node '{}' (ranks {}) take {:.1f}% longer than their peers for the same kernels",
                  slow.size(), host, rank_list(ranks), 100 * (middle - 1)),
      {fmt::format(
           "all of its GPUs, by {:.1f} to {:.1f}%: medians over compute kernels of equal name, grid and block, weighted by time; at most {}",
           100 * (ratios.front() - 1), 100 * (ratios.back() - 1), p_value_equation(p_value)),
       fmt::format("rows: gpu_speed and kernel_peers where trace_rank is one of {}", rank_list(ranks))},
      std::string(advice_for_slow_node),
      lost_ns,
      {},
      ranks,
      "node " + host};
}

Finding describe_slow_gpu(const JobReport& report, const GpuSpeed& speed) {
  return {"slow-gpu",
          severity_of_slowness(speed.ratio),
          fmt::format("{} (rank {}) takes {:.1f}% longer than its peers for the same kernels",
                      place_of(report, speed.trace_rank), speed.trace_rank, 100 * (speed.ratio - 1)),
          {fmt::format("median over {} compute kernels of equal name, grid and block, weighted by time; {}",
                       speed.kernels, p_value_equation(speed.p_value)),
           fmt::format("rows: gpu_speed and kernel_peers where trace_rank = {}", speed.trace_rank)},
          std::string(shares_its_gpu(report, speed.trace_rank) ? advice_for_shared_gpu : advice_for_slow_gpu),
          lost_by(speed, report),
          {},
          {speed.trace_rank},
          place_of(report, speed.trace_rank)};
}

void add_slow_gpus(const JobReport& report, std::vector<Finding>& findings) {
  const auto untold = untold_slow_gpus(report);
  std::map<std::int32_t, Finding> by_rank;  // its first
  for (const auto& [host, slow] : untold) {
    if (are_one_slow_node(report, host, slow)) {
      by_rank[slow.front()->trace_rank] = describe_slow_node(report, host, slow);
    } else {
      for (const GpuSpeed* speed : slow) by_rank[speed->trace_rank] = describe_slow_gpu(report, *speed);
    }
  }
  for (auto& [trace_rank, finding] : by_rank) findings.push_back(std::move(finding));
}

/// What findings about the late tell of something already: by how much they have more of it than is usual.
struct ToldOfLate {
  LateRanks ranks;
  Nanoseconds time_ns = 0;

  /// For a title, and for its evidence.
  std::string_view beside() const { return time_ns > 0 ? ", besides that of ranks that are late by it" : ""; }
  void add_to(std::vector<std::string>& evidence) const {
    if (time_ns > 0)
      evidence.push_back(fmt::format("besides, {} more than is usual on rank{} {}: see the findings about them",
                                     gpu_time(time_ns), ranks.size() == 1 ? "" : "s", rank_list(ranks)));
  }
};

/// The late by what their hosts did: meanwhile their GPUs are idle.
LateRanks late_by_host(const JobReport& report) {
  return late_by(report, {Cause::launch_starved, Cause::sync_stall, Cause::blocking_copy, Cause::allocation,
                          Cause::profiler_overhead});
}

ToldOfLate told_of_idle(const JobReport& report, std::string_view cause) {
  LateRanks late = late_by_host(report);
  const auto is_of_cause = [&](const Table& table, std::size_t i) {
    return column(table, schema::idle_causes.cause)[i] == cause;
  };
  const Nanoseconds told_ns =
      surplus_of(late, time_of_ranks(report, schema::idle_causes, schema::idle_causes.gaps.total, is_of_cause));
  return {std::move(late), told_ns};
}

ToldOfLate told_of_all_idle(const JobReport& report) {
  LateRanks late = late_by_host(report);
  TimeOfRank idle_ns;
  for (const RankSummary& rank : report.ranks) idle_ns[rank.trace_rank] = rank.budget.idle_ns;
  const Nanoseconds told_ns = surplus_of(late, idle_ns);
  return {std::move(late), told_ns};
}

/// Idle time by its causes, then what of it no such finding has told, nor those about the late.
void add_idle(const JobReport& report, const Windows& windows, std::vector<Finding>& findings) {
  Nanoseconds idle_ns = 0, told_ns = 0, late_ns = 0;
  for (const RankSummary& rank : report.ranks) idle_ns += rank.budget.idle_ns;
  const auto add = [&](const char* cause, const char* id, const char* title, const char* recommendation) {
    const NamedTotal* idle = find(report.activity.idle_causes, cause);
    if (idle == nullptr) return;
    const ToldOfLate late = told_of_idle(report, cause);
    late_ns += late.time_ns;
    const Nanoseconds left_ns = idle->total_ns - late.time_ns;
    const double part = share(left_ns, windows.ranks_ns);
    if (part < idle_worth_telling) return;
    told_ns += left_ns;
    findings.push_back(
        {id,
         severity_of(part),
         fmt::format("{:.1f}% of GPU time is idle {}{}", 100 * part, title, late.beside()),
         {fmt::format("{} in {} gaps, the longest {:.3f} ms; GPUs are idle for {} in all", gpu_time(idle->total_ns),
                      idle->count, static_cast<double>(idle->max_ns) * 1e-6, gpu_time_of(idle_ns, windows.ranks_ns)),
          fmt::format("rows: idle_gaps where cause = '{}'", cause)},
         recommendation,
         left_ns});
    late.add_to(findings.back().evidence);
  };
  add("launch_starved", "launch-starved", "because the host launched the next work too late",
      "see the barriers and CUDA calls of the host: remove synchronising calls from the loop, launch ahead, use CUDA graphs or fewer, larger kernels; check the input pipeline and the CPU's load");
  add("dependency_stalled", "dependency-stalled", "waiting for another stream, with work already launched",
      "order the work so that streams overlap, record events as early as possible, and split what others wait for");
  ToldOfLate late = told_of_all_idle(report);
  late.time_ns = std::max(late.time_ns, late_ns);
  const Nanoseconds left_ns = idle_ns - told_ns - late.time_ns;
  if (const double part = share(left_ns, windows.ranks_ns); part >= idle_worth_telling) {
    findings.push_back(
        {"gpu-idle",
         severity_of(part),
         fmt::format("GPUs are idle for {:.1f}% of their time{}{}", 100 * part, told_ns > 0 ? " for other reasons" : "",
                     late.beside()),
         {fmt::format("{} between the first and the last GPU activity of each rank",
                      gpu_time_of(left_ns, windows.ranks_ns))},
         "look for late launches, synchronising calls and input pipelines on the host; CUDA graphs cut launch cost",
         left_ns});
    late.add_to(findings.back().evidence);
  }
}

void add_storm(const ActivitySummary& activity, std::vector<Finding>& findings) {
  const LaunchSummary& launches = activity.launches;
  if (launches.storming.empty()) return;
  findings.push_back(
      {"launch-storm",
       FindingSeverity::medium,
       launches.storming.size() == 1
           ? fmt::format("rank {} launches so many short kernels that launching limits it", launches.storming[0])
           : fmt::format("{} ranks launch so many short kernels that launching limits them", launches.storming.size()),
       {fmt::format("up to {:.0f} launches per second (rank {})", launches.largest_rate, launches.largest_trace_rank),
        fmt::format("ranks {}; rows: launch_storm", rank_list(launches.storming))},
       "fuse small kernels (torch.compile, fused operators), batch more work per launch, or capture the loop in a CUDA graph"});
}

void add_tail(const ActivitySummary& activity, const Windows& windows, std::vector<Finding>& findings) {
  const KernelTail& tail = activity.tail;
  const double part = share(tail.excess_ns, windows.ranks_ns);
  if (part < tail_worth_telling) return;
  findings.push_back(
      {"kernel-tail",
       FindingSeverity::low,
       fmt::format("the slow executions of kernel {} cost {:.1f}% of GPU time", short_kernel_name(tail.name),
                   100 * part),
       {fmt::format("{} more than if all {} executions of grid {} had taken the median; the longest took {:.3f} ms",
                    gpu_time(static_cast<Nanoseconds>(tail.excess_ns)), tail.count, tail.launch,
                    static_cast<double>(tail.max_ns) * 1e-6),
        "rows: kernels_by_launch of that name and grid, kernel_histogram of that name"},
       "see whether the slow executions run beside other work (communication, copies, other streams) or work on other data or sizes; if neither, look at clocks and memory traffic",
       static_cast<Nanoseconds>(tail.excess_ns)});
}

ToldOfLate told_of_copies(const JobReport& report, std::string_view rule) {
  LateRanks late = late_by(report, {Cause::blocking_copy});
  const auto is_of_rule = [&](const Table& table, std::size_t i) {
    return column(table, schema::expert_rules.rule)[i] == rule;
  };
  const Nanoseconds told_ns =
      surplus_of(late, time_of_ranks(report, schema::expert_rules, schema::expert_rules.total_ns, is_of_rule));
  return {std::move(late), told_ns};
}

/// Copies that block by how they are called, then the time of copies that no such finding has told, nor those about the
/// late.
void add_copies(const JobReport& report, const Windows& windows, std::vector<Finding>& findings) {
  Nanoseconds told_ns = 0, exposed_ns = 0;
  for (const RankSummary& rank : report.ranks) exposed_ns += rank.budget.copy_ns;
  const auto add = [&](const char* rule, const char* id, const char* title, const char* recommendation) {
    const NamedTotal* cases = find(report.activity.rules, rule);
    if (cases == nullptr) return;
    const ToldOfLate late = told_of_copies(report, rule);
    const Nanoseconds left_ns = cases->total_ns - late.time_ns;
    const double part = share(left_ns, windows.ranks_ns);
    told_ns += late.time_ns;
    if (part < copies_worth_telling) return;
    told_ns += left_ns;
    findings.push_back({id,
                        severity_of(part),
                        fmt::format("{:.1f}% of GPU time is {}{}", 100 * part, title, late.beside()),
                        {fmt::format("{} in {} copies, {:.3f} GB", gpu_time(cases->total_ns), cases->count,
                                     static_cast<double>(cases->bytes) * 1e-9),
                         fmt::format("rows: expert_rule_cases where rule = '{}'", rule)},
                        recommendation,
                        left_ns});
    late.add_to(findings.back().evidence);
  };
  add("cuda_memcpy_async", "pageable-copies",
      "asynchronous copies of pageable memory, which block like synchronous ones",
      "pin the host memory (cudaHostAlloc, pin_memory=True) so that copies run beside kernels");
  add("cuda_memcpy_sync", "blocking-copies", "copies by synchronous calls",
      "use cudaMemcpyAsync on a separate stream with pinned memory, and fetch results less often (.item(), .cpu())");
  const double part = share(exposed_ns - told_ns, windows.ranks_ns);
  if (part < exposed_copies_worth_telling) return;
  std::vector<std::string> evidence = {
      fmt::format("{} in which nothing but copies and sets ran", gpu_time_of(exposed_ns, windows.ranks_ns))};
  if (!report.activity.transfers.empty()) {
    const NamedTotal& most =
        *std::max_element(report.activity.transfers.begin(), report.activity.transfers.end(),
                          [](const NamedTotal& a, const NamedTotal& b) { return a.total_ns < b.total_ns; });
    evidence.push_back(fmt::format("most of it {}: {:.3f} GB in {} operations and {}, {:.1f} GB/s", most.name,
                                   static_cast<double>(most.bytes) * 1e-9, most.count, gpu_time(most.total_ns),
                                   static_cast<double>(most.bytes) / static_cast<double>(most.total_ns)));
  }
  evidence.push_back("rows: copy_engines, memory_transfers, memory_time, memory_size");
  findings.push_back(
      {"exposed-copies", severity_of(part),
       fmt::format("{:.1f}% of GPU time is copies that no kernel hides{}", 100 * part,
                   told_ns > 0 ? ", besides those of other findings" : ""),
       std::move(evidence),
       "keep on the GPU what is copied again and again; copy ahead on a separate stream, from pinned memory, while kernels run; copy less (smaller types, larger batches per copy)",
       exposed_ns - told_ns});
}

void add_allocations(const JobReport& report, const Windows& windows, std::vector<Finding>& findings) {
  const ActivitySummary& activity = report.activity;
  const LateRanks late = late_by(report, {Cause::allocation});
  const auto all = [](const Table&, std::size_t) { return true; };
  const ToldOfLate told{
      late, surplus_of(late, time_of_ranks(report, schema::allocations, schema::allocations.in_window_ns, all))};
  const Nanoseconds left_ns = activity.allocation_in_window_ns - told.time_ns;
  const double part = share(left_ns, windows.processes_ns);
  if (activity.allocations.empty() || part < allocations_worth_telling) return;
  std::int64_t count = 0;
  for (const NamedTotal& call : activity.allocations) count += call.count;
  const NamedTotal& largest = activity.allocations.front();
  findings.push_back(
      {"allocation-churn",
       severity_of(part),
       fmt::format("the host spends {:.1f}% of the run making and freeing memory, streams and events{}", 100 * part,
                   told.beside()),
       {fmt::format("{:.3f} seconds between the first and the last GPU activity of the processes ({})",
                    seconds(left_ns), activity.processes.size()),
        fmt::format("{} calls in all, most time in {} ({} calls)", count, largest.name, largest.count),
        "rows: allocations"},
       "allocate before the loop, use a caching or stream-ordered allocator (cudaMallocAsync), and capture after warm-up"});
}

void add_overhead(const JobReport& report, const Windows& windows, std::vector<Finding>& findings) {
  const ActivitySummary& activity = report.activity;
  const LateRanks late = late_by(report, {Cause::profiler_overhead});
  const auto of_profiler = [](const Table& table, std::size_t i) {
    return column(table, schema::profiler_overhead.profiler)[i] != 0;
  };
  const ToldOfLate told{late, surplus_of(late, time_of_ranks(report, schema::profiler_overhead,
                                                             schema::profiler_overhead.in_window_ns, of_profiler))};
  const Nanoseconds left_ns = activity.profiler_in_window_ns - told.time_ns;
  const double part = share(left_ns, windows.processes_ns);
  if (part < overhead_worth_telling) return;
  const auto largest = std::find_if(activity.overheads.begin(), activity.overheads.end(),
                                    [](const NamedTotal& overhead) { return overhead.kind == "profiler"; });
  Finding finding{
      "profiler-overhead",
      part >= spent_time.high ? FindingSeverity::medium : FindingSeverity::low,
      fmt::format("the profiler itself took thread time worth {:.1f}% of the run: times are distorted{}", 100 * part,
                  told.beside()),
      {fmt::format("{:.3f} seconds between the first and the last GPU activity of the processes ({}), over all threads",
                   seconds(left_ns), activity.processes.size()),
       "rows: profiler_overhead where profiler = 1"},
      "trace less (only -t cuda,nvtx; no backtraces, no memory usage), and capture a window after warm-up"};
  if (largest != activity.overheads.end()) {
    finding.evidence.insert(finding.evidence.begin() + 1, fmt::format("most of all is '{}' ({:.3f} seconds)",
                                                                      largest->name, seconds(largest->total_ns)));
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void add_activity_findings(const JobReport& report, std::vector<Finding>& findings) {
  const Windows windows = windows_of(report);
  add_slow_gpus(report, findings);
  add_idle(report, windows, findings);
  add_storm(report.activity, findings);
  add_tail(report.activity, windows, findings);
  add_copies(report, windows, findings);
  add_allocations(report, windows, findings);
  add_overhead(report, windows, findings);
}

}  // namespace nsys_explain::analysis
