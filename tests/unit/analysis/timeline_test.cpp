#include "analysis/tables/tables.hpp"

#include <gtest/gtest.h>

#include "unit/add_kernel.hpp"

namespace nsys_explain::analysis {
namespace {

struct Fixture {
  Trace trace;
  ProcessTrace process;
  Interval window{0, 1'000'000};

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
    const LaunchIndex launches(process.api_calls);
    const RankEvents events{trace, process, process.devices[0], launches,
                            nsys_explain::testing::nccl_kinds(trace, process.devices[0])};
    Timeline timeline = timeline_of(events, window);
    add_link_traffic(events, timeline);
    return timeline;
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
  for (const TimelineEvent& event : timeline.events) placed.emplace_back(event.start_ns, event.track_id, event.lane);
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

/// A kernel that one thread launches, and what that thread and another one do.
TEST(Timeline, RangesAndCallsAreThoseOfTheThreadsThatLaunch) {
  Fixture job;
  job.trace.strings.insert(job.trace.strings.end(), {"step", "forward", "cudaLaunchKernel", "poll"});  // from 3 on
  job.kernel(50, 60, 7);
  Kernels launched;
  for (Kernel kernel : job.process.devices[0].kernels) {
    kernel.correlation_id = 1;
    launched.push_back(kernel);
  }
  job.process.devices[0].kernels = std::move(launched);
  job.process.api_calls = {{20, 25, 11, 1, 5, 0, 0}, {21, 24, 12, 2, 5, 0, 0}};
  job.process.os_calls = {{26, 40, 11, 6, false}, {26, 40, 12, 6, false}};
  job.process.nvtx_ranges = {{10, 30, 11, 11, 4, 0, NvtxKind::push_pop, false},
                             {10, 90, 11, 11, 3, 0, NvtxKind::push_pop, false},
                             {10, 90, 12, 12, 3, 0, NvtxKind::push_pop, false},
                             {15, no_time, 11, 11, 3, 0, NvtxKind::mark, false}};
  using Seen = std::tuple<TimelineKind, std::string, Nanoseconds, std::uint32_t, int>;
  std::vector<Seen> seen;
  const Timeline timeline = job.timeline();
  for (const TimelineEvent& event : timeline.events)
    seen.emplace_back(event.kind, timeline.names[event.name], event.end_ns, event.track_id, event.lane);
  EXPECT_EQ(seen, (std::vector<Seen>{{TimelineKind::range, "forward", 30, 11, 1},
                                     {TimelineKind::range, "step", 90, 11, 0},
                                     {TimelineKind::call, "cudaLaunchKernel", 25, 11, 0},
                                     {TimelineKind::call, "poll", 40, 11, 0},
                                     {TimelineKind::compute, "gemm", 60, 7, 0}}));
  // The call that launched the kernel, and the kernel; of the other thread's call nothing is shown.
  std::vector<std::uint32_t> launches;
  for (const TimelineEvent& event : timeline.events) launches.push_back(event.launch);
  EXPECT_EQ(launches, (std::vector<std::uint32_t>{0, 0, 1, 0, 1}));
  EXPECT_EQ(timeline.events[0].arguments, TimelineEvent::no_arguments);
  EXPECT_EQ(timeline.names[timeline.events[4].arguments],
            "grid=0x0x0 block=0x0x0 registers=0 static_shared_bytes=0 dynamic_shared_bytes=0");
}

TEST(Timeline, HoldsWhatOverlapsTheWindow) {
  Fixture job;
  for (Nanoseconds start_ns = 0; start_ns < 100; start_ns += 10) job.kernel(start_ns, start_ns + 5, 7);
  job.window = {22, 41};
  std::vector<Nanoseconds> starts;
  for (const TimelineEvent& event : job.timeline().events) starts.push_back(event.start_ns);
  EXPECT_EQ(starts, (std::vector<Nanoseconds>{20, 30, 40}));
}

/// Ten events of 1 ns and two of 50 ns: of six, the three nearest to 45 stay, and the longest, then the next.
TEST(Timeline, ThinnedOutItKeepsWhatIsNearAndWhatIsLong) {
  std::vector<TimelineEvent> events;
  for (Nanoseconds start_ns = 0; start_ns < 100; start_ns += 10)
    events.push_back({start_ns, start_ns + 1, 0, 0, 0, 0, 0, TimelineKind::compute, 0});
  events.push_back({200, 250, 0, 0, 0, 0, 0, TimelineKind::compute, 0});
  events.push_back({300, 350, 0, 0, 0, 0, 0, TimelineKind::compute, 0});
  EXPECT_EQ(thin_out(events, 45, 6), 6);
  std::vector<Nanoseconds> starts;
  for (const TimelineEvent& event : events) starts.push_back(event.start_ns);
  EXPECT_EQ(starts, (std::vector<Nanoseconds>{30, 40, 50, 60, 200, 300}));
  EXPECT_EQ(thin_out(events, 45, 6), 0);
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
