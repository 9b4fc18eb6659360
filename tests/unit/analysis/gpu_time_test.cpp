#include <algorithm>
#include <numeric>
#include <random>
#include <tuple>

#include <gtest/gtest.h>

#include "analysis/tables/categories.hpp"
#include "analysis/tables/tables.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::OneRank;
using testing::reals;
using testing::Reals;
using testing::table_of;
using testing::texts;
using testing::Texts;

std::int64_t sum(const Integers& values) {
  return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}

TEST(SharedGpus, KernelsWithoutALengthMakeAWindowToo) {
  OneRank rank;
  rank.kernel("a", 100, 100, 1);
  rank.kernel("a", 400, 400, 2);
  Trace trace;
  trace.processes.assign(2, rank.process());
  const std::vector<SharedGpu> gpus = shared_gpus(trace);
  ASSERT_EQ(gpus.size(), 1U);
  EXPECT_EQ(integers(gpus[0].table, "launches"), Integers{4});
  EXPECT_EQ(integers(gpus[0].table, "window_ns"), Integers{300});
  EXPECT_EQ(integers(gpus[0].table, "busy_ns"), Integers{0});
}

TEST(IdleGaps, CausesByWhenTheNextActivityWasLaunched) {
  OneRank rank;
  rank.kernel("a", 100, 200, 1);
  rank.kernel("late", 250, 300, 2);       // launched at 220, after 200
  rank.kernel("behind", 330, 400, 3, 9);  // launched at 150, behind a wait of stream 9 for stream 7
  rank.kernel("slow", 460, 500, 4);       // launched in time; nothing says why it did not start
  rank.kernel("orphan", 520, 530, 0);
  rank.call("cudaLaunchKernel", 90, 95, 1);
  rank.call("cudaLaunchKernel", 150, 155, 3);
  rank.call("cudaLaunchKernel", 160, 165, 4);
  rank.call("cudaLaunchKernel", 220, 225, 2);
  rank.process().event_records.push_back({10, 0, 7, 5, 77});
  rank.process().synchronizations.push_back({140, 141, 11, 0, 9, 5, 77, SyncKind::stream_wait_event});
  const RankEvents events = rank.events();
  const std::vector<Table> tables = idle_tables(events);
  const Table& causes = table_of(tables, "idle_causes");
  EXPECT_EQ(texts(causes, "cause"), (Texts{"launch_starved", "dependency_stalled", "other"}));
  EXPECT_EQ(integers(causes, "total_ns"), (Integers{50, 30, 60 + 20}));
  EXPECT_EQ(integers(causes, "count"), (Integers{1, 1, 2}));
  EXPECT_DOUBLE_EQ(reals(causes, "share_percent")[0], 100.0 * 50 / 430);
  const Table& gaps = table_of(tables, "idle_gaps");
  EXPECT_EQ(integers(gaps, "start_ns"), (Integers{200, 300, 400, 500}));
  EXPECT_EQ(integers(gaps, "launched_ns"), (Integers{220, 150, 160, no_time}));
  EXPECT_EQ(texts(gaps, "next"), (Texts{"late", "behind", "slow", "orphan"}));
}

TEST(IdleGaps, WaitForTheOwnStreamOrBeforeTheLaunchBeforeIsNoDependency) {
  OneRank rank;
  rank.kernel("a", 100, 200, 1);
  rank.kernel("b", 250, 300, 2);
  rank.kernel("c", 350, 400, 3);
  rank.call("cudaLaunchKernel", 50, 51, 1);
  rank.call("cudaLaunchKernel", 60, 61, 2);
  rank.call("cudaLaunchKernel", 70, 71, 3);
  rank.process().event_records.push_back({10, 0, 7, 5, 77});
  rank.process().synchronizations.push_back({40, 41, 11, 0, 7, 6, 0, SyncKind::stream_wait_event});   // before a
  rank.process().synchronizations.push_back({65, 66, 12, 0, 7, 5, 77, SyncKind::stream_wait_event});  // for itself
  const std::vector<Table> tables = idle_tables(rank.events());
  EXPECT_EQ(integers(table_of(tables, "idle_causes"), "count"), (Integers{0, 0, 2}));
}

