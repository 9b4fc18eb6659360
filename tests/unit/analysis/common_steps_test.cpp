#include "analysis/window/window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds ms = 1'000'000;

/// Steps of 10 ms from `begin_ms` on; the lengths are own lengths.
RecordedSteps numbered_steps(std::int64_t first_number, Nanoseconds begin_ms, const std::vector<float>& lengths) {
  RecordedSteps steps;
  steps.source = StepSource::nvtx;
  steps.numbered = true;
  steps.first_number = first_number;
  steps.usual_ns = 10 * ms;
  steps.own_length = lengths;
  for (std::size_t i = 0; i < lengths.size(); ++i)
    steps.begin_ns.push_back((begin_ms + 10 * static_cast<Nanoseconds>(i)) * ms);
  steps.end_ns = steps.begin_ns.back() + 10 * ms;
  steps.length.assign(lengths.size(), 1);
  return steps;
}

std::vector<Interval> windows_of(const std::vector<RecordedSteps>& recorded, const std::vector<Nanoseconds>& starts) {
  std::vector<ProcessSteps> told;
  for (std::size_t p = 0; p < recorded.size(); ++p) told.push_back(tell_steps(recorded[p], starts[p]));
  const std::vector<CommonWindow> common = common_windows(told);
  std::vector<Interval> windows;
  for (std::size_t p = 0; p < recorded.size(); ++p)
    windows.push_back(window_in_trace(common[p], recorded[p], starts[p]));
  return windows;
}

TEST(CommonWindows, SlowFirstStepsAreThoseThatAreSlowForAll) {
  const std::vector<RecordedSteps> recorded = {numbered_steps(0, 100, {20, 30, 1, 1, 1, 1, 1, 1, 1}),
                                               numbered_steps(0, 103, {20, 1, 1, 1, 1, 1, 1, 1, 1})};
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].start_ns, 110 * ms) << "the second step is slow on one rank alone: it is late";
  EXPECT_EQ(windows[1].start_ns, 113 * ms);
  EXPECT_EQ(windows[0].end_ns, 190 * ms);
  EXPECT_EQ(windows[1].end_ns, 193 * ms);
}

TEST(CommonWindows, NumbersTellWhichStepsAreTheSame) {
  // The second recording began two steps later, on a clock that is off by an hour.
  const std::vector<RecordedSteps> recorded = {numbered_steps(5, 100, {9, 9, 9, 1, 1, 1, 1, 1, 1}),
                                               numbered_steps(7, 0, {9, 1, 1, 1, 1, 1, 1})};
  const std::vector<Interval> windows = windows_of(recorded, {0, 3'600'000 * ms});
  EXPECT_EQ(windows[0].start_ns, 130 * ms);
  EXPECT_EQ(windows[1].start_ns, 10 * ms);
}

