#include "analysis/statistics/lag_correlation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nsys_explain/model/intervals.hpp"
#include "random.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::Random;

constexpr Nanoseconds us = 1000;
constexpr Nanoseconds period = 100 * us;

/// Steps of about 10 ms with some collectives of 0.2 to 1.5 ms each.
std::vector<Interval> collectives_of_a_job(Random& random, int steps) {
  std::vector<Interval> intervals;
  Nanoseconds now = 0;
  for (int step = 0; step < steps; ++step) {
    now += random.integer(3000, 3200) * us;
    for (int c = 0; c < 4; ++c) {
      const Nanoseconds length = random.integer(200, 1500) * us;
      intervals.push_back({now, now + length});
      now += length + random.integer(300, 1500) * us;
    }
  }
  return merge_intervals(std::move(intervals));
}

/// Samples over the whole job; `percent(from, to)` of each period.
template <class Percent>
SampledSeries sampled(Nanoseconds end_ns, const Percent& percent) {
  SampledSeries series;
  for (Nanoseconds at = 0; at + period <= end_ns; at += period) {
    series.periods.push_back({at, at + period});
    series.values.push_back(std::clamp<std::int64_t>(std::llround(percent(at, at + period)), 0, 100));
  }
  return series;
}

TEST(LagCorrelation, CoveredTimeOfIntervals) {
  const std::vector<Interval> merged{{10, 20}, {30, 50}};
  const CoveredTime covered(merged);
  EXPECT_EQ(covered.within(0, 10), 0);
  EXPECT_EQ(covered.within(0, 100), 30);
  EXPECT_EQ(covered.within(15, 35), 10);
  EXPECT_EQ(covered.within(22, 28), 0);
  EXPECT_EQ(covered.within(40, 45), 5);
}

TEST(LagCorrelation, MeansAreWeightedByTimeAndCountIdleSamples) {
  // Collective in [50, 150): half of the first sample, half of the second.
  const std::vector<Interval> merged{{50, 150}};
  const CoveredTime covered(merged);
  const SampledSeries series{{{0, 100}, {100, 200}, {200, 600}}, {40, 20, 0}};
  const ActivityMeans means = activity_means(series, covered, covered, 0);
  EXPECT_EQ(means.during_ns, 100);
  EXPECT_EQ(means.outside_ns, 500);
  EXPECT_DOUBLE_EQ(*means.during, 30);             // (40 * 50 + 20 * 50) / 100
  EXPECT_DOUBLE_EQ(*means.outside, 3000 / 500.0);  // (40 * 50 + 20 * 50 + 0 * 400) / 500
  // Samples that lag by 100: the second shows [0, 100), the third [100, 500).
  const ActivityMeans lagged = activity_means(series, covered, covered, 100);
  EXPECT_DOUBLE_EQ(*lagged.during, 10);  // (20 * 50 + 0 * 50) / 100
  const CoveredTime nothing{std::span<const Interval>{}};
  EXPECT_FALSE(activity_means(series, nothing, covered, 0).during);
}

TEST(LagCorrelation, PlantedLagsAreFound) {
  for (int seed = 0; seed < 12; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    const std::vector<Interval> collectives = collectives_of_a_job(random, 40);
    const CoveredTime covered(collectives);
    const Nanoseconds planted = random.integer(-900, 900) * us;
    const SampledSeries series = sampled(collectives.back().end_ns, [&](Nanoseconds from, Nanoseconds to) {
      const double share = static_cast<double>(covered.within(from - planted, to - planted)) / period;
      return 40 * share * (1 + 0.1 * random.normal()) + 3 * random.uniform();
    });
    const auto found = correlate_with_lag(series, covered);
    ASSERT_TRUE(found) << seed;
    EXPECT_LE(found->p_value, significant_p) << seed;
    EXPECT_GT(found->correlation, 0.9) << seed;
    EXPECT_LE(std::abs(found->lag_ns - planted), period / 2) << seed;
  }
}

TEST(LagCorrelation, WeakTrafficUnderHeavyNoiseIsFound) {
  for (int seed = 0; seed < 10; ++seed) {
    Random random(1000 + static_cast<std::uint64_t>(seed));
    const std::vector<Interval> collectives = collectives_of_a_job(random, 40);
    const CoveredTime covered(collectives);
    const SampledSeries series = sampled(collectives.back().end_ns, [&](Nanoseconds from, Nanoseconds to) {
      return 10 * static_cast<double>(covered.within(from, to)) / period + 30 + 10 * random.normal();
    });
    const auto found = correlate_with_lag(series, covered);
    ASSERT_TRUE(found) << seed;
    EXPECT_LE(found->p_value, significant_p) << seed;
  }
}