TEST(IdleGaps, LongestAreKeptWhateverTheirNumber) {
  OneRank rank;
  Nanoseconds now = 0;
  for (int i = 0; i < 1000; ++i) {
    rank.kernel("k", now, now + 10);
    now += 10 + (i % 7) + (i == 321 ? 5000 : 0) + 1;
  }
  const std::vector<Table> tables = idle_tables(rank.events());
  const Table& gaps = table_of(tables, "idle_gaps");
  ASSERT_EQ(gaps.row_count(), 200);
  const Integers& lengths = integers(gaps, "duration_ns");
  EXPECT_EQ(*std::max_element(lengths.begin(), lengths.end()), 5000 + 321 % 7 + 1);
  EXPECT_EQ(*std::min_element(lengths.begin(), lengths.end()), 6) << "142 gaps are of 7 or more, the rest of 6";
}

/// Whatever the activities, the parts add up to the budget.
TEST(GpuTime, GapsSpansStreamsAndElapsedAddUpForRandomActivities) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int limit) { return static_cast<Nanoseconds>(random() % static_cast<unsigned>(limit)); };
    OneRank rank;
    for (int i = 0; i < 400; ++i) {
      const Nanoseconds start = draw(20'000);
      const std::string name = i % 3 == 0 ? "ncclX" : "k" + std::to_string(i % 5);
      rank.kernel(name, start, start + draw(60), 0, static_cast<std::uint32_t>(random() % 4));
      if (i % 4 == 0) rank.copy(1, start + draw(100), start + 100 + draw(50), 64);
      if (i % 50 == 0) rank.device().graph_launches.push_back({start, start + draw(200), 0, 3, 1, 1});
    }
    const RankEvents events = rank.events();
    const Budget budget = compute_budget(events.device, events.communication_kinds);

    const std::vector<Table> idle = idle_tables(events);
    EXPECT_EQ(sum(integers(table_of(idle, "idle_causes"), "total_ns")), budget.idle_ns) << seed;

    const Table spans = utilisation_table(events);
    EXPECT_LE(spans.row_count(), 256);
    EXPECT_EQ(sum(integers(spans, "span_ns")), budget.window_ns);
    EXPECT_EQ(sum(integers(spans, "compute_ns")), budget.compute_ns);
    EXPECT_EQ(sum(integers(spans, "exposed_communication_ns")), budget.exposed_communication_ns);
    EXPECT_EQ(sum(integers(spans, "copy_ns")), budget.copy_ns);
    EXPECT_EQ(sum(integers(spans, "opaque_graph_ns")), budget.opaque_graph_ns);
    EXPECT_EQ(sum(integers(spans, "idle_ns")), budget.idle_ns);

    const std::vector<Table> streams = stream_tables(events);
    const Table& levels = table_of(streams, "stream_concurrency");
    EXPECT_EQ(sum(integers(levels, "duration_ns")), budget.window_ns);
    EXPECT_EQ(integers(levels, "duration_ns")[0], budget.idle_ns);
    Nanoseconds stream_time = 0;
    for (std::size_t level = 0; level < levels.row_count(); ++level) {
      stream_time += static_cast<Nanoseconds>(level) * integers(levels, "duration_ns")[level];
    }
    EXPECT_EQ(stream_time, sum(integers(table_of(streams, "streams"), "busy_ns")));

    EXPECT_EQ(sum(integers(elapsed_table(events), "elapsed_ns")), budget.window_ns - budget.idle_ns);
  }
}

TEST(Streams, ConcurrencyByHand) {
  OneRank rank;
  rank.kernel("a", 0, 100, 0, 1);
  rank.kernel("a", 50, 120, 0, 1);  // overlaps within its stream
  rank.kernel("b", 80, 90, 0, 2);
  rank.kernel("c", 200, 210, 0, 2);
  const std::vector<Table> tables = stream_tables(rank.events());
  EXPECT_EQ(integers(table_of(tables, "stream_concurrency"), "duration_ns"), (Integers{80, 120, 10}));
  EXPECT_EQ(integers(table_of(tables, "streams"), "busy_ns"), (Integers{120, 20}));
  EXPECT_EQ(integers(table_of(tables, "streams"), "kernels"), (Integers{2, 2}));
}

