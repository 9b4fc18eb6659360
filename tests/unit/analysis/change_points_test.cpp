#include "analysis/statistics/significance.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace nsys_explain::analysis {
namespace {

/// Standard normal, by Box and Muller.
double normal(Random& random) {
  const double u = static_cast<double>(random.below(1U << 30U) + 1) / static_cast<double>(1U << 30U);
  const double v = static_cast<double>(random.below(1U << 30U)) / static_cast<double>(1U << 30U);
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

/// Steps of a millisecond that differ by 1%; with `lasting` each is like the one before, but for the rest.
std::vector<std::int64_t> series(std::size_t steps, std::uint64_t seed, double lasting = 0) {
  Random random(seed);
  std::vector<std::int64_t> values;
  double off = normal(random);
  for (std::size_t i = 0; i < steps; ++i) {
    values.push_back(1'000'000 + static_cast<std::int64_t>(10'000 * off));
    off = lasting * off + std::sqrt(1 - lasting * lasting) * normal(random);
  }
  return values;
}

TEST(ChangePoints, AreFoundWhereTheyAre) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<std::int64_t> values = series(40, seed);
    for (std::size_t i = 15; i < values.size(); ++i) values[i] = values[i] * 14 / 10;
    const std::vector<ChangePoint> changes = change_points(values);
    ASSERT_EQ(changes.size(), 1U) << seed;
    EXPECT_EQ(changes[0].first, 15U);
    EXPECT_NEAR(static_cast<double>(changes[0].before), 1e6, 2e4);
    EXPECT_NEAR(static_cast<double>(changes[0].after), 1.4e6, 2e4);
    EXPECT_LT(changes[0].p_value, 1e-3);
  }
}

TEST(ChangePoints, SeveralAreToldOneByOne) {
  std::vector<std::int64_t> values = series(120, 7);
  for (std::size_t i = 40; i < 80; ++i) values[i] = values[i] * 2;
  const std::vector<ChangePoint> changes = change_points(values);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].first, 40U);
  EXPECT_EQ(changes[1].first, 80U);
  EXPECT_NEAR(static_cast<double>(changes[0].after), 2e6, 2e4);
  EXPECT_NEAR(static_cast<double>(changes[1].after), 1e6, 2e4);
}

TEST(ChangePoints, ChanceMakesNone) {
  std::size_t alarms = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    alarms += change_points(series(30 + seed % 100, 1000 + seed), {.least_change = 0}).empty() ? 0 : 1;
  EXPECT_LE(alarms, 4U);
}

TEST(ChangePoints, NorDoGpusWhoseSpeedWanders) {
  for (const double lasting : {0.6, 0.88, 0.95})
    for (std::uint64_t seed = 0; seed < 100; ++seed)
      EXPECT_TRUE(change_points(series(30 + seed, 1000 + seed, lasting)).empty()) << lasting << ' ' << seed;
}

TEST(ChangePoints, NoneOfAFewLongSteps) {
  std::vector<std::int64_t> values = series(40, 3);
  for (const std::size_t i : {0, 1, 20}) values[i] *= 50;
  EXPECT_TRUE(change_points(values).empty());
  EXPECT_TRUE(change_points({}).empty());
  EXPECT_TRUE(change_points(std::vector<std::int64_t>(50, 7)).empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
