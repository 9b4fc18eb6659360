#include <gtest/gtest.h>

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

constexpr Nanoseconds us = 1000, ms = 1'000'000;

TEST(CudaApi, NamesAsNsysWritesThem) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.call("cudaLaunchKernel", 0, 10, 1, 1, 7000);
  rank.call("cudaLaunchKernel", 20, 50, 2, 1, 7000);
  rank.call("cudaStreamIsCapturing", 60, 65, 3, 1, 10000);
  rank.call("cuGetProcAddress", 70, 73, 4, 1, 2);
  rank.call("cuGetProcAddress", 80, 81, 5, 1, 0);
  rank.call("cudaMalloc", 999'999'900, 1'000'000'000, 6, 1, 3020);
  const std::vector<Table> tables = api_tables(rank.events());
  const Table& api = table_of(tables, "cuda_api");
  EXPECT_EQ(texts(api, "name"), (Texts{"cudaMalloc", "cudaLaunchKernel", "cudaStreamIsCapturing_v10000",
                                       "cuGetProcAddress_v2", "cuGetProcAddress"}));
  EXPECT_EQ(integers(api, "total_ns"), (Integers{100, 40, 5, 3, 1}));
  EXPECT_EQ(integers(api, "count"), (Integers{1, 2, 1, 1, 1}));
  EXPECT_DOUBLE_EQ(reals(api, "share_percent")[1], 100.0 * 40 / 149);
  const Table& allocations = table_of(tables, "allocations");
  EXPECT_EQ(texts(allocations, "name"), (Texts{"cudaMalloc"}));
  EXPECT_EQ(integers(allocations, "in_window_ns"), (Integers{0})) << "the GPU was used only before";
  EXPECT_EQ(reals(allocations, "calls_per_second"), (Reals{1}));  // the span of all calls is one second
}

TEST(CudaApi, CallsOfAProcessWithTwoDevicesCountOnce) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.call("cudaDeviceSynchronize", 0, 10);
  const RankEvents first = rank.events();
  EXPECT_EQ(table_of(api_tables(first), "cuda_api").row_count(), 1);
  rank.process().devices.push_back(rank.process().devices[0]);
  const RankEvents second{first.trace, first.process, rank.process().devices[1], first.launches,
                          first.communication_kinds};
  EXPECT_EQ(table_of(api_tables(second), "cuda_api").row_count(), 0);
  EXPECT_EQ(barriers_table(second).row_count(), 0);
}

TEST(Launches, ApiQueueAndKernelTime) {
  OneRank rank;
  rank.call("cudaLaunchKernel", 100, 110, 1);
  rank.call("cudaLaunchKernel", 120, 150, 2);
  rank.call("cudaGraphLaunch", 200, 230, 3);
  rank.kernel("a", 115, 125, 1);  // queued 5; total 25
  rank.kernel("a", 140, 145, 2);  // started before the call returned; total is the call's 30
  rank.kernel("a", 240, 250, 3);  // two kernels of one graph launch
  rank.kernel("a", 250, 280, 3);
  rank.kernel("orphan", 300, 310, 99);
  const std::vector<Table> tables = launch_tables(rank.events());
  const Table& launches = table_of(tables, "kernel_launches");
  ASSERT_EQ(launches.row_count(), 2);
  EXPECT_EQ(texts(launches, "call"), (Texts{"cudaGraphLaunch", "cudaLaunchKernel"}));
  EXPECT_EQ(integers(launches, "total_sum_ns"), (Integers{50 + 80, 25 + 30}));
  EXPECT_EQ(integers(launches, "count"), (Integers{2, 2}));
  EXPECT_EQ(integers(launches, "queue_count"), (Integers{2, 1}));
  EXPECT_EQ(reals(launches, "queue_mean_ns"), (Reals{15, 5}));
  EXPECT_EQ(reals(launches, "api_mean_ns"), (Reals{30, 20}));
  EXPECT_EQ(integers(launches, "kernel_max_ns"), (Integers{30, 10}));
  const Table& latency = table_of(tables, "launch_latency");
  EXPECT_EQ(integers(latency, "lower_ns"), (Integers{14, 20, 40, 48}));
  EXPECT_EQ(integers(latency, "count"), (Integers{1, 1, 1, 1}));  // 15, 20, 40, 50
}