TEST(CommunicationOverlap, PartsUnderCompute) {
  OneRank rank;
  rank.kernel("a", 0, 100, 0, 1);
  rank.kernel("b", 120, 140, 0, 1);
  rank.kernel("ncclX<1>", 50, 130, 0, 2);  // 50 + 10
  rank.kernel("ncclX<2>", 60, 90, 0, 3);   // 30
  rank.kernel("ncclY", 500, 510, 0, 2);
  const std::vector<Table> tables = communication_overlap_tables(rank.events(), true);
  const Table& table = tables[0];
  EXPECT_EQ(texts(table, "name"), (Texts{"ncclX", "ncclY"}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{110, 10}));
  EXPECT_EQ(integers(table, "overlapped_ns"), (Integers{90, 0}));
}

/// What compute hides of communication and of copies, against a look at every nanosecond.
TEST(CommunicationOverlap, AgreesWithEveryNanosecondOfRandomActivities) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int limit) { return static_cast<Nanoseconds>(random() % static_cast<unsigned>(limit)); };
    OneRank rank;
    std::vector<bool> computes(700, false), copies(700, false);
    std::vector<Interval> communication;
    for (int i = 0; i < 40; ++i) {
      const Nanoseconds start = draw(600), end = start + draw(30);
      rank.kernel("k", start, end);
      std::fill(computes.begin() + start, computes.begin() + end, true);
      if (i % 3 == 0) {
        const Nanoseconds enter = draw(600);
        communication.push_back({enter, enter + draw(90)});
        rank.kernel("ncclX", communication.back().start_ns, communication.back().end_ns, 0, 2);
      }
      if (i % 5 == 0) {
        const Nanoseconds copy_start = draw(600), copy_end = copy_start + draw(50);
        rank.copy(1, copy_start, copy_end, 64);
        std::fill(copies.begin() + copy_start, copies.begin() + copy_end, true);
      }
    }
    std::int64_t hidden_ns = 0, copying_ns = 0;
    for (const Interval& c : communication) {
      hidden_ns += std::count(computes.begin() + c.start_ns, computes.begin() + c.end_ns, true);
    }
    for (std::size_t t = 0; t < copies.size(); ++t) copying_ns += computes[t] && copies[t] ? 1 : 0;
    const RankEvents events = rank.events();
    EXPECT_EQ(integers(communication_overlap_tables(events, false)[0], "overlapped_ns"), Integers{hidden_ns}) << seed;
    EXPECT_EQ(integers(table_of(memory_operation_tables(events), "copy_engines"), "overlapped_ns"),
              Integers{copying_ns})
        << seed;
  }
}

TEST(MemoryOperations, TimesSizesTransfersAndEngines) {
  OneRank rank;
  rank.kernel("k", 0, 100);
  rank.copy(1, 50, 150, 2000, 0, 2);  // pageable to device: 100 ns, 50 of them under the kernel
  rank.copy(1, 140, 200, 400, 1, 2);  // pinned: 60 ns
  rank.copy(2, 300, 310, 50, 2, 0);
  rank.set(400, 405, 7, 2);
  const std::vector<Table> tables = memory_operation_tables(rank.events());
  const Table& times = table_of(tables, "memory_time");
  EXPECT_EQ(texts(times, "operation"),
            (Texts{"[CUDA memcpy Host-to-Device]", "[CUDA memcpy Device-to-Host]", "[CUDA memset]"}));
  EXPECT_EQ(integers(times, "total_ns"), (Integers{160, 10, 5}));
  EXPECT_EQ(integers(times, "count"), (Integers{2, 1, 1}));
  EXPECT_DOUBLE_EQ(reals(times, "median_ns")[0], 80);
  EXPECT_EQ(integers(table_of(tables, "memory_size"), "total_bytes"), (Integers{2400, 50, 7}));
  const Table& transfers = table_of(tables, "memory_transfers");
  EXPECT_EQ(texts(transfers, "source"), (Texts{"Device", "Pageable", "Pinned", "-"}));
  EXPECT_EQ(integers(transfers, "bytes"), (Integers{50, 2000, 400, 7}));
  EXPECT_DOUBLE_EQ(reals(transfers, "bandwidth_gbs")[1], 20);  // 2000 bytes in 100 ns
  const Table& engines = table_of(tables, "copy_engines");
  EXPECT_EQ(texts(engines, "direction"), (Texts{"host_to_device", "device_to_host", "set"}));
  EXPECT_EQ(integers(engines, "busy_ns"), (Integers{150, 10, 5}));
  EXPECT_EQ(integers(engines, "overlapped_ns"), (Integers{50, 0, 0}));
  EXPECT_DOUBLE_EQ(reals(engines, "throughput_gbs")[0], 16);
}

