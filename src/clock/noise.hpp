#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock/fixed_point.hpp"
#include "clock/samples.hpp"

namespace nsys_explain::clock {

/// How exits far from the fit count: as all others, by their distance, or the less, the farther.
enum class Loss : std::uint8_t { squares, huber, tukey };

/// Counts of residuals per class in bins of a magnitude histogram, then the number of equations.
struct ResidualCounts {
  explicit ResidualCounts(std::size_t classes) : counts(classes * magnitude_histogram::bins + 1, 0) {}
  std::vector<std::int64_t> counts;
};

/// How exits scatter about the clocks: a scale for each class (in set.classes), a factor for each member of a biased
/// operation; and the weights of exits that follow from them.
class Noise {
 public:
  explicit Noise(SampleSet& set) : set_(&set), biases_(set.biases), factor_(set.component.size() * biases_, 1.0) {}

  /// Counts the residuals of an instance for the scale of its class.
  void see(const SampleGroup& group, std::span<const Sample> members, ResidualCounts& seen) const;
  /// Collective: from all residuals seen of a fit with so many parameters, and from those of the part as they are now.
  void estimate(const ResidualCounts& seen, double parameters, Part part, const Reduction& reduction);
  void weigh(const SampleGroup& group, std::span<Sample> members, Loss loss) const;
  /// Collective: the variance of every class's weighted noise, relative to what its weights claim.
  void measure_efficiency(const Reduction& reduction);

 private:
  void estimate_scales(const ResidualCounts& seen, double parameters, const Reduction& reduction);
  void estimate_factors(Part part, const Reduction& reduction);
  std::size_t place_of(const Sample& sample, std::size_t bias) const {
    return static_cast<std::size_t>(sample.session) * biases_ + bias;
  }
  double factor_of(const Sample& sample, std::size_t bias) const { return factor_[place_of(sample, bias)]; }
  double total_precision(std::span<const Sample> members, std::size_t bias) const;
  void slopes_of(const SampleGroup& group, std::vector<double>& slopes) const;

  SampleSet* set_;
  std::size_t biases_;
  /// [session * biases + bias]: how much more a member's exits scatter than those of their class; 1 or more.
  std::vector<double> factor_;
  double freedom_ = 1;  ///< share of the residuals' variance that the fit left in them
};

}  // namespace nsys_explain::clock
