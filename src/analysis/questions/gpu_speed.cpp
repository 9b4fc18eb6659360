#include "analysis/questions/question.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/verdict/kernel_speed.hpp"
#include "model/schema/gpu.hpp"
#include "model/shared_gpus.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// Slow GPUs by host, but those of the late of that cause: their finding holds the same evidence and advice.
std::map<std::string, std::vector<GpuSpeed>> untold_slow_gpus(const JobReport& report) {
  std::map<std::int32_t, const std::string*> host_of_rank;
  for (const TraceRankIdentity& identity : report.trace_ranks) host_of_rank[identity.trace_rank] = &identity.host;
  const LateRanks told = late_by(report, {Cause::slow_kernel});
  std::map<std::string, std::vector<GpuSpeed>> slow;
  for (const GpuSpeed& speed : gpu_speeds(report.tables)) {
    if (!speed.slow || is_among(told, speed.trace_rank)) continue;
    slow[*host_of_rank.at(speed.trace_rank)].push_back(speed);
  }
  return slow;
}

/// All GPUs of one host of several, alike: the largest surplus is at most twice the smallest.
bool are_one_slow_node(const JobReport& report, const std::string& host, std::span<const GpuSpeed> slow) {
  std::size_t on_host = 0;
  for (const TraceRankIdentity& identity : report.trace_ranks) on_host += identity.host == host ? 1 : 0;
  if (slow.size() < 2 || slow.size() != on_host || on_host == report.trace_ranks.size()) return false;
  const auto [least, most] = std::minmax_element(
      slow.begin(), slow.end(), [](const GpuSpeed& a, const GpuSpeed& b) { return a.ratio < b.ratio; });
  return most->ratio - 1 <= 2 * (least->ratio - 1);
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

Finding describe_slow_node(const JobReport& report, const std::string& host, std::span<const GpuSpeed> slow) {
  Nanoseconds lost_ns = 0;
  std::vector<std::int32_t> ranks;
  std::vector<double> ratios;
  double p_value = 0;
  for (const GpuSpeed& speed : slow) {
    ranks.push_back(speed.trace_rank);
    ratios.push_back(speed.ratio);
    p_value = std::max(p_value, speed.p_value);
    lost_ns += lost_by(speed, report);
  }
  std::sort(ratios.begin(), ratios.end());
  const double middle = lower_median(ratios);
  return {
      .id = "slow-gpu",
      .severity = severity_of_slowness(middle),
      .title =
          fmt::format("the {} GPUs of node '{}' (ranks {}) take {:.1f}% longer than their peers for the same kernels",
                      slow.size(), host, rank_list(ranks), 100 * (middle - 1)),
      .evidence =
          {fmt::format(
               "all of its GPUs, by {:.1f} to {:.1f}%: medians over compute kernels of equal name, grid and block, weighted by time; at most {}",
               100 * (ratios.front() - 1), 100 * (ratios.back() - 1), p_value_equation(p_value)),
           fmt::format("rows: gpu_speed and kernel_peers where trace_rank is one of {}", rank_list(ranks))},
      .recommendation = std::string(advice_for_slow_node),
      .cost_ns = lost_ns,
      .trace_ranks = ranks,
      .place = "node " + host};
}

Finding describe_slow_gpu(const JobReport& report, const GpuSpeed& speed) {
  return {.id = "slow-gpu",
          .severity = severity_of_slowness(speed.ratio),
          .title = fmt::format("{} (rank {}) takes {:.1f}% longer than its peers for the same kernels",
                               place_of(report, speed.trace_rank), speed.trace_rank, 100 * (speed.ratio - 1)),
          .evidence = {fmt::format("median over {} compute kernels of equal name, grid and block, weighted by time; {}",
                                   speed.kernels, p_value_equation(speed.p_value)),
                       fmt::format("rows: gpu_speed and kernel_peers where trace_rank = {}", speed.trace_rank)},
          .recommendation =
              std::string(shares_its_gpu(report, speed.trace_rank) ? advice_for_shared_gpu : advice_for_slow_gpu),
          .cost_ns = lost_by(speed, report),
          .trace_ranks = {speed.trace_rank},
          .place = place_of(report, speed.trace_rank)};
}

void find_slow_gpus(const JobReport& report, std::vector<Finding>& findings) {
  const auto untold = untold_slow_gpus(report);
  std::map<std::int32_t, Finding> by_rank;  // its first
  for (const auto& [host, slow] : untold) {
    if (are_one_slow_node(report, host, slow)) {
      by_rank[slow.front().trace_rank] = describe_slow_node(report, host, slow);
    } else {
      for (const GpuSpeed& speed : slow) by_rank[speed.trace_rank] = describe_slow_gpu(report, speed);
    }
  }
  for (auto& [trace_rank, finding] : by_rank) findings.push_back(std::move(finding));
}

}  // namespace

Question gpu_speed() {
  const auto& table = schema::gpu_speed;
  return {
      .shown =
          {.table = table.table_name(),
           .findings = {"slow-gpu"},
           .view = "strips",
           .list = "gpu_speeds",
           .folding = {.columns = {{"trace_rank", table.trace_rank, FoldedColumn::By::key},
                                   {"kernels", table.kernels},
                                   {"ratio", table.ratio},
                                   {"p_value", table.p_value},
                                   {"slow", table.slow}},
                       .order = "ratio",
                       .most = every_row},
           .title = "Same kernels on different GPUs",
           .derivation =
               "Compute kernels of equal name, grid and block: the ratio to the peers' medians, slowest first. Slow: significant, at least 2%, and unlike the other ranks.",
           .cells = {{"rank", "trace_rank"},
                     {"ratio", "ratio"},
                     {"p", "p_value"},
                     {"kernels", "kernels"},
                     {.heading = "verdict", .column = "slow", .if_set = "slow"}},
           .rest = "tables `gpu_speed`, `kernel_peers` and `kernel_imbalance` of store.h5"},
      .find = find_slow_gpus};
}

}  // namespace nsys_explain::analysis::questions
