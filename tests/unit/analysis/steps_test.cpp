#include "analysis/window/steps.hpp"

#include <gtest/gtest.h>

#include <string>

namespace nsys_explain::analysis {
namespace {

std::vector<std::uint64_t> symbols_of(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string times(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Repetitions, StepsBeginAtTheRareSymbol) {
  EXPECT_EQ(repetitions(symbols_of(times("AAAAAAAAB", 4))), (std::vector<std::size_t>{8, 17, 26, 35}));
}

TEST(Repetitions, ALongRunOfEqualSymbolsIsNotTheStep) {
  EXPECT_EQ(repetitions(symbols_of(times(std::string(100, 'A') + "B", 5))),
            (std::vector<std::size_t>{100, 201, 302, 403, 504}));
}

TEST(Repetitions, AnOperationInEveryTenthStepDoesNotMakeTenStepsOne) {
  const std::string ten = times("AAAAAAAAB", 9) + "AAAAAAAABR";
  EXPECT_EQ(repetitions(symbols_of(times(ten, 4))).size(), 40U);
}

TEST(Repetitions, WhatDoesNotRepeatThriceHasNoSteps) {
  EXPECT_TRUE(repetitions(symbols_of("ABCDABCD")).empty());
  EXPECT_TRUE(repetitions(symbols_of("ABCDEFGHIJKLMNOP")).empty());
  EXPECT_TRUE(repetitions(symbols_of("AAAAAAAAAAAA")).empty());
  EXPECT_TRUE(repetitions({}).empty());
}

TEST(Steps, IndexOfATime) {
  const Steps steps{StepSource::nvtx, {100, 200, 300}, 350};
  EXPECT_EQ(steps.index_of(99), -1);
  EXPECT_EQ(steps.index_of(100), 0);
  EXPECT_EQ(steps.index_of(299), 1);
  EXPECT_EQ(steps.index_of(350), 2);
  EXPECT_EQ(steps.index_of(351), -1);
}

TEST(Steps, AreRelatedByNumberOrElseByTime) {
  const Steps job{StepSource::nvtx, {0, 100, 200, 300}, 400, true, 10};
  EXPECT_EQ(relate_steps(job, {StepSource::nvtx, {5, 105}, 205, true, 12}), (std::vector<std::int32_t>{2, 3}))
      << "whatever the clocks say";
  EXPECT_EQ(relate_steps(job, {StepSource::periodicity, {130, 230, 330}, 480}), (std::vector<std::int32_t>{1, 2, -1}));
}

/// Steps of 1000 ns; the GPU runs 3000 ns behind the host, two kernels a step.
struct Example {
  Trace trace;
  ProcessTrace process;
  DeviceTrace device;

  Example(const std::vector<std::string>& names, std::uint32_t thread = 1) {
    trace.strings = {""};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto start = static_cast<Nanoseconds>(i) * 1000;
      trace.strings.push_back(names[i]);
      NvtxRange range;
      range.start_ns = start;
      range.end_ns = start + 990;
      range.thread_id = thread;
      range.text = static_cast<StringIndex>(i + 1);
      process.nvtx_ranges.push_back(range);
      for (const Nanoseconds offset : {10, 500}) {
        const auto id = static_cast<std::uint32_t>(process.api_calls.size() + 1);
        process.api_calls.push_back({start + offset, start + offset + 5, 1, id});
        device.kernels.push_back({start + offset + 3000, start + offset + 3300, id, 0});
      }
    }
  }

  Steps steps(const std::vector<Arrival>& arrivals = {}) const {
    const LaunchIndex launches(process.api_calls);
    return find_steps({trace, process, device, launches, {false}}, arrivals);
  }
};

TEST(Steps, BeginOnTheGpuWhereTheRangesKernelsDo) {
  const Steps steps = Example({"step 7", "step 8", "step 9"}).steps();
  EXPECT_EQ(steps.source, StepSource::nvtx);
  EXPECT_EQ(steps.start_ns, (std::vector<Nanoseconds>{3010, 4010, 5010}));
  EXPECT_EQ(steps.end_ns, 5800);
  EXPECT_TRUE(steps.numbered);
  EXPECT_EQ(steps.first_number, 7);
}

TEST(Steps, ARangeOpenAtTheEndOfTheCaptureIsAStep) {
  Example example({"step 7", "step 8", "step 9", "step 10"});
  example.process.nvtx_ranges.pop_back();
  const Steps steps = example.steps();
  EXPECT_EQ(steps.start_ns, (std::vector<Nanoseconds>{3010, 4010, 5010, 6010}));
  EXPECT_EQ(steps.end_ns, 6800);
}

TEST(Steps, UnnumberedIterationsCountFromZero) {
  const Steps steps = Example({"train iteration", "train iteration", "train iteration"}).steps();
  EXPECT_EQ(steps.start_ns.size(), 3U);
  EXPECT_FALSE(steps.numbered);
}

TEST(Steps, RangesThatOnlyRepeatAreNoSteps) {
  EXPECT_EQ(Example({"forward", "forward", "forward"}).steps().source, StepSource::none);
  EXPECT_EQ(Example({"step 1", "step 2"}).steps().source, StepSource::none) << "two are too few";
}

TEST(Steps, WithoutRangesFromTheSequenceOfCollectives) {
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 12; ++i) {
    Arrival arrival;
    arrival.enter_ns = 100 * i;
    arrival.exit_ns = arrival.enter_ns + 50;
    arrival.call_bytes = i % 3 == 2 ? 4 : 1000;
    arrivals.push_back(arrival);
  }
  const Steps steps = Example({}).steps(arrivals);
  EXPECT_EQ(steps.source, StepSource::periodicity);
  EXPECT_EQ(steps.start_ns, (std::vector<Nanoseconds>{200, 500, 800, 1100}));
  EXPECT_EQ(steps.end_ns, 1150);
}

}  // namespace
}  // namespace nsys_explain::analysis
