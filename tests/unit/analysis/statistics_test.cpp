#include "analysis/statistics/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "random.hpp"

namespace nsys_explain::analysis {
namespace {

TEST(Statistics, WorkedOutByHand) {
  std::vector<std::int64_t> values{40, 10, 30, 20};
  const Statistics s = summarise(values);
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.total, 100);
  EXPECT_EQ(s.min, 10);
  EXPECT_EQ(s.max, 40);
  EXPECT_DOUBLE_EQ(s.mean, 25);
  EXPECT_DOUBLE_EQ(s.median, 25);           // between 20 and 30
  EXPECT_DOUBLE_EQ(s.p90, 30 + 0.7 * 10);   // position 2.7
  EXPECT_DOUBLE_EQ(s.p95, 30 + 0.85 * 10);  // position 2.85
  EXPECT_DOUBLE_EQ(s.deviation, std::sqrt((225. + 25 + 25 + 225) / 3));
}

TEST(Statistics, OneValueAndNone) {
  std::vector<std::int64_t> one{7};
  const Statistics s = summarise(one);
  EXPECT_DOUBLE_EQ(s.median, 7);
  EXPECT_DOUBLE_EQ(s.p99, 7);
  EXPECT_DOUBLE_EQ(s.deviation, 0);
  EXPECT_EQ(summarise(std::span<std::int64_t>()).count, 0);
}

/// Many values are not sorted to find their percentiles: whatever their distribution, they must be those of a sort.
TEST(Statistics, PercentilesOfManyValuesAreThoseOfSortedOnes) {
  using Draw = std::function<std::int64_t(std::mt19937_64&)>;
  const std::vector<std::pair<const char*, Draw>> distributions = {
      {"uniform", [](auto& random) { return static_cast<std::int64_t>(random() % 1'000'000); }},
      {"all equal", [](auto&) { return std::int64_t{2'048}; }},
      {"two values", [](auto& random) { return random() % 20 == 0 ? std::int64_t{7} : std::int64_t{1'000'000'000}; }},
      {"clock ticks", [](auto& random) { return static_cast<std::int64_t>(2'000 + random() % 4 * 32); }},
      {"an outlier of hours",
       [](auto& random) {
         return random() % 5'000 == 0 ? std::int64_t{10'000'000'000'000} : static_cast<std::int64_t>(random() % 500);
       }},
      // Sums of all of them fit in 64 bits, as those of times do.
      {"powers", [](auto& random) { return std::int64_t{1} << random() % 46; }},
      {"with negative ones", [](auto& random) { return static_cast<std::int64_t>(random() % 2'000) - 1'000; }},
      {"everything", [](auto& random) { return static_cast<std::int64_t>(random() >> 18) - (std::int64_t{1} << 45); }}};
  for (const auto& [name, draw] : distributions) {
    for (const std::size_t count : {4'096U, 4'097U, 10'000U, 50'001U}) {
      std::mt19937_64 random(count);
      std::vector<std::int64_t> values(count);
      for (std::int64_t& value : values) value = draw(random);
      std::vector<std::int64_t> ascending = values;
      std::sort(ascending.begin(), ascending.end());
      const Statistics s = summarise(values);
      EXPECT_EQ(s.median, percentile(ascending, 0.5)) << name << ' ' << count;
      EXPECT_EQ(s.p90, percentile(ascending, 0.9)) << name << ' ' << count;
      EXPECT_EQ(s.p95, percentile(ascending, 0.95)) << name << ' ' << count;
      EXPECT_EQ(s.p99, percentile(ascending, 0.99)) << name << ' ' << count;
    }
  }
}

TEST(Statistics, GroupsKeepTheirValuesInOrder) {
  const std::vector<std::uint32_t> groups{1, 0, 1, 3};
  const std::vector<std::int64_t> values{5, 6, 4, 9};
  GroupedValues grouped(groups, values, 4);
  const auto of_group = [&](std::size_t group) {
    std::vector<std::int64_t> in_order;
    grouped.append_to(in_order, group);
    return in_order;
  };
  EXPECT_EQ(of_group(1), (std::vector<std::int64_t>{5, 4}));
  EXPECT_TRUE(of_group(2).empty());
  const std::vector<Statistics> statistics = summarise_groups(grouped);
  EXPECT_EQ(statistics[1].total, 9);
  EXPECT_EQ(statistics[2].count, 0);
  EXPECT_EQ(statistics[3].max, 9);
}

/// Values beyond 4 bytes, negative ones and the one that stands for them count like all others.
TEST(Statistics, CompactValuesLoseNothing) {
  const std::vector<std::int64_t> values{7, 0xFFFFFFFF, 3, -5, 0xFFFFFFFE, std::int64_t{1} << 40, 0xFFFFFFFF, 3};
  for (std::size_t odd = 0; odd < 2; ++odd) {
    std::vector<std::int64_t> plain;
    CompactValues compact;
    GroupedValues grouped(
        values.size(), 2, [](std::size_t i) { return i % 2; }, [&](std::size_t i) { return values[i]; });
    for (std::size_t i = odd; i < values.size(); i += 2) {
      plain.push_back(values[i]);
      compact.push_back(values[i]);
    }
    std::vector<std::int64_t> in_order;
    grouped.append_to(in_order, odd);
    EXPECT_EQ(in_order, plain);
    const Statistics expected = summarise(plain);
    for (const Statistics& found : {compact.summarise(), grouped.summarise(odd)}) {
      EXPECT_EQ(std::tuple(found.count, found.total, found.min, found.max, found.median, found.p99, found.deviation),
                std::tuple(expected.count, expected.total, expected.min, expected.max, expected.median, expected.p99,
                           expected.deviation));
    }
  }
}

TEST(Statistics, BucketsCoverEveryDurationOnce) {
  EXPECT_EQ(bucket_index(-5), 0);
  EXPECT_EQ(bucket_index(std::numeric_limits<std::int64_t>::max()), bucket_count - 1);
  for (std::size_t b = 0; b + 1 < bucket_count; ++b) {
    EXPECT_EQ(bucket(b).upper, bucket(b + 1).lower) << b;
    EXPECT_EQ(bucket_index(bucket(b).lower), b);
    EXPECT_EQ(bucket_index(bucket(b).upper - 1), b);
  }
  EXPECT_EQ(bucket(bucket_index(1000)).lower, 896);  // 7/4 of 512
  EXPECT_EQ(bucket(bucket_index(1000)).upper, 1024);
}

TEST(NearSearch, FindsWhatUpperBoundFindsFromAnywhere) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    testing::Random random(seed);
    std::vector<std::int64_t> values(static_cast<std::size_t>(random.integer(0, 60)));
    for (std::int64_t& value : values) value = random.integer(0, 40);
    std::sort(values.begin(), values.end());
    for (std::size_t near = 0; near <= values.size() + 1; ++near) {
      for (std::int64_t wanted = -1; wanted <= 41; ++wanted) {
        const auto expected = std::upper_bound(values.begin(), values.end(), wanted) - values.begin();
        ASSERT_EQ(upper_bound_near(values, near, wanted, std::less<>()), static_cast<std::size_t>(expected))
            << "seed " << seed << ", near " << near << ", wanted " << wanted;
      }
    }
  }
}

}  // namespace

}  // namespace nsys_explain::analysis
