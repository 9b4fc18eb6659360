#include "nsys_explain/analysis/kernel_time_wander.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nsys_explain/analysis/ratio_noise.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

/// Square of 1.4826 times the median absolute deviation: a variance that outliers do not bend.
double robust_variance(std::vector<double> values) {
  const double centre = lower_median(values);
  for (double& value : values) value = std::abs(value - centre);
  const double deviation = 1.4826 * lower_median(values);
  return deviation * deviation;
}

/// Of the part that neighbours have in common.
Nanoseconds wander_of(std::span<const std::int64_t> row) {
  std::vector<double> sums, differences;
  for (std::size_t b = 1; b < row.size(); ++b) {
    if (row[b - 1] <= 0 || row[b] <= 0) continue;
    sums.push_back(static_cast<double>(row[b]) + static_cast<double>(row[b - 1]));
    differences.push_back(static_cast<double>(row[b]) - static_cast<double>(row[b - 1]));
  }
  if (sums.empty()) return 0;
  const double covariance = (robust_variance(std::move(sums)) - robust_variance(std::move(differences))) / 4;
  return static_cast<Nanoseconds>(std::sqrt(std::max(0.0, covariance)));
}

/// The typical wander of a rank as a share of its kernel time in a bin.
double typical_share(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                     std::span<const Nanoseconds> wander_ns) {
  std::vector<double> shares;
  for (std::size_t r = 0; r < wander_ns.size(); ++r) {
    std::vector<std::int64_t> known;
    for (const std::int64_t of_bin : kernel_ns.subspan(r * bins, bins))
      if (of_bin > 0) known.push_back(of_bin);
    if (!known.empty()) shares.push_back(static_cast<double>(wander_ns[r]) / static_cast<double>(lower_median(known)));
  }
  return shares.empty() ? 0 : lower_median(shares);
}

}  // namespace

std::vector<Nanoseconds> kernel_time_wander(std::span<const std::int64_t> kernel_ns, std::size_t bins) {
  std::vector<Nanoseconds> wander;
  for (std::size_t first = 0; first < kernel_ns.size(); first += bins)
    wander.push_back(wander_of(kernel_ns.subspan(first, bins)));
  return wander;
}

void doubt_wandering_speeds(std::span<const std::int64_t> kernel_ns, std::size_t bins,
                            std::span<const Nanoseconds> wander_ns, std::span<GpuSpeed> speeds) {
  const double share = typical_share(kernel_ns, bins, wander_ns);
  if (share <= 0) return;
  const double stretches = std::sqrt(static_cast<double>(bins));
  const double error = std::numbers::sqrt2 * share / std::sqrt(stretches);  // of the difference of two means
  for (GpuSpeed& speed : speeds) {
    if (!speed.slow) continue;
    const double tail = student_tail(std::log(speed.ratio) / error, wander_freedom(bins));
    speed.p_value = std::max(speed.p_value, std::min(1.0, tail * static_cast<double>(speeds.size())));
  }
}

int wander_freedom(std::size_t bins) {
  return std::max(2, static_cast<int>(std::sqrt(static_cast<double>(bins))) - 1);
}

}  // namespace nsys_explain::analysis
