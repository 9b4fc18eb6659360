#include "analysis/window/window.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/schema/job.hpp"
#include "rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::Integers;
using testing::integers;
using testing::OneRank;
using testing::Texts;
using testing::texts;

std::size_t slow(const std::vector<float>& lengths) {
  return slow_first_steps(lengths);
}

TEST(SlowFirstSteps, AreThoseThatCostMoreThanSteadyStepsAreWorth) {
  EXPECT_EQ(slow({21, 1.2F, 2.9F, 1, 1, 1, 1, 1, 1}), 3U);
  EXPECT_EQ(slow({21, 1, 1, 1, 1, 1, 1, 1, 1}), 1U);
  EXPECT_EQ(slow({1, 1.1F, 2.9F, 1, 1, 1, 1, 1, 1}), 0U) << "two steady steps are worth more than the third costs";
  EXPECT_EQ(slow({1, 1.1F, 5.2F, 1, 1, 1, 1, 1, 1}), 3U) << "they are not";
  EXPECT_EQ(slow({1, 1, 1, 1, 1, 1, 40, 1, 1}), 0U) << "only of the first third";
  EXPECT_EQ(slow({1.5F, 1.5F, 1.5F, 1, 1, 1, 1, 1, 1}), 0U) << "half as long again is no start-up";
  EXPECT_EQ(slow({9, 1}), 0U) << "of two steps nobody knows which is usual";
  std::vector<float> half(60, 1);
  std::fill_n(half.begin(), 30, 3.0F);
  EXPECT_EQ(slow(half), 0U) << "half of a run is no start-up";
  std::fill_n(half.begin() + 7, 23, 1.0F);
  EXPECT_EQ(slow(half), 7U) << "7 are no more than the root of 60";
  half[7] = 3;
  EXPECT_EQ(slow(half), 0U) << "8 are";
  EXPECT_EQ(slow({}), 0U);
}

/// Start-up kernels at 0 and 100 ms; then steps "step 3" and so on, each begun by the host 1 ms before its kernel of
/// `work_ms` runs on the GPU; a collective of `waits_ms` follows it.
struct Job {
  OneRank rank;
  Nanoseconds at_ns = 5'000'000'000;

