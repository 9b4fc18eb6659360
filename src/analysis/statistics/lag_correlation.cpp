#include "analysis/statistics/lag_correlation.hpp"

#include <cmath>
#include <numeric>

#include "analysis/statistics/significance.hpp"
#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {

namespace {

constexpr std::size_t fewest_correlated_samples = 50;
constexpr std::size_t most_samples = 16384;
constexpr std::size_t stretches = 16;
constexpr int permutations = 499;
/// A permutation test may stop once this many permutations did as well (Besag and Clifford 1991): p is then known to be
/// large.
constexpr int enough_exceedances = 10;
/// Shares of a period are kept as integers so that sums do not depend on their order.
constexpr std::int64_t share_scale = 1024;
constexpr double forgotten = 0.2;           ///< autocorrelation below which samples count as unrelated
constexpr std::size_t block_memories = 10;  ///< length of a block, as a multiple of that distance
constexpr std::size_t fewest_blocks = 20;

using Values = std::vector<std::int64_t>;

/// Indices of the samples that are compared: all, or evenly spaced stretches.
std::vector<std::size_t> chosen_samples(std::size_t count) {
  std::vector<std::size_t> chosen;
  if (count <= most_samples) {
    chosen.resize(count);
    std::iota(chosen.begin(), chosen.end(), std::size_t{0});
    return chosen;
  }
  constexpr std::size_t length = most_samples / stretches;
  for (std::size_t s = 0; s < stretches; ++s) {
    const std::size_t first = s * (count - length) / (stretches - 1);
    for (std::size_t i = 0; i < length; ++i) chosen.push_back(first + i);
  }
  return chosen;
}

/// Share of every chosen period, `lag_ns` earlier, that is active.
Values active_shares(const SampledSeries& series, const std::vector<std::size_t>& chosen, const CoveredTime& active,
                     Nanoseconds lag_ns) {
  Values shares;
  shares.reserve(chosen.size());
  for (const std::size_t i : chosen) {
    const Interval& period = series.periods[i];
    shares.push_back(share_scale * active.within(period.start_ns - lag_ns, period.end_ns - lag_ns) /
                     (period.end_ns - period.start_ns));
  }
  return shares;
}

/// Sums that Pearson's correlation needs and no permutation changes.
struct Moments {
  explicit Moments(const Values& values) {
    for (const std::int64_t value : values) sum += static_cast<double>(value);
    const double mean = sum / static_cast<double>(values.size());
    double squares = 0;
    for (const std::int64_t value : values)
      squares += (static_cast<double>(value) - mean) * (static_cast<double>(value) - mean);
    spread = std::sqrt(squares);
  }
  double sum = 0;
  double spread = 0;  ///< square root of the sum of squared deviations
};

double correlation(const Values& x, const Moments& of_x, const Values& y, const Moments& of_y) {
  if (of_x.spread <= 0 || of_y.spread <= 0) return 0;
  std::int64_t product = 0;
  for (std::size_t i = 0; i < x.size(); ++i) product += x[i] * y[i];
  return (static_cast<double>(product) - of_x.sum * of_y.sum / static_cast<double>(x.size())) /
         (of_x.spread * of_y.spread);
}

/// Distance from which on samples are unrelated to each other.
std::size_t memory_of(const Values& values, const Moments& moments) {
  const double mean = moments.sum / static_cast<double>(values.size());
  for (std::size_t distance = 1; distance < values.size() / fewest_blocks; ++distance) {
    double product = 0;
    for (std::size_t i = distance; i < values.size(); ++i)
      product += (static_cast<double>(values[i]) - mean) * (static_cast<double>(values[i - distance]) - mean);
    if (product < forgotten * moments.spread * moments.spread) return distance;
  }
  return values.size() / fewest_blocks;
}

/// `values` with their blocks in random order, the beginning of the first block drawn, too: in a job of equal steps
/// blocks as long as a step would otherwise all fit each other's places.
void permute_blocks(const Values& values, std::size_t block, Random& random, std::vector<std::size_t>& order,
                    Values& permuted) {
  const std::size_t count = values.size();
  const std::size_t offset = random.below(count);
  order.resize((count + block - 1) / block);
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  permuted.clear();
  for (const std::size_t b : order) {
    for (std::size_t i = b * block; i < std::min(count, (b + 1) * block); ++i)
      permuted.push_back(values[i + offset < count ? i + offset : i + offset - count]);
  }
}

struct Scanned {
  Nanoseconds lag_ns = 0;
  Values shares;
  Moments moments;
};

double permutation_p_value(const Values& x, const Moments& of_x, const std::vector<Scanned>& scan, double observed) {
  // Activity keeps its order, so only what samples remember of each other has to survive.
  const std::size_t block = std::clamp<std::size_t>(block_memories * memory_of(x, of_x), 1, x.size() / fewest_blocks);
  Random random(0x6C61672D73636E);
  std::vector<std::size_t> order;
  Values permuted;
  int exceedances = 0;
  for (int done = 1; done <= permutations; ++done) {
    permute_blocks(x, block, random, order, permuted);
    double highest = -1;
    for (const Scanned& scanned : scan)
      highest = std::max(highest, correlation(permuted, of_x, scanned.shares, scanned.moments));
    if (highest >= observed && ++exceedances == enough_exceedances)
      return static_cast<double>(exceedances) / static_cast<double>(done);
  }
  return static_cast<double>(exceedances + 1) / static_cast<double>(permutations + 1);
}

std::optional<LagCorrelation> correlate(const SampledSeries& series, const CoveredTime& active,
                                        std::span<const Nanoseconds> lags, Nanoseconds refinement_ns) {
  if (series.values.size() < fewest_correlated_samples) return std::nullopt;
  const std::vector<std::size_t> chosen = chosen_samples(series.values.size());
  Values x;
  x.reserve(chosen.size());
  for (const std::size_t i : chosen) x.push_back(series.values[i]);
  const Moments of_x(x);
  std::vector<Scanned> scan;
  LagCorrelation best{-2, 0, 1};
  const auto try_lag = [&](Nanoseconds lag_ns) {
    Values shares = active_shares(series, chosen, active, lag_ns);
    const Moments moments(shares);
    const double r = correlation(x, of_x, shares, moments);
    if (r > best.correlation) best = {r, lag_ns, 1};
    return Scanned{lag_ns, std::move(shares), moments};
  };
  for (const Nanoseconds lag_ns : lags) scan.push_back(try_lag(lag_ns));
  const bool changes = std::any_of(scan.begin(), scan.end(), [](const Scanned& s) { return s.moments.spread > 0; });
  if (of_x.spread <= 0 || !changes) return std::nullopt;
  const double p_value = permutation_p_value(x, of_x, scan, best.correlation);
  if (refinement_ns > 0) {
    const Nanoseconds coarse_ns = best.lag_ns;
    for (const int quarter : {-3, -2, -1, 1, 2, 3}) try_lag(coarse_ns + quarter * refinement_ns);
  }
  best.p_value = p_value;
  return best;
}

}  // namespace

