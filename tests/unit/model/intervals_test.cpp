#include "nsys_explain/model/intervals.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace nsys_explain {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Intervals, MergeSortsJoinsTouchingAndDropsEmpty) {
  EXPECT_THAT(merge_intervals({{30, 40}, {0, 10}, {10, 20}, {35, 50}, {60, 60}, {70, 65}}),
              ElementsAre(Interval{0, 20}, Interval{30, 50}));
  EXPECT_THAT(merge_intervals({}), IsEmpty());
}

TEST(Intervals, ContainedIntervalDoesNotShortenItsContainer) {
  EXPECT_THAT(merge_intervals({{0, 100}, {10, 20}, {30, 40}}), ElementsAre(Interval{0, 100}));
}

TEST(Intervals, SubtractByHand) {
  const std::vector<Interval> a{{0, 10}, {20, 30}, {40, 50}};
  const std::vector<Interval> b{{5, 25}, {28, 45}};
  EXPECT_THAT(subtract(a, b), ElementsAre(Interval{0, 5}, Interval{25, 28}, Interval{45, 50}));
  EXPECT_THAT(subtract(a, {}), ElementsAre(Interval{0, 10}, Interval{20, 30}, Interval{40, 50}));
}

TEST(Intervals, SetAlgebraAgreesWithACountPerNanosecond) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&] {
      std::vector<Interval> intervals(random() % 12);
      for (Interval& interval : intervals) {
        interval.start_ns = static_cast<Nanoseconds>(random() % 100) - 50;
        interval.end_ns = interval.start_ns + static_cast<Nanoseconds>(random() % 20);
      }
      return intervals;
    };
    const std::vector<Interval> a = draw(), b = draw();
    const auto covers = [](const std::vector<Interval>& set, Nanoseconds t) {
      return std::any_of(set.begin(), set.end(), [t](const Interval& i) { return i.start_ns <= t && t < i.end_ns; });
    };
    Nanoseconds only_a = 0, in_a = 0;
    for (Nanoseconds t = -60; t < 90; ++t) {
      in_a += covers(a, t) ? 1 : 0;
      only_a += covers(a, t) && !covers(b, t) ? 1 : 0;
    }
    const auto merged_a = merge_intervals(a), merged_b = merge_intervals(b);
    EXPECT_EQ(total_length(merged_a), in_a) << "seed " << seed;
    std::vector<Interval> by_start = a;
    std::sort(by_start.begin(), by_start.end(),
              [](const Interval& x, const Interval& y) { return x.start_ns < y.start_ns; });
    UnionLength together;
    for (const Interval& interval : by_start) together.add(interval);
    EXPECT_EQ(together.length_ns(), in_a) << "seed " << seed;
    EXPECT_EQ(total_length(subtract(merged_a, merged_b)), only_a) << "seed " << seed;
  }
}

}  // namespace
}  // namespace nsys_explain
