#include "analysis/window/window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "analysis/tables/tables.hpp"
#include "made_trace.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MadeTrace;

constexpr Nanoseconds lowest = std::numeric_limits<Nanoseconds>::min(),
                      highest = std::numeric_limits<Nanoseconds>::max();

template <class Parse>
std::string problem(const Parse& parse, std::string_view text) {
  try {
    parse(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(FilterTime, TakesNsysUnitsAlsoTogether) {
  EXPECT_EQ(parse_filter_time("5s/7s"), (Interval{5'000'000'000, 7'000'000'000}));
  EXPECT_EQ(parse_filter_time("1s500ms/2m1us"), (Interval{1'500'000'000, 120'000'001'000}));
  EXPECT_EQ(parse_filter_time("250/"), (Interval{250, highest}));
  EXPECT_EQ(parse_filter_time("/0.1s"), (Interval{lowest, 100'000'000}));
  EXPECT_EQ(parse_filter_time("1.000000001s/2h"), (Interval{1'000'000'001, 7'200'000'000'000}));
}

TEST(FilterTime, RefusesWhatIsNoSpan) {
  for (const char* text : {"", "/", "5s", "7s/5s", "5s/5s", "x/5s", "1s/2parsecs", "s/1", "1.2.3s/9s", "-1s/5s",
                           "99999999999999999999s/", "9999999999h/"}) {
    EXPECT_THAT(problem(parse_filter_time, text), HasSubstr("START/END")) << text;
  }
}

TEST(FilterNvtx, TakesDomainAndIndex) {
  const RangeSelector plain = parse_filter_nvtx("step 5");
  EXPECT_EQ(plain.label, "step 5");
  EXPECT_EQ(plain.domain, "");
  EXPECT_FALSE(plain.index);
  const RangeSelector full = parse_filter_nvtx("a/b@train/3");
  EXPECT_EQ(full.label, "a/b");
  EXPECT_EQ(full.domain, "train");
  EXPECT_EQ(full.index, 3);
  EXPECT_EQ(parse_filter_nvtx("a/b").label, "a/b");
  EXPECT_THAT(problem(parse_filter_nvtx, "@domain"), HasSubstr("names no range"));
}

TEST(Steps, AreNumbersFromTo) {
  EXPECT_EQ(parse_steps("10:20").first, 10);
  EXPECT_EQ(parse_steps("10:20").last, 20);
  EXPECT_FALSE(parse_steps("10:").last);
  EXPECT_FALSE(parse_steps(":5").first);
  EXPECT_EQ(parse_steps("7").first, parse_steps("7").last);
  for (const char* text : {":", "", "a:b", "5:4", "-1:4"}) {
    EXPECT_THAT(problem(parse_steps, text), HasSubstr("FIRST:LAST")) << text;
  }
}

/// Three steps of 100 ns on the host; each launches one kernel that runs 250 ns later, so that no step's GPU work runs
/// within its host time.
struct ThreeSteps : ::testing::Test {
  ThreeSteps() {
    made.trace.processes.front().global_pid = 9;
    for (const Nanoseconds t : {0, 100, 200}) {
      made.range(t, t + 99, "step " + std::to_string(10 + t / 100));
      NvtxRange range = made.make_range(t + 10, t + 20, "ncclAllReduce", 1, "NCCL");
      range.is_nccl_call = true;
      made.process().nvtx_ranges.push_back(range);
      NcclCall call;
      call.start_ns = t + 10;
      call.function = t == 0 ? NcclFunction::comm_init : NcclFunction::all_reduce;
      made.process().nccl_calls.push_back(call);
      made.launch(t + 30, t + 35, t + 280, t + 350);
    }
    made.kernel(600, 650, "orphan");
  }
  ProcessWindows clip(const WindowRequest& request, Nanoseconds epoch_in_trace_ns = 0) {
    return clip_to_window(made.trace, request, epoch_in_trace_ns, PhaseNames({}));
  }
  std::vector<Nanoseconds> kernel_starts() {
    std::vector<Nanoseconds> starts;
    for (const Kernel& kernel : made.device().kernels) starts.push_back(kernel.start_ns);
    return starts;
  }
  MadeTrace made;
};

TEST_F(ThreeSteps, WorkBelongsToTheStepThatLaunchedIt) {
  WindowRequest request;
  request.steps = parse_steps("11");
  const ProcessWindows windows = clip(request);
  EXPECT_EQ(windows.at(9), (Interval{100, 199}));
  EXPECT_THAT(kernel_starts(), ElementsAre(380));
  ASSERT_EQ(made.process().api_calls.size(), 1U);
  EXPECT_EQ(made.process().api_calls.front().start_ns, 130);
  const Budget budget = compute_budget(made.device(), made.events().communication_kinds);
  EXPECT_EQ(budget.window_start_ns, 380);
  EXPECT_EQ(budget.window_ns, 70);
  EXPECT_EQ(budget.compute_ns + budget.idle_ns, budget.window_ns);
}

TEST_F(ThreeSteps, CommunicatorsStayKnownAndCallsFollowTheirRanges) {
  WindowRequest request;
  request.steps = parse_steps("12:");
  clip(request);
  ASSERT_EQ(made.process().nccl_calls.size(), 2U);  // the one that made the communicator, and step 12's
  EXPECT_EQ(made.process().nccl_calls.front().function, NcclFunction::comm_init);
  ASSERT_EQ(made.process().nvtx_ranges.size(), 2U);
  EXPECT_TRUE(made.process().nvtx_ranges.back().is_nccl_call);
  EXPECT_EQ(made.process().nccl_calls.back().start_ns, 210);
}

TEST_F(ThreeSteps, TimeKeepsWhatRunsThenAndTheCallsThatLaunchedIt) {
  WindowRequest request;
  request.time = Interval{300, 400};  // since the epoch, which is 20 before trace time 0
  clip(request, -20);
  EXPECT_THAT(kernel_starts(), ElementsAre(280));
  ASSERT_EQ(made.process().api_calls.size(), 1U);
  EXPECT_EQ(made.process().api_calls.front().start_ns, 30);
}

TEST_F(ThreeSteps, WarmupIsTheFirstStepsAndAllBefore) {
  WindowRequest request;
  request.warmup_steps = 2;
  clip(request);
  EXPECT_THAT(kernel_starts(), ElementsAre(480, 600));  // work without a call counts by its own time
}

TEST_F(ThreeSteps, RangesByNameAndIndexAndDomain) {
  WindowRequest request;
  request.range = parse_filter_nvtx("ncclAllReduce@NCCL/1");
  EXPECT_EQ(clip(request).at(9), (Interval{110, 120}));
}

TEST_F(ThreeSteps, SeveralConditionsMustAllHold) {
  WindowRequest request;
  request.steps = parse_steps("10:11");
  request.time = Interval{90, 1000};
  EXPECT_EQ(clip(request).at(9), (Interval{90, 199}));
  EXPECT_THAT(kernel_starts(), ElementsAre(380));
}

TEST_F(ThreeSteps, WhatIsNotThereIsSaid) {
  WindowRequest request;
  request.steps = parse_steps("50:60");
  EXPECT_THROW(clip(request), std::runtime_error);
  request = {};
  request.range = parse_filter_nvtx("ncclAllReduce");  // in NCCL's domain, not in the default one
  EXPECT_THAT(problem([&](std::string_view) { clip(request); }, ""), HasSubstr("nvtx_sum"));
}

TEST_F(ThreeSteps, WithoutARequestNothingChanges) {
  EXPECT_TRUE(clip({}).empty());
  EXPECT_EQ(made.device().kernels.size(), 4U);
  EXPECT_EQ(made.process().nvtx_ranges.size(), 6U);
}

}  // namespace
}  // namespace nsys_explain::analysis