CoveredTime::CoveredTime(std::span<const Interval> merged) : intervals_(merged.begin(), merged.end()) {
  Nanoseconds covered = 0;
  covered_before_.reserve(intervals_.size());
  for (const Interval& interval : intervals_) {
    covered_before_.push_back(covered);
    covered += interval.end_ns - interval.start_ns;
  }
}

Nanoseconds CoveredTime::before(Nanoseconds time_ns, std::size_t behind) const {
  if (behind == 0) return 0;
  const Interval& last = intervals_[behind - 1];
  return covered_before_[behind - 1] + std::min(time_ns, last.end_ns) - last.start_ns;
}

Nanoseconds CoveredTime::within(Nanoseconds from_ns, Nanoseconds to_ns, std::size_t& near) const {
  const auto begins_after = [](Nanoseconds time_ns, const Interval& interval) { return time_ns < interval.start_ns; };
  near = upper_bound_near(intervals_, near, from_ns, begins_after);
  return before(to_ns, upper_bound_near(intervals_, near, to_ns, begins_after)) - before(from_ns, near);
}

ActivityMeans activity_means(const SampledSeries& series, const CoveredTime& active, const CoveredTime& any_active,
                             Nanoseconds lag_ns) {
  ActivityMeans means;
  double during = 0, outside = 0;  // value x time exceeds 63 bits for counters of large units
  for (std::size_t i = 0; i < series.values.size(); ++i) {
    const Nanoseconds from = series.periods[i].start_ns - lag_ns;
    const Nanoseconds to = series.periods[i].end_ns - lag_ns;
    const Nanoseconds inside_ns = active.within(from, to);
    const Nanoseconds beyond_ns = to - from - any_active.within(from, to);
    means.during_ns += inside_ns;
    means.outside_ns += beyond_ns;
    during += static_cast<double>(series.values[i]) * static_cast<double>(inside_ns);
    outside += static_cast<double>(series.values[i]) * static_cast<double>(beyond_ns);
  }
  if (means.during_ns > 0) means.during = during / static_cast<double>(means.during_ns);
  if (means.outside_ns > 0) means.outside = outside / static_cast<double>(means.outside_ns);
  return means;
}

Nanoseconds typical_period_ns(const SampledSeries& series) {
  if (series.periods.empty()) return 0;
  std::vector<Nanoseconds> lengths;
  lengths.reserve(series.periods.size());
  for (const Interval& period : series.periods) lengths.push_back(period.end_ns - period.start_ns);
  return upper_median(lengths);
}

std::optional<LagCorrelation> correlate_with_lag(const SampledSeries& series, const CoveredTime& active) {
  const Nanoseconds period_ns = typical_period_ns(series);
  std::vector<Nanoseconds> lags;
  for (int periods = -scanned_periods; periods <= scanned_periods; ++periods) lags.push_back(periods * period_ns);
  return correlate(series, active, lags, period_ns / 4);
}

std::optional<LagCorrelation> correlate_at_lag(const SampledSeries& series, const CoveredTime& active,
                                               Nanoseconds lag_ns) {
  return correlate(series, active, std::span(&lag_ns, 1), 0);
}

std::vector<Interval> sample_periods(std::span<const Nanoseconds> time_ns) {
  constexpr Nanoseconds gap_periods = 3;
  if (time_ns.empty()) return {};
  std::vector<Interval> periods{{time_ns[0], time_ns[0]}};
  if (time_ns.size() == 1) return periods;
  std::vector<Nanoseconds> lengths;
  for (std::size_t i = 1; i < time_ns.size(); ++i) lengths.push_back(time_ns[i] - time_ns[i - 1]);
  const Nanoseconds usual_ns = upper_median(lengths);
  for (std::size_t i = 1; i < time_ns.size(); ++i) {
    const bool lost = time_ns[i] - time_ns[i - 1] > gap_periods * usual_ns;
    periods.push_back({lost ? time_ns[i] - usual_ns : time_ns[i - 1], time_ns[i]});
  }
  return periods;
}

}  // namespace nsys_explain::analysis
