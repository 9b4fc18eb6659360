#include "analysis/window/step_candidates.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::OneRank;

TEST(RangeName, TellsLoopAndNumber) {
  using Told = std::tuple<std::string, std::optional<std::int64_t>, bool>;
  const auto told = [](const char* text) {
    const RangeName name = read_range_name(text);
    return Told{name.stem, name.number, name.names_step};
  };
  EXPECT_EQ(told("step 12"), (Told{"step #", 12, true}));
  EXPECT_EQ(told("epoch 2 step 17"), (Told{"epoch # step #", 17, true}));
  EXPECT_EQ(told("step 5 of 100"), (Told{"step # of #", 5, true}));
  EXPECT_EQ(told("_forward_step 12:"), (Told{"_forward_step #:", 12, true}));
  EXPECT_EQ(told("micro_batch 3"), (Told{"micro_batch #", 3, true}));
  EXPECT_EQ(told("step[DECODE bs=32]"), (Told{"step[]", std::nullopt, true}));
  EXPECT_EQ(told("iter[7]"), (Told{"iter[#]", 7, true}));
  EXPECT_EQ(told("execute_context_1(512)_generation_8(8)"), (Told{"execute_context_#(#)_generation_#(#)", 8, true}));
  EXPECT_EQ(told("trainStep"), (Told{"trainStep", std::nullopt, true}));
  EXPECT_EQ(told("stepper 3"), (Told{"stepper #", 3, false})) << "whole words only";
  EXPECT_EQ(told("aten::batch_norm"), (Told{"aten::batch_norm", std::nullopt, false}));
  EXPECT_EQ(told("CudnnBatchNormBackward0"), (Told{"CudnnBatchNormBackward#", 0, false}));
  EXPECT_EQ(told("step 99999999999"), (Told{"step #", std::nullopt, true})) << "no program counts so far";
  EXPECT_EQ(told(""), (Told{"", std::nullopt, false}));
  EXPECT_TRUE(read_range_name("ProfilerStep#101").is_of_profiler);
  EXPECT_FALSE(read_range_name("MyProfilerStep#101").is_of_profiler);
  EXPECT_EQ(read_range_name(std::string(100'000, '(')).stem.size(), 200U);
}

/// Rows are parts, columns names.
PartContents contents_of(const std::vector<std::vector<int>>& counts) {
  PartContents contents(counts.size(), counts.front().size());
  for (std::size_t part = 0; part < counts.size(); ++part)
    for (std::size_t name = 0; name < counts[part].size(); ++name)
      for (int i = 0; i < counts[part][name]; ++i) contents.add(part, name);
  return contents;
}

TEST(PartContents, TheTypicalPartIsTheMedianOfThoseThatHoldAnything) {
  const PartContents contents = contents_of({{0, 0}, {10, 0}, {11, 3}, {30, 0}});
  EXPECT_EQ(typical_content(contents), (std::vector<std::int32_t>{11, 0}));
}

TEST(PartContents, AlikeIsTheSameButForATenth) {
  const std::vector<std::int32_t> typical{15, 5};
  EXPECT_TRUE(is_alike(std::vector<std::int32_t>{15, 5}, typical));
  EXPECT_TRUE(is_alike(std::vector<std::int32_t>{16, 4}, typical)) << "2 of 20 differ";
  EXPECT_FALSE(is_alike(std::vector<std::int32_t>{17, 4}, typical)) << "3 of 20 do";
  EXPECT_FALSE(is_alike(std::vector<std::int32_t>{0, 0}, std::vector<std::int32_t>{0, 0})) << "nothing is like nothing";
}

/// The name 1 in every `period`th part, 40 parts of 20 kernels.
Recurrence with_rare(int period, int kernels, bool communicates, std::size_t restarts_after,
                     bool all_communicate = false) {
  std::vector<std::vector<int>> counts;
  for (int part = 0; part < 40; ++part)
    counts.push_back({20, part % period == period - 1 ? kernels : 0, all_communicate ? 1 : 0});
  const PartContents contents = contents_of(counts);
  return recurrence_of_rare(contents, typical_content(contents), {false, communicates, true}, restarts_after);
}

TEST(Recurrence, OfWhatMostPartsLack) {
  const Recurrence every_fourth{4, 3}, nothing{};
  EXPECT_EQ(with_rare(4, 1, true, 0), every_fourth) << "the reduction: no other part communicates";
  EXPECT_EQ(with_rare(4, 1, true, 0, true), nothing) << "a loss that is reduced now and then";
  EXPECT_EQ(with_rare(4, 2, false, 0), every_fourth) << "2 kernels are a tenth of 20";
  EXPECT_EQ(with_rare(4, 1, false, 0), nothing) << "1 is not";
  EXPECT_EQ(with_rare(4, 1, false, 4), every_fourth) << "but numbers restart with it";
  EXPECT_EQ(with_rare(4, 1, false, 5), nothing);
  EXPECT_EQ(with_rare(9, 20, true, 0), (Recurrence{9, 8}));
  EXPECT_EQ(with_rare(10, 20, true, 0), nothing) << "an evaluation or a checkpoint";
}

TEST(Recurrence, IsEven) {
  std::vector<std::vector<int>> counts(40, {20, 0});
  for (const std::size_t part : {3, 4, 9, 20, 22, 31, 38}) counts[part][1] = 5;
  const PartContents contents = contents_of(counts);
  EXPECT_EQ(recurrence_of_rare(contents, typical_content(contents), {false, true}, 0), Recurrence{});
}

/// A program in microseconds: ranges, and kernels launched at a time that run 2 ms later.
struct Program {
  OneRank rank;
  std::uint32_t id = 0;

  void range(Nanoseconds begin_us, Nanoseconds end_us, const std::string& text, std::uint32_t thread = 1) {
    NvtxRange range;
    range.start_ns = begin_us * 1'000;
    range.end_ns = end_us < 0 ? no_time : end_us * 1'000;
    range.thread_id = thread;
    range.text = rank.text(text);
    rank.process().nvtx_ranges.push_back(range);
  }
  void launch(Nanoseconds at_us, const std::string& kernel, std::uint32_t thread = 1) {
    rank.call("cudaLaunchKernel", at_us * 1'000, at_us * 1'000 + 500, ++id, thread);
    rank.kernel(kernel, (at_us + 2'000) * 1'000, (at_us + 2'005) * 1'000, id);
  }
  /// Kernels a, b, a, b, ... of `count`, 10 us apart.
  void work(Nanoseconds at_us, int count = 20, std::uint32_t thread = 1) {
    for (int i = 0; i < count; ++i) launch(at_us + 10 * i, i % 2 == 0 ? "a" : "b", thread);
  }
  StepRanges steps() {
    const RankEvents events = rank.events();
    return choose_step_ranges(events);
  }
  std::vector<Nanoseconds> begins_us() {
    std::vector<Nanoseconds> begins;
    for (const Interval& range : steps().ranges) begins.push_back(range.start_ns / 1'000);
    return begins;
  }
};

using Times = std::vector<Nanoseconds>;

TEST(StepRanges, TheProfilersGoBeforeOthersAndOperatorsAreNone) {
  Program program;
  for (int s = 0; s < 4; ++s) {
    const Nanoseconds at = 1'000 * s;
    program.range(at, at + 990, "ProfilerStep#" + std::to_string(7 + s));
    program.range(at + 5, at + 400, "train_step");
    program.range(at + 410, at + 900, "train_step");
    for (int n = 0; n < 10; ++n) program.range(at + 20 + 10 * n, at + 25 + 10 * n, "aten::batch_norm");
    program.work(at + 10);
    program.work(at + 500, 20, 2);  // backward: another thread launches
  }
  const StepRanges steps = program.steps();
  EXPECT_EQ(program.begins_us(), (Times{0, 1'000, 2'000, 3'000}));
  EXPECT_TRUE(steps.numbered);
  EXPECT_EQ(steps.first_number, 7);
}

TEST(StepRanges, RangesThatEncloseLittleAreNone) {
  Program program;
  for (int s = 0; s < 6; ++s) {
    program.range(1'000 * s, 1'000 * s + 1, "load_batch");
    program.work(1'000 * s + 10);
  }
  EXPECT_TRUE(program.steps().ranges.empty());
  EXPECT_TRUE(Program().steps().ranges.empty()) << "no ranges, no kernels";
}

TEST(StepRanges, WhatIsLaunchedBehindTheLastMakesNoStepUnlessItIsOne) {
  Program program;
  for (int s = 0; s < 4; ++s) {
    program.range(1'000 * s, 1'000 * s + 900, "step " + std::to_string(s));
    program.work(1'000 * s + 10);
  }
  Program barrier = program, open = program;
  barrier.launch(4'500, "ncclAllReduce");
  EXPECT_EQ(barrier.begins_us().size(), 4U);
  open.work(4'010);
  EXPECT_EQ(open.begins_us(), (Times{0, 1'000, 2'000, 3'000, 4'010}));
  open.range(4'000, -1, "step 4");
  EXPECT_EQ(open.begins_us(), (Times{0, 1'000, 2'000, 3'000, 4'000})) << "a range that was never closed";
}

TEST(StepRanges, NothingInsideAndSomethingBehindIsNoStep) {
  Program program;
  for (int s = 0; s < 4; ++s) program.range(10 * s, 10 * s + 1, "step " + std::to_string(s));
  program.work(100, 100);
  EXPECT_TRUE(program.steps().ranges.empty());
}

/// Six steps of four micro-batches; a reduction and an optimizer of one kernel behind the last of each.
Program accumulating(const char* name, bool with_numbers, bool with_reduction) {
  Program program;
  for (int m = 0; m < 24; ++m) {
    const Nanoseconds at = 1'000 * m;
    program.range(at, at + 900, with_numbers ? name + std::string(" ") + std::to_string(m % 4) : name);
    program.work(at + 10);
    if (m % 4 != 3) continue;
    if (with_reduction) program.launch(at + 850, "ncclAllReduce");
    program.launch(at + 910, "adam");
  }
  return program;
}

TEST(StepRanges, MicroBatchesAreGroupedUpToTheReduction) {
  const Times groups{0, 4'000, 8'000, 12'000, 16'000, 20'000};
  EXPECT_EQ(accumulating("micro_batch", true, true).begins_us(), groups);
  EXPECT_EQ(accumulating("micro_batch", false, true).begins_us(), groups);
  EXPECT_EQ(accumulating("micro_batch", true, false).begins_us(), groups) << "numbers restart with the optimizer";
  EXPECT_EQ(accumulating("micro_batch", false, false).begins_us().size(), 24U)
      << "one kernel in every fourth: logging?";
  EXPECT_FALSE(accumulating("micro_batch", true, true).steps().numbered);
}

TEST(StepRanges, NumbersThatCountOnAreBelieved) {
  Program program;
  for (int s = 0; s < 12; ++s) {
    program.range(1'000 * s, 1'000 * s + 900, "iteration " + std::to_string(40 + s));
    program.work(1'000 * s + 10, s % 3 == 0 ? 60 : 10 + 3 * s);  // no two alike
  }
  EXPECT_EQ(program.begins_us().size(), 12U);
  EXPECT_EQ(program.steps().first_number, 40);
}

TEST(StepRanges, OneOrTwoHoldHalfOfAllKernels) {
  Program one, short_one;
  one.work(0, 10);
  one.range(500, 900, "step 0");
  one.work(510, 30);
  for (int layer = 0; layer < 6; ++layer)
    one.range(510 + 50 * layer, 555 + 50 * layer, "layer " + std::to_string(layer));
  EXPECT_EQ(one.begins_us(), Times{500}) << "a layer is no step";
  short_one.work(0, 40);
  short_one.range(500, 900, "step 0");
  short_one.work(510, 30);
  EXPECT_TRUE(short_one.steps().ranges.empty());
}

TEST(StepRanges, MarksLastUntilTheNext) {
  Program program;
  for (int s = 0; s < 4; ++s) {
    program.range(1'000 * s, -1, "step " + std::to_string(s));
    program.work(1'000 * s + 10);
  }
  for (std::size_t i = 0; i < 4; ++i)
    program.rank.process().nvtx_ranges.change_kinds([](NvtxRange& range) { range.kind = NvtxKind::mark; });
  EXPECT_EQ(program.begins_us(), (Times{0, 1'000, 2'000, 3'000}));
}

TEST(StepRanges, NumbersThatAreMissingInAHoleKeepTheirPlace) {
  // Steps 0 to 5 and 10 to 14; ids of calls went on while nothing was recorded.
  Program program;
  for (int s = 0; s < 15; ++s) {
    if (s >= 6 && s < 10) {
      program.id += 20;
      continue;
    }
    program.range(1'000 * s, 1'000 * s + 900, "step " + std::to_string(s));
    program.work(1'000 * s + 10);
  }
  RankEvents events = program.rank.events();
  const std::vector<Interval> holes = recording_holes(events.trace, events.process);
  ASSERT_EQ(holes.size(), 1U);
  EXPECT_EQ(holes[0], (Interval{7'205'000, 10'000'000})) << "from the end of the last kernel to the next range";
  StepRanges unknown = choose_step_ranges(events);
  EXPECT_FALSE(unknown.numbered) << "without the hole nobody knows what became of them";
  EXPECT_EQ(unknown.ranges.size(), 11U);
  events.holes = holes;
  const StepRanges steps = choose_step_ranges(events);
  ASSERT_EQ(steps.ranges.size(), 15U);
  EXPECT_TRUE(steps.numbered);
  for (std::size_t missing = 6; missing < 10; ++missing) {
    EXPECT_TRUE(steps.is_missing[missing]);
    EXPECT_EQ(steps.ranges[missing].start_ns, 7'205'000 + static_cast<Nanoseconds>(missing - 6) * 2'795'000 / 4);
  }
  EXPECT_EQ(steps.ranges[10].start_ns, 10'000'000);
}

TEST(RecordingHoles, APauseOfTheProgramIsNone) {
  OneRank paused;
  for (int i = 0; i < 100; ++i) {
    const Nanoseconds at_ns = 1'000'000 * i + (i < 50 ? 0 : 50'000'000);
    paused.call("cudaLaunchKernel", at_ns, at_ns + 1'000, static_cast<std::uint32_t>(10 * i + 1));
  }
  const auto holes = [&] {
    const RankEvents events = paused.events();
    return recording_holes(events.trace, events.process);
  };
  EXPECT_TRUE(holes().empty()) << "10 ids, as between any two calls";
  paused.call("cudaProfilerStop", 49'500'000, 49'500'100, 495);
  EXPECT_EQ(holes(), (std::vector<Interval>{{49'500'100, 100'000'000}}));
  paused.kernel("tail", 50'000'000, 52'000'000);
  EXPECT_EQ(holes(), (std::vector<Interval>{{52'000'000, 100'000'000}})) << "the GPU went on for 2 ms";
  paused.kernel("other", 70'000'000, 99'500'000);
  EXPECT_TRUE(holes().empty()) << "the GPU went on for all of it";
  EXPECT_TRUE(recording_holes(Trace{}, ProcessTrace{}).empty());
}

TEST(StreamLaunches, AStreamTellsWhenAKernelWithoutACallWasLaunched) {
  OneRank rank;
  rank.call("cudaLaunchKernel", 10, 11, 1);
  rank.call("cudaLaunchKernel", 30, 31, 2);
  rank.call("cudaLaunchKernel", 35, 36, 3);
  rank.kernel("a", 100, 190, 1);
  rank.kernel("b", 190, 250, 0);
  rank.kernel("c", 250, 300, 2);
  rank.kernel("d", 300, 310, 0);
  rank.kernel("e", 120, 130, 0, 9);
  rank.kernel("f", 140, 150, 3, 9);
  const RankEvents events = rank.events();
  std::vector<Nanoseconds> launched;
  for_each_launched_kernel(events, [&](const Kernel&, Nanoseconds launched_ns) { launched.push_back(launched_ns); });
  // a, e, f, b, c, d: nothing was launched before e in its stream, and nothing with a call behind d.
  EXPECT_EQ(launched, (std::vector<Nanoseconds>{10, 120, 35, 10, 30, 300}));
}

}  // namespace
}  // namespace nsys_explain::analysis