/// How often unrelated samples are called related; 1% of the time would be right.
int false_positives(int runs, int burst_periods) {
  int found = 0;
  for (int seed = 0; seed < runs; ++seed) {
    Random random(5000 + static_cast<std::uint64_t>(seed));
    const std::vector<Interval> collectives = collectives_of_a_job(random, 12);
    const CoveredTime covered(collectives);
    int left = 0;
    double level = 0;
    const SampledSeries series = sampled(collectives.back().end_ns, [&](Nanoseconds, Nanoseconds) {
      if (left-- <= 0) {
        left = static_cast<int>(random.integer(1, 2 * burst_periods));
        level = random.uniform() < 0.4 ? 45 : 0;
      }
      return level + 3 * random.normal();
    });
    const auto correlation = correlate_with_lag(series, covered);
    found += correlation && correlation->p_value <= significant_p ? 1 : 0;
  }
  return found;
}

TEST(LagCorrelation, NoiseIsNotCalledTraffic) {
  // Of 300 at 1% each, more than 9 have a probability of 0.0011 (binomial).
  EXPECT_LE(false_positives(300, 1), 9);
  // Bursts as long as collectives, which resemble them most.
  EXPECT_LE(false_positives(300, 8), 9);
}

TEST(LagCorrelation, PValueOfNoiseIsSpreadOverItsRange) {
  // A test that always said 1 would never be wrong, and useless.
  int below_half = 0;
  for (int seed = 0; seed < 100; ++seed) {
    Random random(9000 + static_cast<std::uint64_t>(seed));
    const std::vector<Interval> collectives = collectives_of_a_job(random, 8);
    const CoveredTime covered(collectives);
    const SampledSeries series =
        sampled(collectives.back().end_ns, [&](Nanoseconds, Nanoseconds) { return 50 + 20 * random.normal(); });
    below_half += correlate_with_lag(series, covered)->p_value < 0.5 ? 1 : 0;
  }
  EXPECT_GT(below_half, 30);
  EXPECT_LT(below_half, 70);
}

TEST(LagCorrelation, StrictlyPeriodicTrafficIsFound) {
  std::vector<Interval> collectives;
  for (int step = 0; step < 60; ++step) collectives.push_back({step * 10'000 * us, step * 10'000 * us + 2'000 * us});
  const CoveredTime covered(collectives);
  const SampledSeries series = sampled(600'000 * us, [&](Nanoseconds from, Nanoseconds to) {
    return 40 * static_cast<double>(covered.within(from, to)) / period;
  });
  const auto found = correlate_with_lag(series, covered);
  ASSERT_TRUE(found);
  EXPECT_LE(found->p_value, significant_p);
  EXPECT_EQ(found->lag_ns, 0);
}

TEST(LagCorrelation, LongSeriesAreJudgedByStretches) {
  Random random(3);
  const std::vector<Interval> collectives = collectives_of_a_job(random, 700);
  const CoveredTime covered(collectives);
  const SampledSeries series = sampled(collectives.back().end_ns, [&](Nanoseconds from, Nanoseconds to) {
    return 40 * static_cast<double>(covered.within(from - 300 * us, to - 300 * us)) / period;
  });
  ASSERT_GT(series.values.size(), 40'000u);
  const auto found = correlate_with_lag(series, covered);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->lag_ns, 300 * us);
  EXPECT_LE(found->p_value, significant_p);
}

TEST(LagCorrelation, NothingIsClaimedWithoutSamplesOrChange) {
  const std::vector<Interval> collectives{{0, 1'000'000}};
  const CoveredTime covered(collectives);
  EXPECT_FALSE(correlate_with_lag({}, covered));
  const SampledSeries constant = sampled(100 * period, [](Nanoseconds, Nanoseconds) { return 100.0; });
  EXPECT_FALSE(correlate_with_lag(constant, covered));
  Random random(1);
  const SampledSeries noise = sampled(100 * period, [&](Nanoseconds, Nanoseconds) { return 100 * random.uniform(); });
  EXPECT_FALSE(correlate_with_lag(noise, CoveredTime(std::span<const Interval>{})));
}

}  // namespace
}  // namespace nsys_explain::analysis