TEST(CommonWindows, WithoutNumbersUtcDoes) {
  std::vector<RecordedSteps> recorded = {numbered_steps(0, 100, {9, 9, 9, 1, 1, 1, 1, 1, 1}),
                                         numbered_steps(0, 1'022, {9, 1, 1, 1, 1, 1, 1})};
  for (RecordedSteps& one : recorded) one.numbered = false;
  const std::vector<Interval> windows = windows_of(recorded, {0, -900 * ms});  // 2 ms off, of 10
  EXPECT_EQ(windows[0].start_ns, 130 * ms);
  EXPECT_EQ(windows[1].start_ns, 1'032 * ms);
}

TEST(CommonWindows, EqualCollectivesTellWhereStepsByOrderBegin) {
  // Steps by order may begin elsewhere in the program: the second rank's begin behind the collective of each step.
  std::vector<RecordedSteps> recorded = {numbered_steps(0, 100, {9, 1, 1, 1, 1, 1, 1}),
                                         numbered_steps(0, 106, {9, 1, 1, 1, 1, 1, 1})};
  for (RecordedSteps& one : recorded) {
    one.source = StepSource::periodicity;
    one.numbered = false;
    one.communication_hash = 17;
    for (Nanoseconds i = 0; i < 7; ++i) one.communication_ns.push_back((105 + 10 * i) * ms);
  }
  recorded[1].end_ns = 166 * ms;  // before the last collective is launched? no: 165 ms, so it is within
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].start_ns, 110 * ms);
  EXPECT_EQ(windows[1].start_ns, 105 * ms + 1) << "behind the first collective, as on the first rank";
  EXPECT_EQ(windows[1].end_ns, 166 * ms);
}

TEST(CommonWindows, CountsOfCollectivesAreTimesOfEachTrace) {
  RecordedSteps recorded;
  recorded.communication_ns = {10, 20, 30};
  const auto window = [&](std::int64_t after, std::int64_t until) {
    const Interval time = window_in_trace({{5, 50}, after, until}, recorded, 0);
    return std::pair(time.start_ns, time.end_ns);
  };
  EXPECT_EQ(window(-1, -1), (std::pair<Nanoseconds, Nanoseconds>{5, 50}));
  EXPECT_EQ(window(1, 2), (std::pair<Nanoseconds, Nanoseconds>{11, 21}));
  EXPECT_EQ(window(0, 7), (std::pair<Nanoseconds, Nanoseconds>{10, 31})) << "before the first, after the last";
  recorded.communication_ns.clear();
  EXPECT_EQ(window(2, 3), (std::pair<Nanoseconds, Nanoseconds>{5, 50})) << "a record that says what cannot be";
}

TEST(CommonWindows, AFirstStepInWhichSomeWaitForWhoBeganLaterIsNotSteady) {
  std::vector<RecordedSteps> recorded = {numbered_steps(2, 100, {1, 1, 1, 1, 1, 1}),
                                         numbered_steps(2, 100, {1, 1, 1, 1, 1, 1})};
  recorded[1].length = {4.7F, 1, 1, 3, 1, 1};
  for (const Interval& window : windows_of(recorded, {0, 0})) {
    EXPECT_EQ(window.start_ns, 100 * ms) << "both began it at one time: it waits for something else";
    EXPECT_EQ(window.end_ns, 160 * ms) << "what follows the last range is no part of it";
  }
  recorded[1].begin_ns[0] = 63 * ms;  // its clock is right: the other began 37 ms later, of 10 a step
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].start_ns, 110 * ms) << "who waits in the fourth step waits for somebody late";
  EXPECT_EQ(windows[1].start_ns, 110 * ms);
}

TEST(CommonWindows, AreOfStepsThatAllRecorded) {
  // Steps 4 to 12 and 6 to 14; what precedes the first range is a part of a step.
  std::vector<RecordedSteps> recorded = {numbered_steps(4, 100, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
                                         numbered_steps(6, 7, {1, 1, 1, 1, 1, 1, 1, 1, 1})};
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].start_ns, 120 * ms);
  EXPECT_EQ(windows[1].start_ns, 7 * ms);
  EXPECT_EQ(windows[0].end_ns, 190 * ms);
  EXPECT_EQ(windows[1].end_ns, 77 * ms) << "where step 13 begins";
  // One rank recorded two steps of nine: the others are analysed all the same.
  recorded[1] = numbered_steps(6, 7, {1, 1});
  EXPECT_LT(windows_of(recorded, {0, 0})[0].start_ns, 110 * ms);
}

/// Unnumbered steps in which the last collective ends at these times on the process's own clock.
RecordedSteps steps_with_exits(const std::vector<Nanoseconds>& exits_ns) {
  RecordedSteps steps = numbered_steps(0, 0, std::vector<float>(exits_ns.size(), 1));
  steps.numbered = false;
  for (std::size_t i = 0; i < exits_ns.size(); ++i) steps.begin_ns[i] = exits_ns[i] - 9 * ms;
  steps.end_ns = exits_ns.back() + ms;
  steps.last_exit_ns = exits_ns;
  return steps;
}