TEST(GpuMemory, RunningSumsByKind) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.process().memory_events = {{10, 100, 0, 2, false},
                                  {11, 50, 0, 2, false},
                                  {12, 100, 0, 2, true},
                                  {500, 30, 0, 1, false},
                                  {600, 999, 1, 2, false}};  // the last is of another device
  const std::vector<Table> tables = gpu_memory_tables(rank.events());
  const Table& summary = table_of(tables, "gpu_memory_summary");
  EXPECT_EQ(texts(summary, "memory"), (Texts{"Pinned", "Device"}));
  EXPECT_EQ(integers(summary, "peak_bytes"), (Integers{30, 150}));
  EXPECT_EQ(integers(summary, "peak_ns"), (Integers{500, 11}));
  EXPECT_EQ(integers(summary, "final_bytes"), (Integers{30, 50}));
  EXPECT_EQ(integers(summary, "allocated_bytes"), (Integers{30, 150}));
  EXPECT_EQ(integers(summary, "releases"), (Integers{0, 1}));
  const Table& over_time = table_of(tables, "gpu_memory");  // spans of (500 - 10) / 256 + 1 = 2 ns
  EXPECT_EQ(integers(over_time, "start_ns"), (Integers{10, 12, 500, 500}));
  EXPECT_EQ(integers(over_time, "in_use_bytes"), (Integers{150, 50, 30, 50}));
  EXPECT_EQ(integers(over_time, "peak_bytes"), (Integers{150, 150, 30, 50}));
}

TEST(CudaGraphs, OpaqueLaunchesByGraph) {
  OneRank rank;
  rank.device().graph_launches = {{0, 10, 1, 7, 3, 4}, {20, 50, 2, 7, 3, 4}, {60, 61, 3, 7, 5, 6}};
  const Table table = cuda_graphs_table(rank.events());
  EXPECT_EQ(integers(table, "graph"), (Integers{3, 5}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{40, 1}));
}

Kernel kernel(Nanoseconds start, Nanoseconds end, bool communication = false) {
  return {start, end, 0, communication ? 1U : 0U};
}

const std::vector<bool> communication_kinds{false, true};

DeviceTrace device_of_two_kinds() {
  DeviceTrace device;
  device.kernel_kinds.resize(2);
  return device;
}

TEST(Budget, WorkedExample) {
  // time    0    10   20   30   40   50   60   70   80   90  100
  // compute |---------|         |----|
  // comm         |---------|                   |---------|
  // copy                   |----|    |----|         |---------|
  // graph                       |---------|                   |---| (to 105)
  DeviceTrace device = device_of_two_kinds();
  device.kernels = {kernel(0, 20), kernel(10, 30, true), kernel(40, 50), kernel(70, 90, true)};
  device.memory_operations = {
      {.start_ns = 30, .end_ns = 40}, {.start_ns = 50, .end_ns = 60}, {.start_ns = 80, .end_ns = 100}};
  device.graph_launches = {{.start_ns = 40, .end_ns = 60}, {.start_ns = 100, .end_ns = 105}};
  const Budget budget = compute_budget(device, communication_kinds);
  EXPECT_EQ(budget.window_start_ns, 0);
  EXPECT_EQ(budget.window_ns, 105);
  EXPECT_EQ(budget.compute_ns, 30);
  EXPECT_EQ(budget.communication_ns, 40);
  EXPECT_EQ(budget.overlapped_ns, 10);
  EXPECT_EQ(budget.exposed_communication_ns, 30);
  EXPECT_EQ(budget.copy_ns, 30);         // 30-40, 50-60, 90-100
  EXPECT_EQ(budget.opaque_graph_ns, 5);  // 100-105: the rest lies under kernels and copies
  EXPECT_EQ(budget.idle_ns, 10);         // 60-70
}

