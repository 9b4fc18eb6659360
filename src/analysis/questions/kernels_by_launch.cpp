#include "analysis/questions/question.hpp"

#include <algorithm>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {
namespace {

constexpr double tail_worth_telling = 0.02;  // of the window of all trace ranks

/// What the slow executions of one kernel cost. Only those of equal grid and block are compared: others do other work.
struct KernelTail {
  std::string name, launch;  ///< launch: "GRID, blocks of BLOCK", each as XxYxZ
  std::int64_t count = 0;
  Nanoseconds max_ns = 0;
  double excess_ns = 0;  ///< beyond the median of each trace rank, net and summed over them; 0: there is none
};

/// The tail of a communication kernel is waiting, which has findings of its own.
KernelTail largest_tail(const Table* by_launch) {
  constexpr std::int64_t fewest = 100;  // executions on a trace rank: few are no tail
  if (by_launch == nullptr) return {};
  const auto& names = column(*by_launch, schema::kernels_by_launch.name);
  const auto& medians = column(*by_launch, schema::kernels_by_launch.durations.median);
  const auto& totals = column(*by_launch, schema::kernels_by_launch.durations.total);
  const auto& communication = column(*by_launch, schema::kernels_by_launch.communication);
  const auto& counts = column(*by_launch, schema::kernels_by_launch.durations.count);
  const auto& maxima = column(*by_launch, schema::kernels_by_launch.durations.max);
  const auto shape = columns(*by_launch, schema::kernels_by_launch.shape.sizes);
  std::map<std::pair<std::string_view, std::array<std::int64_t, 6>>, KernelTail> sums;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (communication[i] != 0 || counts[i] < fewest) continue;
    std::array<std::int64_t, 6> launch{};
    for (std::size_t s = 0; s < shape.size(); ++s) launch[s] = (*shape[s])[i];
    KernelTail& sum = sums[{names[i], launch}];
    sum.count += counts[i];
    sum.max_ns = std::max(sum.max_ns, maxima[i]);
    sum.excess_ns += static_cast<double>(totals[i]) - static_cast<double>(counts[i]) * medians[i];
  }
  const auto largest = std::max_element(
      sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second.excess_ns < b.second.excess_ns; });
  if (largest == sums.end() || largest->second.excess_ns <= 0) return {};
  const auto& [name, s] = largest->first;
  KernelTail tail = largest->second;
  tail.name = name;
  tail.launch = fmt::format("{}x{}x{}, blocks of {}x{}x{}", s[0], s[1], s[2], s[3], s[4], s[5]);
  return tail;
}

void find_kernel_tail(const JobReport& report, std::vector<Finding>& findings) {
  const KernelTail tail = largest_tail(find_table(report.tables, schema::kernels_by_launch));
  const double part = share(tail.excess_ns, windows_of(report).ranks_ns);
  if (part < tail_worth_telling) return;
  findings.push_back(
      {.id = "kernel-tail",
       .severity = FindingSeverity::low,
       .title = fmt::format("the slow executions of kernel {} cost {:.1f}% of GPU time", short_kernel_name(tail.name),
                            100 * part),
       .evidence = {fmt::format(
                        "{} more than if all {} executions of grid {} had taken the median; the longest took {:.3f} ms",
                        gpu_time(static_cast<Nanoseconds>(tail.excess_ns)), tail.count, tail.launch,
                        static_cast<double>(tail.max_ns) * 1e-6),
                    "rows: kernels_by_launch of that name and grid, kernel_histogram of that name"},
       .recommendation =
           "see whether the slow executions run beside other work (communication, copies, other streams) or work on other data or sizes; if neither, look at clocks and memory traffic",
       .cost_ns = static_cast<Nanoseconds>(tail.excess_ns)});
}

}  // namespace

Question kernels_by_launch() {
  return {.shown = {.table = "kernels_by_launch", .findings = {"kernel-tail"}, .view = "kernels"},
          .find = find_kernel_tail};
}

}  // namespace nsys_explain::analysis::questions