TEST(CommonWindows, ExitsTellWhichStepsAreOneWhateverTheClocksSay) {
  // Steps of 10 ms, give or take 1 to 9 us; the second recording begins two steps later, its clock is 15 ms ahead, and
  // it has as many steps.
  const std::vector<Nanoseconds> varied = {3, 7, 1, 9, 4, 2, 8, 5, 9, 1, 6, 2, 7, 3};
  std::vector<Nanoseconds> one, other;
  Nanoseconds at_ns = 100 * ms;
  for (std::size_t i = 0; i < varied.size(); ++i) {
    at_ns += 10 * ms + varied[i] * 1'000;
    if (i < 12) one.push_back(at_ns);
    if (i >= 2) other.push_back(at_ns + 15 * ms + (i % 2 == 0 ? 50 : -50));
  }
  const std::vector<RecordedSteps> recorded = {steps_with_exits(one), steps_with_exits(other)};
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].start_ns, recorded[0].begin_ns[2]);
  EXPECT_EQ(windows[1].start_ns, recorded[1].begin_ns[0]);
  EXPECT_EQ(windows[0].end_ns, recorded[0].end_ns);
  EXPECT_EQ(windows[1].end_ns, recorded[1].begin_ns[10]);
}

TEST(CommonWindows, ALoopTooRegularForExitsIsRelatedByEqualCounts) {
  std::vector<Nanoseconds> one, other;
  for (Nanoseconds i = 0; i < 12; ++i) {
    one.push_back((100 + 10 * i) * ms);
    other.push_back((122 + 10 * i) * ms);
  }
  const std::vector<RecordedSteps> recorded = {steps_with_exits(one), steps_with_exits(other)};
  const std::vector<Interval> windows = windows_of(recorded, {0, 0});
  EXPECT_EQ(windows[0].end_ns, recorded[0].end_ns);
  EXPECT_EQ(windows[1].end_ns, recorded[1].end_ns);
}

TEST(CommonWindows, AProcessWithoutStepsIsAnalysedWhileTheOthersAre) {
  RecordedSteps without;
  without.begin_ns = {open_begin_ns};
  without.end_ns = open_end_ns;
  const std::vector<RecordedSteps> recorded = {numbered_steps(0, 100, {9, 1, 1, 1, 1, 1}), without};
  const std::vector<Interval> windows = windows_of(recorded, {0, 40 * ms});
  EXPECT_EQ(windows[1].start_ns, 70 * ms);
  EXPECT_EQ(windows[1].end_ns, 120 * ms);
}

TEST(CommonWindows, WithoutAnyStepsTheyReachFromTheFirstToTheLast) {
  RecordedSteps a, b;
  a.begin_ns = {100};
  a.end_ns = 900;
  b.begin_ns = {130};
  b.end_ns = open_end_ns;
  const std::vector<Interval> windows = windows_of({a, b}, {0, 0});
  EXPECT_EQ(windows[0].start_ns, 100);
  EXPECT_EQ(windows[1].start_ns, 100);
  EXPECT_EQ(windows[0].end_ns, open_end_ns);
}

TEST(CommonWindows, DoNotDependOnTheOrder) {
  std::vector<RecordedSteps> recorded = {numbered_steps(5, 100, {9, 9, 9, 1, 1, 1, 1, 1, 1}),
                                         numbered_steps(7, 0, {9, 1, 1, 1, 1, 1, 1}),
                                         numbered_steps(6, 50, {9, 9, 1, 1, 1, 1, 1, 1})};
  const std::vector<Interval> windows = windows_of(recorded, {0, 0, 0});
  std::reverse(recorded.begin(), recorded.end());
  std::vector<Interval> reversed = windows_of(recorded, {0, 0, 0});
  std::reverse(reversed.begin(), reversed.end());
  for (std::size_t i = 0; i < windows.size(); ++i) EXPECT_EQ(windows[i].start_ns, reversed[i].start_ns) << i;
}

}  // namespace
}  // namespace nsys_explain::analysis
