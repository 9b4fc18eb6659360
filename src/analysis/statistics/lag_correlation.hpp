#pragma once

#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// Does a sampled quantity (link traffic) follow an activity (collectives), how strongly, and how much later?
namespace nsys_explain::analysis {

/// A sampled quantity. Every value is the mean over its period.
struct SampledSeries {
  std::vector<Interval> periods;  ///< ascending, disjoint; time between them was not sampled
  std::vector<std::int64_t> values;
};

/// Time covered by merged intervals up to a point in time.
class CoveredTime {
 public:
  /// `merged` as from merge_intervals().
  explicit CoveredTime(std::span<const Interval> merged);
  /// Covered part of [from_ns, to_ns). O(log intervals); quick where it lies near that which was asked for before with
  /// the same `near`.
  Nanoseconds within(Nanoseconds from_ns, Nanoseconds to_ns, std::size_t& near) const;
  Nanoseconds within(Nanoseconds from_ns, Nanoseconds to_ns) const {
    std::size_t near = 0;
    return within(from_ns, to_ns, near);
  }

 private:
  /// `behind`: how many intervals have begun by then.
  Nanoseconds before(Nanoseconds time_ns, std::size_t behind) const;
  std::vector<Interval> intervals_;
  std::vector<Nanoseconds> covered_before_;  ///< by interval
};

/// Time-weighted means, samples of value 0 included.
struct ActivityMeans {
  std::optional<double> during, outside;  ///< empty where no sampled time lies there
  Nanoseconds during_ns = 0, outside_ns = 0;
};

/// A sample that shows a period `lag_ns` earlier than its own is weighted by what of that period `active` (for during)
/// covers and what no part of `any_active` (for outside) does.
ActivityMeans activity_means(const SampledSeries& series, const CoveredTime& active, const CoveredTime& any_active,
                             Nanoseconds lag_ns);

struct LagCorrelation {
  double correlation = 0;  ///< Pearson's, of the value and the share of the lagged period that is active
  Nanoseconds lag_ns = 0;  ///< samples show the activity this much later
  double p_value = 1;      ///< of a correlation as high at any scanned lag, if values had nothing to do with activity
};

/// A correlation with a p-value up to this is taken to be real.
inline constexpr double significant_p = 0.01;

/// The scan covers whole periods up to this many in either direction; the best of them is refined by quarters.
inline constexpr int scanned_periods = 10;

/// Correlation at the lag where it is highest. The p-value comes from up to 499 random permutations of blocks of
/// samples that are longer than what samples remember (docs/method.md, Correlation of link counters), and takes into
/// account that many lags were tried: it is never below 0.002. Long series are judged by 16384 samples in evenly spaced
/// stretches. Empty where fewer than 50 samples are there, or values or activity never change.
std::optional<LagCorrelation> correlate_with_lag(const SampledSeries& series, const CoveredTime& active);

/// The same at one lag that is known already.
std::optional<LagCorrelation> correlate_at_lag(const SampledSeries& series, const CoveredTime& active,
                                               Nanoseconds lag_ns);

/// Median length of the periods; 0 for an empty series.
Nanoseconds typical_period_ns(const SampledSeries& series);

/// What each sample of counters covers: the time since the one before it, or one period (the median distance) where
/// more than three passed, for samples were lost. Nothing of the first, whose beginning nobody knows. `time_ns`
/// ascends.
std::vector<Interval> sample_periods(std::span<const Nanoseconds> time_ns);

}  // namespace nsys_explain::analysis