TEST(Launches, StormIsManyAndShort) {
  OneRank busy, calm, brief;
  for (int i = 0; i < 40; ++i) brief.kernel("k", i * 5 * us, i * 5 * us + 1 * us);  // 200,000 per second, for 200 us
  EXPECT_EQ(integers(table_of(launch_tables(brief.events()), "launch_storm"), "storm"), (Integers{0}));
  for (int i = 0; i < 1000; ++i) {
    busy.kernel("k", i * 10 * us, i * 10 * us + 4 * us);  // 100,000 per second
    calm.kernel("k", i * 100 * us, i * 100 * us + (i % 4 == 0 ? 15 * us : 40 * us));
  }
  const Table storm = table_of(launch_tables(busy.events()), "launch_storm");
  EXPECT_EQ(integers(storm, "storm"), (Integers{1}));
  EXPECT_NEAR(reals(storm, "launches_per_second")[0], 100'000, 100);
  EXPECT_EQ(reals(storm, "under_5us_percent"), (Reals{100}));
  OneRank small;
  for (int i = 0; i < 200; ++i) small.kernel("k", i * 2 * us, i * 2 * us + 1 * us);  // 200 kernels in 0.4 ms
  EXPECT_EQ(integers(table_of(launch_tables(small.events()), "launch_storm"), "storm"), (Integers{1}));
  const Table none = table_of(launch_tables(calm.events()), "launch_storm");
  EXPECT_EQ(integers(none, "storm"), (Integers{0}));
  EXPECT_EQ(reals(none, "under_20us_percent"), (Reals{25}));
  EXPECT_EQ(reals(none, "under_10us_percent"), (Reals{0}));
}

TEST(Barriers, KindsAndWhatIsNone) {
  OneRank rank;
  rank.call("cudaLaunchKernel", 0, 10 * us, 1, 1);
  rank.call("cudaLaunchKernel", 50 * us, 60 * us, 2, 1);    // 40 us after: no gap worth telling
  rank.call("cudaLaunchKernel", 170 * us, 180 * us, 3, 1);  // 110 us after
  rank.call("cudaLaunchKernel", 175 * us, 178 * us, 4, 2);  // another thread meanwhile
  rank.call("cudaStreamSynchronize", 200 * us, 900 * us, 5, 1);
  rank.call("cudaEventQuery", 900 * us, 901 * us, 6, 1);
  rank.call("cudaStreamWaitEvent", 901 * us, 902 * us, 7, 1);
  rank.call("cudaMemcpy", 902 * us, 950 * us, 8, 1);
  rank.call("cudaMemcpyAsync", 950 * us, 960 * us, 9, 1);
  const StringIndex poll = rank.text("poll");
  rank.process().os_calls = {{0, 7, 1, poll, false}, {1, 2, 1, poll, true}, {0, 900, 77, poll, false}};
  const Table table = barriers_table(rank.events());
  EXPECT_EQ(texts(table, "kind"), (Texts{"sync_api", "launcher_gap", "blocking_memcpy", "host_wait"}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{700 * us, 110 * us, 48 * us, 7}));
  EXPECT_EQ(integers(table, "count"), (Integers{1, 1, 1, 1})) << "nested calls and idle service threads do not count";
}

TEST(CallKinds, ByName) {
  for (const char* name : {"cudaMalloc", "cudaMallocAsync", "cuMemAllocHost", "cudaFree", "cudaEventCreateWithFlags",
                           "cudaGraphInstantiateWithFlags", "cudaHostAlloc", "cuMemMap"}) {
    EXPECT_TRUE(is_allocation_call(name)) << name;
  }
  for (const char* name : {"cudaFreeze", "cudaMemcpy", "cudaStreamSynchronize", "cudaEventRecord", "cuMemcpyDtoH"}) {
    EXPECT_FALSE(is_allocation_call(name)) << name;
  }
  for (const char* name : {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel", "cudaGraphLaunch"}) {
    EXPECT_TRUE(is_launch_call(name)) << name;
  }
  EXPECT_TRUE(is_sync_call("cuCtxSynchronize"));
  EXPECT_FALSE(is_sync_call("cudaStreamWaitEvent"));
  EXPECT_TRUE(is_blocking_copy_call("cuMemcpyHtoD"));
  EXPECT_FALSE(is_blocking_copy_call("cuMemcpyHtoDAsync"));
}

/// A rank on which every rule of nsys analyze has something to say, and something to be silent about.
TEST(ExpertRules, EachRuleByHand) {
  OneRank rank;
  rank.kernel("k", 0, 100 * ms);
  rank.copy(1, 100 * ms, 110 * ms, 1'000'000, 0, 2, 1);  // async, pageable: a case
  rank.call("cudaMemcpyAsync", 1, 2, 1);
  rank.copy(1, 110 * ms, 120 * ms, 1'000'000, 1, 2, 2);  // async, pinned: none
  rank.call("cudaMemcpyAsync", 3, 4, 2);
  rank.copy(1, 120 * ms, 121 * ms, 64'000, 0, 2, 3);  // synchronous but small: none
  rank.call("cudaMemcpy", 5, 6, 3);
  rank.copy(1, 121 * ms, 123 * ms, 64'001, 0, 2, 4);  // a case of 2 ms
  rank.call("cudaMemcpy", 7, 8, 4);
  rank.copy(8, 123 * ms, 124 * ms, 1'000'000, 2, 2, 5);  // within the device: none
  rank.call("cudaMemcpy", 9, 10, 5);
  rank.copy(2, 124 * ms, 128 * ms, 10, 2, 1, 6);  // to the host, however small: a case of 4 ms
  rank.call("cudaMemcpy", 11, 12, 6);
  rank.set(130 * ms, 131 * ms, 5, 1, 7);  // pinned: a case
  rank.call("cudaMemset", 13, 14, 7);
  rank.set(131 * ms, 132 * ms, 5, 2, 8);  // device memory: none
  rank.call("cudaMemset", 15, 16, 8);
  rank.call("cudaDeviceSynchronize", 20, 70, 9);
  rank.call("cudaEventSynchronize", 80, 90, 10);  // not in the rule
  rank.kernel("k", 640 * ms, 700 * ms);           // 508 ms after 132: a gap
  rank.kernel("k", 1300 * ms, 1500 * ms);         // 600 ms after 700, but the profiler took 150 of them: two short ones
  rank.process().overheads = {{800 * ms, 950 * ms, 1, 0, OverheadKind::buffer_flush, true}};
  const std::vector<Table> tables = expert_rule_tables(rank.events());
  const Table& rules = table_of(tables, "expert_rules");
  EXPECT_EQ(texts(rules, "rule"), (Texts{"cuda_memcpy_async", "cuda_memcpy_sync", "cuda_memset_sync", "cuda_api_sync",
                                         "gpu_gaps", "gpu_time_util"}));
  // Utilisation in parts of 50 ms: below half from 150 to 650 (the part from 600 holds 10) and from 700 to 1300 ms.
  EXPECT_EQ(integers(rules, "cases"), (Integers{1, 2, 1, 1, 1, 2}));
  EXPECT_EQ(integers(rules, "total_ns"), (Integers{10 * ms, 6 * ms, 1 * ms, 50, 508 * ms, 500 * ms + 600 * ms}));
  EXPECT_EQ(integers(rules, "bytes")[1], 64'011);
  const Table& cases = table_of(tables, "expert_rule_cases");
  EXPECT_EQ(texts(cases, "detail")[0], "cudaMemcpyAsync [CUDA memcpy Host-to-Device], Pageable to Device");
  EXPECT_EQ(integers(cases, "start_ns")[1], 124 * ms) << "longest first";
}

TEST(ExpertRules, ShownCasesAreTheLongest) {
  OneRank rank;
  rank.kernel("k", 0, 10);
  for (int i = 0; i < 500; ++i) rank.call("cudaDeviceSynchronize", i * 1000, i * 1000 + 1 + i * 37 % 500, 0);
  const std::vector<Table> tables = expert_rule_tables(rank.events());
  EXPECT_EQ(integers(table_of(tables, "expert_rules"), "cases")[3], 500);
  const Table& cases = table_of(tables, "expert_rule_cases");
  ASSERT_EQ(cases.row_count(), 50);
  for (std::size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(integers(cases, "duration_ns")[i], 500 - static_cast<std::int64_t>(i));  // 37 is prime to 500
  }
}

TEST(OsRuntime, NestedCallsCountInTheSumButNotInTheOutermost) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  const StringIndex poll = rank.text("poll"), read = rank.text("read");
  rank.process().os_calls = {{0, 100, 1, poll, false}, {10, 40, 1, read, true}, {200, 220, 1, poll, false}};
  const Table table = os_runtime_table(rank.events());
  EXPECT_EQ(texts(table, "name"), (Texts{"poll", "read"}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{120, 30}));
  EXPECT_EQ(integers(table, "outermost_ns"), (Integers{120, 0}));
  EXPECT_EQ(reals(table, "share_percent"), (Reals{80, 20}));
}

TEST(Overhead, OverlappingRowsOfOneThreadCountOnceInTheUnion) {
  OneRank rank;
  rank.kernel("k", 7, 38);
  const StringIndex flush = rank.text("flush"), full = rank.text("full");
  rank.process().overheads = {{0, 10, 1, flush, OverheadKind::buffer_flush, true},
                              {5, 20, 1, flush, OverheadKind::buffer_flush, true},
                              {5, 20, 2, flush, OverheadKind::buffer_flush, true},
                              {30, 40, 1, full, OverheadKind::command_buffer_full, false}};
  const Table table = overhead_table(rank.events());
  EXPECT_EQ(integers(table, "profiler"), (Integers{1, 0}));
  EXPECT_EQ(integers(table, "total_ns"), (Integers{40, 10}));
  EXPECT_EQ(integers(table, "union_ns"), (Integers{35, 10}));
  EXPECT_EQ(integers(table, "in_window_ns"), (Integers{(20 - 7) + (20 - 7), 8})) << "the window is from 7 to 38";
  EXPECT_EQ(texts(table, "kind"), (Texts{"buffer_flush", "command_buffer_full"}));
}

TEST(ThreadStates, TimeBetweenSwitches) {
  OneRank rank;
  rank.kernel("k", 0, 1);
  rank.process().scheduling_events = {{0, 1, 3, 0, 0, true},   {0, 2, 5, 0, 0, true},    {100, 1, 3, 2, 0, false},
                                      {130, 1, 4, 0, 0, true}, {180, 1, 4, 0, 0, false}, {1000, 1, 4, 0, 0, true}};
  const Table table = thread_states_table(rank.events());
  EXPECT_EQ(integers(table, "thread"), (Integers{1, 1, 1}));
  EXPECT_EQ(texts(table, "state"), (Texts{"interruptible", "on_cpu", "unknown"}));
  EXPECT_EQ(integers(table, "duration_ns"), (Integers{30, 150, 820}));
  EXPECT_EQ(integers(table, "switches"), (Integers{3, 3, 3}));
  EXPECT_EQ(integers(table, "migrations"), (Integers{1, 1, 1}));
}

}  // namespace
}  // namespace nsys_explain::analysis
