#include "analysis/window/steps.hpp"

#include <gtest/gtest.h>

#include <string>

namespace nsys_explain::analysis {
namespace {

TEST(Steps, IndexOfATime) {
  const Steps steps{StepSource::nvtx, {100, 200, 300}, 350};
  EXPECT_EQ(steps.index_of(99), -1);
  EXPECT_EQ(steps.index_of(100), 0);
  EXPECT_EQ(steps.index_of(299), 1);
  EXPECT_EQ(steps.index_of(350), 2);
  EXPECT_EQ(steps.index_of(351), -1);
}

/// Steps of 1000 ns; the GPU runs 3000 ns behind the host, two kernels a step.
struct Example {
  Trace trace;
  ProcessTrace process;
  DeviceTrace device;

  Example(const std::vector<std::string>& names, std::uint32_t thread = 1) {
    trace.strings = {""};
    device.kernel_kinds.resize(1);
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

  Steps steps() const {
    const LaunchIndex launches(process.api_calls);
    return find_steps({trace, process, device, launches, std::vector<bool>(device.kernel_kinds.size(), false)});
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
  EXPECT_EQ(Example({"step 1", "step 2"}).steps().start_ns, (std::vector<Nanoseconds>{3010, 4010})) << "few are steps";
}

TEST(Steps, WithoutRangesFromTheOrderOfKernels) {
  // Five steps of a large kernel and two small ones; between the first two there is one on a scalar, too.
  Example example({});
  example.device.kernel_kinds.resize(3);
  for (std::size_t k = 0; k < 3; ++k) {
    KernelKind& kind = example.device.kernel_kinds[k];
    kind.demangled_name = static_cast<StringIndex>(k);
    kind.grid_x = k == 2 ? 1 : 100;
    kind.grid_y = kind.grid_z = 1;
  }
  for (int step = 0; step < 5; ++step) {
    const Nanoseconds start_ns = 1000 * step;
    example.device.kernels.push_back({start_ns, start_ns + 500, 0, 0});
    for (const Nanoseconds after_ns : {600, 700})
      example.device.kernels.push_back({start_ns + after_ns, start_ns + after_ns + 50, 0, 1});
  }
  const Steps steps = example.steps();
  EXPECT_EQ(steps.source, StepSource::periodicity);
  EXPECT_EQ(steps.start_ns, (std::vector<Nanoseconds>{0, 1000, 2000, 3000, 4000}));
  EXPECT_EQ(steps.end_ns, 4750);
}

}  // namespace
}  // namespace nsys_explain::analysis
