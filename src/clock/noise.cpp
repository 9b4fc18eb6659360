#include "clock/noise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "clock/fixed_point.hpp"

namespace nsys_explain::clock {
namespace {

constexpr double huber_limit = 1.345;        // 95 % efficiency on normal noise
constexpr double tukey_limit = 4.685;        // the same
constexpr double least_tukey_weight = 1e-6;  // keeps a session whose exits all disagree determined, if badly
constexpr double scatter_limit = 1.041;  // beyond this many scales all residuals count alike: half of them may be wrong
constexpr double normal_scatter = 0.5;   // mean of min((r / limit)^2, 1) of normal residuals
constexpr double median_to_deviation = 1.4826;
constexpr double prior_samples = 4;  // weight of what is known beforehand
constexpr double least_freedom = 0.1;
constexpr double least_slope = 0.2;  // of psi: below it the linearised sandwich means nothing

/// From a residual to what the exit was off, in units of its class: its common exit was fitted to it, and the more so
/// the less it scatters, so of its variance 1 - its share of the precision is left. (Of two members both have the same
/// ratio, whatever their noise: what they differ by says nothing about whose it is.)
double inflation(double factor, double total_precision) {
  constexpr double rounding = std::numeric_limits<double>::epsilon();
  const double share = 1 / (factor * factor * total_precision);
  return 1 / (factor * std::sqrt(std::max(1 - share, rounding)));
}

double tukey_weight(double ratio) {
  const double u = ratio / tukey_limit;
  const double inside = 1 - u * u;
  return inside > 0 ? std::max(inside * inside, least_tukey_weight) : least_tukey_weight;
}

}  // namespace

void Noise::see(const SampleGroup& group, std::span<const Sample> members, ResidualCounts& seen) const {
  const auto scale_class = static_cast<std::size_t>(group.scale_class);
  std::int64_t* const bins = &seen.counts[scale_class * magnitude_histogram::bins];
  const std::size_t bias = set_->classes[scale_class].bias;
  const double total = total_precision(members, bias);
  for (const Sample& sample : members) {
    ++bins[magnitude_histogram::bin_of(sample.residual * inflation(factor_of(sample, bias), total))];
  }
  seen.counts.back() += group.count - 1;
}

void Noise::estimate(const ResidualCounts& seen, double parameters, Part part, const Reduction& reduction) {
  estimate_scales(seen, parameters, reduction);
  estimate_factors(part, reduction);
}

/// Median residual of every class, freed of what the fit took out of it; what is known beforehand where there are few.
void Noise::estimate_scales(const ResidualCounts& seen, double parameters, const Reduction& reduction) {
  namespace histogram = magnitude_histogram;
  const std::size_t classes = set_->classes.size();
  const std::vector<std::int64_t> counts = reduction.sum(seen.counts);
  const auto equations = static_cast<double>(counts.back());
  freedom_ = equations > parameters ? (equations - parameters) / equations : 0.0;
  for (std::size_t k = 0; k < classes; ++k) {
    ScaleClass& scale_class = set_->classes[k];
    const std::span<const std::int64_t> bins(&counts[k * histogram::bins], histogram::bins);
    std::int64_t samples = 0;
    for (const std::int64_t count : bins) samples += count;
    // The clocks follow a few instances wherever these lie, so that their residuals tell nothing.
    constexpr std::int64_t enough_instances = 8;
    if (scale_class.instances < enough_instances || samples == 0) continue;
    const double deviation = median_to_deviation * histogram::quantile(bins, 0.5);
    scale_class.scale_ns = std::max(deviation / std::sqrt(std::max(freedom_, least_freedom)), smallest_scale_ns);
  }
  update_biases(*set_);
}

/// Of all exits of an instance together, in units of their class.
double Noise::total_precision(std::span<const Sample> members, std::size_t bias) const {
  double total = 0;
  for (const Sample& sample : members) {
    const double factor = factor_of(sample, bias);
    total += 1 / (factor * factor);
  }
  return total;
}

/// Exits of some members scatter more than those of others, by factors of ten and more; weighing all alike would let
/// the noisiest member's clock follow a few of its exits. One step towards an M-estimate of scale.
void Noise::estimate_factors(Part part, const Reduction& reduction) {
  if (biases_ == 0) return;
  const FixedPoint fixed(1, set_->total_samples + 1);
  std::vector<std::int64_t> sums(factor_.size() * 2, 0);
  for (const SampleGroup& group : set_->own.groups) {
    const ScaleClass& scale_class = set_->classes[group.scale_class];
    if (share_in(group, part) == 0) continue;
    const std::span<const Sample> members = set_->own.of(group);
    const double total = total_precision(members, scale_class.bias);
    for (const Sample& sample : members) {
      const std::size_t n = place_of(sample, scale_class.bias);
      const double ratio = sample.residual * inflation(factor_[n], total) / scale_class.scale_ns;
      sums[2 * n] += 1;
      sums[2 * n + 1] += fixed.quantise(std::min(ratio * ratio / (scatter_limit * scatter_limit), 1.0));
    }
  }
  sums = reduction.sum(sums);
  for (std::size_t n = 0; n < factor_.size(); ++n) {
    const auto count = static_cast<double>(sums[2 * n]);
    const double scatter = (fixed.restore(sums[2 * n + 1]) + prior_samples * normal_scatter) / (count + prior_samples);
    factor_[n] = std::max(1.0, factor_[n] * std::sqrt(scatter / normal_scatter));
  }
}

void Noise::weigh(const SampleGroup& group, std::span<Sample> members, Loss loss) const {
  const ScaleClass& scale_class = set_->classes[group.scale_class];
  const double total = total_precision(members, scale_class.bias);
  for (Sample& sample : members) {
    const double factor = factor_of(sample, scale_class.bias);
    const double scale = scale_class.scale_ns * factor;
    const double per_scale = 1 / scale;
    const double ratio = std::abs(sample.residual) * inflation(factor, total) / scale_class.scale_ns;
    double weight = 1;
    if (loss == Loss::huber && ratio > huber_limit) weight = huber_limit / ratio;
    if (loss == Loss::tukey) weight = tukey_weight(ratio);
    sample.scale = static_cast<float>(scale);
    sample.weight = weight * per_scale * per_scale;
  }
}

/// The slopes of psi at the members' residuals.
void Noise::slopes_of(const SampleGroup& group, std::vector<double>& slopes) const {
  const ScaleClass& scale_class = set_->classes[group.scale_class];
  const std::span<const Sample> members = set_->own.of(group);
  const double total = total_precision(members, scale_class.bias);
  slopes.clear();
  for (const Sample& sample : members) {
    const double inflate = inflation(factor_of(sample, scale_class.bias), total);
    const double u = sample.residual * inflate / (scale_class.scale_ns * tukey_limit);
    slopes.push_back(u * u < 1 ? (1 - u * u) * (1 - 5 * u * u) : 0.0);
  }
}

/// Variance of every class's weighted noise relative to what its weights claim, from the sandwich covariance
/// H^-1 M H^-1 of an M-estimator. Per instance, with the common exit eliminated: M is the square of the scores w e,
/// H has psi' where A, which the weights make, has w. What eliminating takes away (1 - w / sum w) matters for small n.
void Noise::measure_efficiency(const Reduction& reduction) {
  const std::size_t classes = set_->classes.size();
  const FixedPoint fixed(tukey_limit * tukey_limit, set_->total_samples + 1);
  std::vector<std::int64_t> sums(classes * 4, 0);
  std::vector<double> slopes;
  for (const SampleGroup& group : set_->own.groups) {
    if (share_in(group, Part::chosen) == 0) continue;
    const std::span<const Sample> members = set_->own.of(group);
    slopes_of(group, slopes);
    const double all_slopes = std::accumulate(slopes.begin(), slopes.end(), 0.0);
    double weights = 0;
    for (const Sample& sample : members) weights += relative_weight(sample);
    std::int64_t* const sum = &sums[static_cast<std::size_t>(group.scale_class) * 4];
    for (std::size_t i = 0; i < members.size(); ++i) {
      const double weight = relative_weight(members[i]);
      const double score = weight * members[i].residual / static_cast<double>(members[i].scale);
      sum[0] += 1;
      sum[1] += fixed.quantise(std::min(score * score, tukey_limit * tukey_limit));
      sum[2] += fixed.quantise(weight * (1 - weight / weights));
      if (all_slopes > least_slope) {
        sum[3] += fixed.quantise(std::max(slopes[i] * (1 - slopes[i] / all_slopes), -1.0));
      }
    }
  }
  sums = reduction.sum(sums);
  for (std::size_t k = 0; k < classes; ++k) {
    const auto n = static_cast<double>(sums[4 * k]);
    if (n == 0) continue;
    const double square = fixed.restore(sums[4 * k + 1]);
    const double weight = fixed.restore(sums[4 * k + 2]);
    const double slope = std::max(fixed.restore(sums[4 * k + 3]), least_slope * weight);
    const double variance = square / weight * (weight * weight) / (slope * slope);
    set_->classes[k].variance = (n * variance + prior_samples) / (n * freedom_ + prior_samples);
  }
}

}  // namespace nsys_explain::clock
