#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "clock/noise.hpp"
#include "clock/normal_equations.hpp"
#include "clock/samples.hpp"

namespace nsys_explain::clock {

/// The clocks as the estimator knows them, in path order. Relative to their component's reference, whose offset and
/// drift are 0.
struct ClockState {
  std::vector<Nanoseconds> base_ns;  ///< integer part of the offsets: keeps doubles small
  std::vector<double> offset_ns;     ///< the rest
  std::vector<double> drift;         ///< dimensionless
  std::vector<double> bias_ns;       ///< [session * bias columns + column]
  std::vector<double> bend_ns;       ///< [session * bends + bend]
};

/// Standard uncertainties to the component's reference, and the errors they were drawn from.
struct Spread {
  std::vector<double> offset_ns;  ///< at the pivot
  std::vector<double> drift;
  std::vector<double> kink_ns;  ///< [session * bends + bend], of the second difference of the clock at that knot
  std::size_t draws = 0;
  std::vector<double> error_ns;  ///< at the knots: [(session * knots + knot) * draws + draw]
};

/// Iteratively reweighted least squares for all clocks at once. Member functions are collective.
class Estimator {
 public:
  /// What stands for the common exit of an instance: the mean by the weights so far, or the median.
  enum class Centre : std::uint8_t { weighted, median };

  Estimator(SampleSet& set, const Reduction& reduction);

  /// From nothing: offsets first, which also gives pivot and span of the run, then everything.
  void estimate();
  static constexpr int most_steps = 15;
  static constexpr double still_ns = 1;  ///< what is left after such a step is far below the least uncertainty
  /// From where it stands, with the groups that are active now: in so many steps at most, or until no clock moves by
  /// so much.
  void refine(int most, double enough_ns);
  /// Which of the active groups count from now on.
  void hear(Part part) { heard_ = part; }
  /// Keeps the drift of these sessions at 0.
  void freeze_drift(const std::vector<bool>& frozen);
  /// Cuts the run into this many intervals (even, 2 at least) between which drifts may change, and fits anew.
  void bend(std::size_t intervals);
  /// What a fit has found, to try another one and return.
  struct Fitted {
    ClockState state;
    Unknowns unknowns;
    Noise noise;
    std::vector<ScaleClass> classes;
    std::vector<std::pair<double, float>> weights;  ///< of the own samples, and their scales
  };
  Fitted fitted() const;
  void return_to(const Fitted& fitted);
  /// By solving for random right-hand sides that have the covariance of the noise.
  Spread spread();
  /// Residuals of all chosen groups, active or not, to the median of their instance.
  void update_residuals();

  std::size_t bends() const { return unknowns_.bends(); }
  /// Ends of the run and what cuts it into intervals, in spans from the pivot.
  std::vector<double> knots() const;

  ClockState state;
  Nanoseconds pivot_ns = 0;
  double span_ns = 1;

 private:
  struct Step {
    double moved_ns;  ///< the largest change of any clock within the run
    double energy;    ///< sum of squares, in standard uncertainties
  };
  void approach_from_near();
  void iterate_until_still(Loss loss, Centre centre, int most, double enough_ns);
  Step iterate(Loss loss, Centre centre, double trust = 1);
  template <class Visit>
  void for_each_heard(const Visit& visit);
  Part matrix_part() const;
  void compute_residuals(const SampleGroup& group, std::span<Sample> members, Centre centre);
  double bend_at(std::size_t session, double spans) const;
  Spread spread_of(Block drawn) const;
  void pull_to_expected(const std::vector<double>& known, Block& gradient) const;
  double parameters() const;
  void find_pivot();
  void advance(const Block& step);
  std::vector<double> precision() const;

  SampleSet& set_;
  const Reduction& reduction_;
  Unknowns unknowns_;
  std::vector<bool> frozen_;
  Noise noise_;
  Part heard_ = Part::chosen;
  std::vector<double> scratch_;
};

}  // namespace nsys_explain::clock
