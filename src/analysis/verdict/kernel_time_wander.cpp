#include "analysis/verdict/kernel_speed.hpp"

#include <cmath>
#include <numbers>

#include "analysis/statistics/significance.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

/// Values are cut into stretches as long as there are stretches, but into four where there are as many.
std::size_t stretch_length(std::size_t values) {
  const auto square = static_cast<std::size_t>(std::sqrt(static_cast<double>(values)));
  return std::max<std::size_t>(1, std::min(square, values / 4));
}

double slowness_of(std::int64_t kernel_ns, std::int64_t usual_ns) {
  return kernel_ns > 0 && usual_ns > 0 ? static_cast<double>(kernel_ns) / static_cast<double>(usual_ns) : 0;
}

/// By bin: how slow GPUs are together, the median over ranks; 0 where none is known. What all have in common makes none
/// of them late.
std::vector<double> common_slowness(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                    std::size_t bins) {
  std::vector<double> common(bins, 0), of_ranks;
  for (std::size_t b = 0; b < bins; ++b) {
    of_ranks.clear();
    for (std::size_t i = b; i < kernel_ns.size(); i += bins)
      if (const double slowness = slowness_of(kernel_ns[i], usual_ns[i]); slowness > 0) of_ranks.push_back(slowness);
    if (of_ranks.empty()) continue;
    std::sort(of_ranks.begin(), of_ranks.end());
    common[b] = (of_ranks[(of_ranks.size() - 1) / 2] + of_ranks[of_ranks.size() / 2]) / 2;
  }
  return common;
}

/// Of the means of whole stretches.
SpeedWander wander_of(std::span<const double> slowness) {
  const std::size_t length = stretch_length(slowness.size());
  const std::size_t stretches = length > 0 ? slowness.size() / length : 0;
  if (stretches < 2) return {};
  std::vector<double> means(stretches, 0);
  double mean = 0;
  for (std::size_t i = 0; i < stretches * length; ++i) means[i / length] += slowness[i] / static_cast<double>(length);
  for (const double one : means) mean += one / static_cast<double>(stretches);
  double squares = 0;
  for (const double one : means) squares += (one - mean) * (one - mean);
  return {std::sqrt(squares / static_cast<double>(stretches - 1)) / mean, static_cast<int>(stretches) - 1};
}

/// Of a chi-square variable, over its degrees of freedom (Wilson and Hilferty 1931).
double median_of_chi_square(int freedom) {
  return std::pow(1 - 2 / (9.0 * freedom), 3);
}

}  // namespace

std::vector<SpeedWander> speed_wander(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                      std::size_t bins) {
  std::vector<SpeedWander> wander;
  if (bins == 0) return wander;
  const std::size_t ranks = kernel_ns.size() / bins;
  const bool has_middle = ranks >= 3;  // of two nobody knows which of them wanders
  const std::vector<double> common = common_slowness(kernel_ns, usual_ns, bins);
  // To be held against a middle of n, which each of them is a part of, takes 1 / n off the variance.
  const double part_of_middle = has_middle ? std::sqrt(1 - 1 / static_cast<double>(ranks)) : 1;
  std::vector<double> slowness;
  for (std::size_t r = 0; r < ranks; ++r) {
    slowness.clear();
    for (std::size_t b = 0; b < bins; ++b) {
      const double own = slowness_of(kernel_ns[r * bins + b], usual_ns[r * bins + b]);
      if (own > 0) slowness.push_back(has_middle ? own / common[b] : own);
    }
    wander.push_back(wander_of(slowness));
    wander.back().deviation /= part_of_middle;
  }
  return wander;
}

std::vector<SpeedWander> spread_of_executions(std::span<const GpuSpeed> speeds) {
  std::vector<SpeedWander> spread;
  for (const GpuSpeed& speed : speeds) {
    const std::size_t length = stretch_length(static_cast<std::size_t>(speed.executions));
    spread.push_back({speed.spread, length > 0 ? static_cast<int>(length) - 1 : 0});
  }
  return spread;
}

TypicalWander typical_wander(std::span<const SpeedWander> of_gpus) {
  std::vector<double> variances;
  std::vector<int> freedom;
  for (const SpeedWander& one : of_gpus) {
    if (one.freedom == 0) continue;
    variances.push_back(one.deviation * one.deviation);
    freedom.push_back(one.freedom);
  }
  if (variances.empty()) return {};
  const int of_one = lower_median(freedom);
  const auto half = static_cast<int>((variances.size() + 1) / 2);
  return {{std::sqrt(lower_median(variances) / median_of_chi_square(of_one)), of_one}, of_one * half};
}

double usual_drift(const SpeedWander& wander, double probability) {
  return wander.deviation > 0 ? std::numbers::sqrt2 * wander.deviation * student_quantile(probability, wander.freedom)
                              : 0;
}

void doubt_wandering_speeds(const TypicalWander& wander, std::span<GpuSpeed> speeds) {
  if (wander.deviation <= 0) return;
  for (GpuSpeed& speed : speeds) {
    if (!speed.slow) continue;
    const double tail =
        student_tail(std::log(speed.ratio) / (std::numbers::sqrt2 * wander.deviation), wander.freedom_of_half);
    speed.p_value = std::max(speed.p_value, std::min(1.0, tail * static_cast<double>(speeds.size())));
    speed.slow = speed.p_value < significantly_slow;
  }
}

std::vector<double> kernel_slowness(std::span<const std::int64_t> kernel_ns, std::span<const std::int64_t> usual_ns,
                                    std::span<const GpuSpeed> speeds, std::size_t bins) {
  std::vector<double> slowness(kernel_ns.size(), 0);
  for (std::size_t i = 0; i < kernel_ns.size(); ++i)
    if (kernel_ns[i] > 0 && usual_ns[i] > 0)
      slowness[i] = speeds[i / bins].ratio * static_cast<double>(kernel_ns[i]) / static_cast<double>(usual_ns[i]);
  return slowness;
}

std::vector<Nanoseconds> typical_kernel_times(std::span<const std::int64_t> kernel_ns, std::size_t bins) {
  std::vector<Nanoseconds> typical;
  for (std::size_t first = 0; first < kernel_ns.size(); first += bins) {
    std::vector<Nanoseconds> known;
    for (const Nanoseconds of_bin : kernel_ns.subspan(first, bins))
      if (of_bin > 0) known.push_back(of_bin);
    typical.push_back(known.empty() ? 0 : lower_median(known));
  }
  return typical;
}

}  // namespace nsys_explain::analysis
