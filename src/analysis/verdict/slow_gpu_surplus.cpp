#include "analysis/verdict/slow_gpu_surplus.hpp"

#include <algorithm>

#include "analysis/statistics/usual_in_bins.hpp"

namespace nsys_explain::analysis {

std::vector<double> slow_gpu_surplus(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                                     std::span<const GpuSpeed> speeds) {
  std::vector<double> shares(kernel_ns.size(), 0);
  const std::vector<std::int64_t> usual = usual_in_bins(kernel_ns, kernel_ns, bins);
  for (std::size_t r = 0; r < speeds.size(); ++r) {
    if (!speeds[r].slow) continue;
    const auto relative = [&](std::size_t bin) {
      return static_cast<double>(kernel_ns[r * bins + bin]) / static_cast<double>(usual[bin]);
    };
    std::vector<double> known;
    for (std::size_t b = 0; b < bins; ++b)
      if (kernel_ns[r * bins + b] > 0) known.push_back(relative(b));
    if (known.empty()) continue;
    const double at_usual_speed = lower_median(known) / speeds[r].ratio;
    const double when_slow = 1 - 1 / speeds[r].ratio;
    for (std::size_t b = 0; b < bins; ++b)
      if (kernel_ns[r * bins + b] > 0)
        shares[r * bins + b] = std::clamp(1 - at_usual_speed / relative(b), 0.0, when_slow);
  }
  return shares;
}

}  // namespace nsys_explain::analysis