TEST(Budget, NoActivityIsAllZero) {
  const Budget budget = compute_budget({}, communication_kinds);
  EXPECT_EQ(budget.window_ns, 0);
  EXPECT_EQ(budget.idle_ns, 0);
}

TEST(Budget, ConcurrentKernelsCountOnce) {
  DeviceTrace device = device_of_two_kinds();
  device.kernels = {kernel(-100, 0), kernel(-100, 0), kernel(-50, 50)};
  const Budget budget = compute_budget(device, communication_kinds);
  EXPECT_EQ(budget.compute_ns, 150);
  EXPECT_EQ(budget.window_start_ns, -100);
}

/// Random activities within [0, length), sorted as those of a trace are.
template <class Event, class Events = std::vector<Event>, class Make>
Events random_events(std::mt19937_64& random, Nanoseconds length, const Make& make) {
  std::vector<Event> events;
  for (std::uint64_t left = random() % 30; left > 0; --left) {
    const auto start = static_cast<Nanoseconds>(random() % static_cast<std::uint64_t>(length));
    const auto end = std::min(length, start + static_cast<Nanoseconds>(random() % 40));
    events.push_back(make(start, end));
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
  });
  Events result;
  for (const Event& event : events) result.push_back(event);
  return result;
}

TEST(Budget, AgreesWithLookingAtEveryNanosecondOfRandomTraces) {
  constexpr Nanoseconds length = 600;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    DeviceTrace device = device_of_two_kinds();
    device.kernels = random_events<Kernel, Kernels>(
        random, length, [&](Nanoseconds start, Nanoseconds end) { return kernel(start, end, random() % 3 == 0); });
    device.memory_operations = random_events<MemoryOperation>(random, length, [](Nanoseconds start, Nanoseconds end) {
      return MemoryOperation{.start_ns = start, .end_ns = end};
    });
    device.graph_launches = random_events<GraphLaunch>(random, length, [](Nanoseconds start, Nanoseconds end) {
      return GraphLaunch{.start_ns = start, .end_ns = end};
    });
    Budget expected;
    Nanoseconds first = length, last = 0;
    for (Nanoseconds at = 0; at < length; ++at) {
      const auto runs = [&](const auto& event) { return event.start_ns <= at && at < event.end_ns; };
      const auto any = [&](const auto& events) { return std::any_of(events.begin(), events.end(), runs); };
      const auto any_kernel = [&](std::uint32_t kind) {
        return std::any_of(device.kernels.begin(), device.kernels.end(),
                           [&](const Kernel& k) { return k.kind == kind && runs(k); });
      };
      const bool compute = any_kernel(0), communication = any_kernel(1);
      expected.communication_ns += communication ? 1 : 0;
      expected.overlapped_ns += compute && communication ? 1 : 0;
      Nanoseconds nowhere = 0;
      ++(compute                         ? expected.compute_ns
         : communication                 ? expected.exposed_communication_ns
         : any(device.memory_operations) ? expected.copy_ns
         : any(device.graph_launches)    ? expected.opaque_graph_ns
                                         : nowhere);
    }
    const auto see = [&](const auto& events) {
      for (const auto& event : events) {
        first = std::min(first, event.start_ns);
        last = std::max(last, event.end_ns);
      }
    };
    see(device.kernels);
    see(device.memory_operations);
    see(device.graph_launches);
    const Budget b = compute_budget(device, communication_kinds);
    SCOPED_TRACE(seed);
    EXPECT_EQ(b.window_ns, std::max<Nanoseconds>(last - first, 0));
    EXPECT_EQ(b.compute_ns, expected.compute_ns);
    EXPECT_EQ(b.communication_ns, expected.communication_ns);
    EXPECT_EQ(b.overlapped_ns, expected.overlapped_ns);
    EXPECT_EQ(b.exposed_communication_ns, expected.exposed_communication_ns);
    EXPECT_EQ(b.copy_ns, expected.copy_ns);
    EXPECT_EQ(b.opaque_graph_ns, expected.opaque_graph_ns);
    EXPECT_EQ(b.idle_ns, b.window_ns - b.compute_ns - b.exposed_communication_ns - b.copy_ns - b.opaque_graph_ns);
  }
}

}  // namespace

}  // namespace nsys_explain::analysis
