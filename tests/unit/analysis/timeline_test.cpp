#include "analysis/tables/timeline.hpp"

#include <gtest/gtest.h>

#include "unit/add_kernel.hpp"

namespace nsys_explain::analysis {
namespace {

struct Fixture {
  Trace trace;
  ProcessTrace process;
  LaunchIndex launches{process.api_calls};

  Fixture() {
    trace.strings = {"", "gemm", "ncclDevKernel_AllReduce"};
    process.devices.resize(1);
  }
  void kernel(Nanoseconds start_ns, Nanoseconds end_ns, std::uint32_t stream, StringIndex name = 1) {
    KernelKind& kind = nsys_explain::testing::add_kernel(process.devices[0], start_ns, end_ns);
    kind.stream_id = stream;
    kind.short_name = kind.demangled_name = name;
  }
  Timeline timeline() const {
    return timeline_of(
        {trace, process, process.devices[0], launches, nsys_explain::testing::nccl_kinds(trace, process.devices[0])});
  }
};

TEST(Timeline, WorkOfOneStreamThatOverlapsGetsLanesOfItsOwn) {
  Fixture job;
  job.kernel(0, 10, 7);
  job.kernel(5, 20, 7);   // a branch beside the first
  job.kernel(5, 8, 9);    // another stream
  job.kernel(10, 12, 7);  // the first lane is free again
  job.kernel(11, 15, 7);  // both are taken
  const Timeline timeline = job.timeline();
  ASSERT_EQ(timeline.events.size(), 5U);
  std::vector<std::tuple<Nanoseconds, std::uint32_t, std::uint16_t>> placed;
  for (const TimelineEvent& event : timeline.events) placed.emplace_back(event.start_ns, event.stream_id, event.lane);
  EXPECT_EQ(placed, (decltype(placed){{0, 7, 0}, {5, 9, 0}, {5, 7, 1}, {10, 7, 0}, {11, 7, 2}}));
}

TEST(Timeline, KindsAndNamesAreToldApart) {
  Fixture job;
  job.kernel(0, 10, 7);
  job.kernel(10, 20, 8, 2);
  MemoryOperation copy;
  copy.start_ns = 3;
  copy.end_ns = 4;
  copy.copy_kind = 1;
  job.process.devices[0].memory_operations.push_back(copy);
  const Timeline timeline = job.timeline();
  ASSERT_EQ(timeline.events.size(), 3U);
  EXPECT_EQ(timeline.events[0].kind, TimelineKind::compute);
  EXPECT_EQ(timeline.events[1].kind, TimelineKind::copy);
  EXPECT_EQ(timeline.names[timeline.events[1].name], "[CUDA memcpy Host-to-Device]");
  EXPECT_EQ(timeline.events[2].kind, TimelineKind::communication);
  EXPECT_EQ(timeline.names[timeline.events[2].name], "ncclDevKernel_AllReduce");
}

TEST(Timeline, CountersShowAValueFromTheStartOfItsSampleAndOnlyWhereItChanges) {
  Fixture job;
  job.kernel(0, 1000, 7, 2);
  GpuSamples& samples = job.process.devices[0].samples;
  samples.time_ns = {100, 200, 300, 400, 500};
  samples.values[static_cast<std::size_t>(GpuCounter::nvlink_receive_bytes)] = {0, 40, 40, 60, 0};
  std::vector<std::pair<Nanoseconds, double>> shown;
  for (const TimelineEvent& event : job.timeline().events) {
    if (event.kind == TimelineKind::counter) shown.emplace_back(event.start_ns, event.value);
  }
  EXPECT_EQ(shown, (decltype(shown){{100, 40}, {300, 60}, {400, 0}}));
}

}  // namespace
}  // namespace nsys_explain::analysis
