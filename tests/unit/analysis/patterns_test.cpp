#include "analysis/waits/patterns.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace nsys_explain::analysis {
namespace {

/// 1000 in every step for which `delayed`, with noise of a tenth, and 20 +- 20 in the others.
template <class Delayed>
std::vector<std::int64_t> series(std::size_t steps, unsigned seed, const Delayed& delayed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<std::int64_t> noise(0, 200), calm(0, 40);
  std::vector<std::int64_t> costs;
  for (std::size_t s = 0; s < steps; ++s) costs.push_back(delayed(s) ? 900 + noise(random) : calm(random));
  return costs;
}

TEST(Pattern, Persistent) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const auto verdict = judge_pattern(series(30, seed, [](std::size_t) { return true; }), 0);
    EXPECT_EQ(verdict.pattern, Pattern::persistent);
    EXPECT_EQ(verdict.last, 29U);
  }
}

TEST(Pattern, PersistentBesideOnePauseAHundredTimesAsLong) {
  auto costs = series(30, 1, [](std::size_t) { return true; });
  costs[11] = 100'000;
  EXPECT_EQ(judge_pattern(costs, 0).pattern, Pattern::persistent);
}

TEST(Pattern, PersistentThoughAnotherHidesItInEveryFourthStep) {
  for (std::size_t phase = 0; phase < 4; ++phase) {
    const auto verdict = judge_pattern(series(40, 5, [&](std::size_t s) { return s % 4 != phase; }), 0);
    EXPECT_EQ(verdict.pattern, Pattern::persistent) << phase;
  }
}

TEST(Pattern, Transient) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::size_t first = seed % 20, last = first + 4 + seed % 5;
    const auto verdict = judge_pattern(series(30, seed, [&](std::size_t s) { return s >= first && s <= last; }), 0);
    EXPECT_EQ(verdict.pattern, Pattern::transient) << seed;
    EXPECT_EQ(verdict.first, first);
    EXPECT_EQ(verdict.last, last);
  }
}

TEST(Pattern, PeriodicForAPartOfTheRun) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::size_t period = 2 + seed % 3, first = seed % 7, last = first + 5 * period;
    const auto verdict = judge_pattern(
        series(60, seed, [&](std::size_t s) { return s >= first && s <= last && (s - first) % period == 0; }), 0);
    EXPECT_EQ(verdict.pattern, Pattern::periodic) << seed;
    EXPECT_EQ(verdict.period, period);
    EXPECT_EQ(verdict.first, first);
    EXPECT_EQ(verdict.last, last);
  }
}

TEST(Pattern, Periodic) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const std::size_t period = 2 + seed % 7, phase = seed % period;
    const auto verdict = judge_pattern(series(30, seed, [&](std::size_t s) { return s % period == phase; }), 0);
    EXPECT_EQ(verdict.pattern, Pattern::periodic) << seed;
    EXPECT_EQ(verdict.period, period);
    EXPECT_EQ(verdict.first, phase);
  }
}

TEST(Pattern, NoiseOfTheOthersIsNoDelay) {
  const auto verdict = judge_pattern(series(20, 3, [](std::size_t s) { return s < 8; }), 500);
  EXPECT_EQ(verdict.pattern, Pattern::transient);
  EXPECT_EQ(verdict.last, 7U);
}

TEST(Pattern, WhatIsLostAmongNoiseNowAndThenIsNoTransient) {
  // Noise reaches 100; of 20 steps the first 8 are later than that, in the median by 120.
  const auto pattern_with = [](std::int64_t of_most, std::size_t most) {
    std::vector<std::int64_t> delays{130, 120, 120, 110, 120, 130, 110, 120};
    delays.resize(8 + most, of_most);
    delays.resize(20, 0);
    return judge_pattern(delays, 100).pattern;
  };
  EXPECT_EQ(pattern_with(60, 12), Pattern::persistent) << "the others are half as late";
  EXPECT_EQ(pattern_with(59, 12), Pattern::transient);
  EXPECT_EQ(pattern_with(60, 7), Pattern::persistent) << "7 of the 12 others are";
  EXPECT_EQ(pattern_with(60, 6), Pattern::transient) << "half of them are not late at all";
  EXPECT_EQ(pattern_with(0, 12), Pattern::transient);
}

TEST(Wanders, NowOneNowAnother) {
  const std::size_t ranks = 4, bins = 12;
  std::vector<std::int64_t> costs(ranks * bins, 10), fixed(ranks * bins, 10);
  for (std::size_t b = 0; b < bins; ++b) {
    costs[b * 5 % ranks * bins + b] = 1000;
    fixed[2 * bins + b] = 1000;
  }
  EXPECT_TRUE(wanders(costs, ranks, bins));
  EXPECT_FALSE(wanders(fixed, ranks, bins)) << "always the same one";
  EXPECT_FALSE(wanders(std::vector<std::int64_t>(ranks * bins, 10), ranks, bins)) << "all alike";
  EXPECT_FALSE(wanders(std::vector<std::int64_t>(ranks * bins, 0), ranks, bins));
}

TEST(Pattern, OfNothing) {
  EXPECT_EQ(judge_pattern({}, 0).pattern, Pattern::persistent);
}

}  // namespace
}  // namespace nsys_explain::analysis