  Job() {
    rank.call("cudaLaunchKernel", 0, 1'000, 1);
    rank.kernel("init", 2'000, 1'002'000, 1);
  }
  void step(int number, Nanoseconds work_ms, Nanoseconds waits_ms) {
    constexpr Nanoseconds ms = 1'000'000;
    const auto id = static_cast<std::uint32_t>(2 * number + 10);
    const Nanoseconds length_ns = (work_ms + waits_ms + 1) * ms;
    NvtxRange range;
    range.start_ns = at_ns;
    range.end_ns = at_ns + length_ns;
    range.thread_id = 1;
    range.text = rank.text("step " + std::to_string(number));
    rank.process().nvtx_ranges.push_back(range);
    rank.call("cudaLaunchKernel", at_ns + 10, at_ns + 20, id);
    rank.call("cudaLaunchKernel", at_ns + 30, at_ns + 40, id + 1);
    rank.kernel("work", at_ns + ms, at_ns + (1 + work_ms) * ms, id);
    rank.kernel("ncclAllReduce", at_ns + (1 + work_ms) * ms, at_ns + (1 + work_ms + waits_ms) * ms, id + 1);
    at_ns += length_ns;
  }
};

TEST(RecordedSteps, AWaitForOthersMakesNoStepSlow) {
  Job job;
  job.step(3, 40, 0);
  for (int i = 4; i < 10; ++i) job.step(i, 10, i == 4 ? 200 : 0);
  const RecordedSteps steps = record_steps(job.rank.events());
  EXPECT_EQ(steps.source, StepSource::nvtx);
  EXPECT_TRUE(steps.numbered);
  EXPECT_EQ(steps.first_number, 3);
  ASSERT_EQ(steps.begin_ns.size(), 7U);
  EXPECT_EQ(steps.begin_ns[0], 5'000'000'000);
  EXPECT_EQ(steps.begin_ns[1], 5'041'000'000) << "where its range begins, not its kernel";
  EXPECT_EQ(steps.end_ns, 5'041'000'000 + 211'000'000 + 5 * 11'000'000);
  EXPECT_NEAR(steps.own_length[0], 41.0 / 11, 1e-3);
  EXPECT_NEAR(steps.own_length[1], 1, 1e-3) << "200 ms of it are a collective";
  EXPECT_EQ(slow_first_steps(steps.own_length), 1U);
  EXPECT_NEAR(steps.length[1], 211.0 / 11, 1e-3);
  EXPECT_TRUE(is_waited_in(steps.length, 1)) << "for who began later";
  EXPECT_FALSE(is_waited_in(steps.length, 2));
  EXPECT_FALSE(is_waited_in(steps.length, 6)) << "the last one may be cut off";
  const Interval window = steady_window(steps);
  EXPECT_EQ(window.start_ns, 5'041'000'000 + 211'000'000);
  EXPECT_EQ(window.end_ns, steps.end_ns);
}

/// Step 4 takes 11 + 30 ms, of one kernel more; step 6 takes 41 ms without one; step 7 waits for 50.
Steps steps_of(Job& job, bool step_5_has_more) {
  const auto also = [&](std::uint32_t id, Nanoseconds work_ms) {  // behind the work of the step that was just made
    job.rank.call("cudaLaunchKernel", job.at_ns, job.at_ns + 10, id);
    job.rank.kernel("evaluate", job.at_ns, job.at_ns + work_ms * 1'000'000, id);
    job.at_ns += work_ms * 1'000'000;
  };
  for (int i = 0; i < 5; ++i) job.step(i, 10, 0);
  also(91, 30);
  job.step(5, 10, 0);
  if (step_5_has_more) also(92, 5);
  job.step(6, 40, 0);
  job.step(7, 10, 50);
  for (int i = 8; i < 12; ++i) job.step(i, 10, 0);
  return find_steps(job.rank.events());
}

TEST(StepsWithMore, AreLongAndHoldMoreWork) {
  Job one, other;
  const Steps steps = steps_of(one, false);
  ASSERT_EQ(steps.start_ns.size(), 12U);
  EXPECT_EQ(steps_with_more(one.rank.events(), steps), std::vector<std::int32_t>{4});
  const Steps of_other = steps_of(other, true);
  EXPECT_TRUE(steps_with_more(other.rank.events(), of_other).empty()) << "a step of usual length has as many kernels";
}

TEST(RunParts, AreMeasuredAndToldApart) {
  Job job;
  job.step(3, 40, 0);
  for (int i = 4; i < 10; ++i) job.step(i, 10, 0);
  // Once all steps are over: a kernel of 3 ms, 50 ms later.
  const Nanoseconds end_ns = job.at_ns;
  job.rank.call("cudaLaunchKernel", end_ns + 49'000'000, end_ns + 49'000'010, 99);
  job.rank.kernel("save", end_ns + 50'000'000, end_ns + 53'000'000, 99);
  const RankEvents events = job.rank.events();
  const RecordedSteps steps = record_steps(events);
  ASSERT_EQ(steps.end_ns, end_ns) << "3 ms of work are no step";
  const Table table = run_parts_table(events, steps, steady_window(steps));
  EXPECT_EQ(texts(table, "part"), (Texts{"start_up", "slow_first_steps", "steps", "after"}));
  EXPECT_EQ(integers(table, "steps"), (Integers{0, 1, 6, 0}));
  EXPECT_EQ(integers(table, "analysed"), (Integers{0, 0, 1, 0}));
  EXPECT_EQ(integers(table, "duration_ns"), (Integers{5'000'000'000 - 2'000, 41'000'000, 66'000'000, 53'000'000}));
  EXPECT_EQ(integers(table, "gpu_busy_ns"), (Integers{1'000'000, 40'000'000, 60'000'000, 3'000'000}));
  EXPECT_EQ(
      describe_left_out({table}, {}, {}),
      "Not analysed: 5 s before the first step, 1 slow first step (0.041 s), 0.053 s after the last step (--whole-run takes all).");
  Steps of_job;
  of_job.start_ns = {0, 20, 1'500'000'020};
  of_job.end_ns = 1'600'000'020;
  EXPECT_EQ(
      describe_left_out({}, of_job, std::vector<std::int32_t>{1, 2}),
      "Not in the mean step: 2 steps in which all ranks do more than a step, or that were not recorded as a whole (1.6 s).");
}

TEST(RunParts, WithoutStepsLittleWorkBeyondALongPauseIsCutOff) {
  OneRank rank;
  // 1 ms of work, 300 ms pause, 100 ms of work with pauses of 5 ms, then 2 ms of pause and of work.
  rank.kernel("load", 0, 1'000'000);
  for (int i = 0; i < 10; ++i)
    rank.kernel("f" + std::to_string(i), 301'000'000 + i * 15'000'000, 311'000'000 + i * 15'000'000);
  rank.kernel("last", 448'000'000, 450'000'000);
  const RankEvents events = rank.events();
  const RecordedSteps steps = record_steps(events);
  EXPECT_EQ(steps.source, StepSource::none);
  const Interval window = steady_window(steps);
  EXPECT_EQ(window.start_ns, 301'000'000);
  EXPECT_EQ(window.end_ns, open_end_ns) << "a pause of 2 ms beside 149 ms";
  EXPECT_EQ(steps.cut_off_ns, 1'000'000);
  const Table table = run_parts_table(events, steps, window);
  EXPECT_EQ(texts(table, "part"), (Texts{"start_up", "activity"}));
  EXPECT_EQ(integers(table, "duration_ns"), (Integers{301'000'000, 149'000'000}));
}

TEST(RunParts, HalfTheWorkIsNeverCutOff) {
  OneRank rank;
  rank.kernel("a", 0, 50'000'000);
  rank.kernel("b", 500'000'000, 550'000'000);
  const Interval window = steady_window(record_steps(rank.events()));
  EXPECT_EQ(window.start_ns, open_begin_ns);
  EXPECT_EQ(window.end_ns, open_end_ns);
}

TEST(RunParts, NothingIsLeftOutOfARunOfStepsAlone) {
  OneRank rank;
  EXPECT_EQ(describe_left_out({}, {}, {}), "");
  EXPECT_EQ(run_parts_table(rank.events(), record_steps(rank.events()), {open_begin_ns, open_end_ns}).row_count(), 0U);
  rank.kernel("ncclAllReduce", 0, 1'000'000);
  EXPECT_TRUE(steps_with_more(rank.events(), {}).empty()) << "no steps are known";
}

}  // namespace
}  // namespace nsys_explain::analysis
