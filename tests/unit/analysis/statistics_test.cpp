#include "nsys_explain/analysis/statistics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

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
  EXPECT_EQ(summarise({}).count, 0);
}

TEST(Statistics, GroupsKeepTheirValuesInOrder) {
  const std::vector<std::uint32_t> groups{1, 0, 1, 3};
  const std::vector<std::int64_t> values{5, 6, 4, 9};
  GroupedValues grouped(groups, values, 4);
  EXPECT_EQ(std::vector<std::int64_t>(grouped[1].begin(), grouped[1].end()), (std::vector<std::int64_t>{5, 4}));
  EXPECT_TRUE(grouped[2].empty());
  const std::vector<Statistics> statistics = summarise_groups(grouped);
  EXPECT_EQ(statistics[1].total, 9);
  EXPECT_EQ(statistics[2].count, 0);
  EXPECT_EQ(statistics[3].max, 9);
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

}  // namespace
}  // namespace nsys_explain::analysis
