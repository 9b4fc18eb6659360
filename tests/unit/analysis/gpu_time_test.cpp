#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

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

}  // namespace
}  // namespace nsys_explain::analysis
