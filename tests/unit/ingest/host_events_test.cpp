#include "ingest/event_readers.hpp"

#include <gmock/gmock.h>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::pid_100;
using testing::pid_200;
using testing::text_of;
using testing::tid_101;
using testing::tid_201;

/// An export with one kernel of process 100; process 200 has no CUDA and no NVTX events.
class HostEventsTest : public testing::ScratchTest {
 protected:
  HostEventsTest() : sql_(file()) {
    testing::add_basics(sql_);
    testing::add_kernel_table(sql_);
    sql_(
        "INSERT INTO StringIds VALUES (1, 'k'), (2, 'poll'), (3, 'CUPTI: Buffer flush'), (4, 'Lazy Function Loading'),"
        "(5, 'CUDA profiling initialization')");
    testing::add_kernel(sql_, {.start = 100, .end = 200, .name = 1});
  }
  Trace read() { return read_trace(file()); }

  testing::Writer sql_;
};

TEST_F(HostEventsTest, NothingRecordedIsNothingRead) {
  const ProcessTrace process = read().processes.at(0);
  EXPECT_TRUE(process.os_calls.empty());
  EXPECT_TRUE(process.overheads.empty());
  EXPECT_TRUE(process.scheduling_events.empty());
  EXPECT_TRUE(process.synchronizations.empty());
  EXPECT_TRUE(process.event_records.empty());
  EXPECT_TRUE(process.memory_events.empty());
}

TEST_F(HostEventsTest, OsCallsSortedWithNestingAndOnlyOfKnownProcesses) {
  sql_("CREATE TABLE OSRT_API (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, nestingLevel INTEGER)");
  sql_("INSERT INTO OSRT_API VALUES (300, 400, " + text_of(tid_101) + ", 2, 1), (250, 500, " + text_of(tid_101) +
       ", 2, 0), (10, 20, " + text_of(tid_101) + ", 2, NULL), (10, 20, " + text_of(tid_201) + ", 2, 0)");
  const Trace trace = read();
  ASSERT_EQ(trace.processes.size(), 1) << "a process without CUDA or NVTX is none of the trace's";
  const auto& calls = trace.processes[0].os_calls;
  ASSERT_EQ(calls.size(), 3);
  EXPECT_EQ(calls[0].start_ns, 10);
  EXPECT_FALSE(calls[0].is_nested);
  EXPECT_EQ(calls[1].end_ns, 500);
  EXPECT_FALSE(calls[1].is_nested);
  EXPECT_TRUE(calls[2].is_nested);
  EXPECT_EQ(calls[2].thread_id, 101);
  EXPECT_EQ(trace.strings[calls[2].name], "poll");
}

TEST_F(HostEventsTest, MpiCallsAreThoseThatWaitForOthersOrBeginAMessage) {
  sql_(
      "INSERT INTO StringIds VALUES (11, 'MPI_Reduce'), (12, 'MPI_Iallreduce'), (13, 'MPI_Isend'), (14, 'MPI_Recv'),"
      "(15, 'MPI_Waitall'), (16, 'MPI_Start'), (17, 'MPI_Comm_rank'), (18, 'MPI_Bcast_init')");
  const std::string times = "start INTEGER, end INTEGER, globalTid INTEGER, textId INTEGER";
  sql_("CREATE TABLE MPI_COLLECTIVES_EVENTS (" + times +
       ", commHandle INTEGER, commUid INTEGER, rootRank INTEGER, size INTEGER, recvSize INTEGER)");
  sql_("CREATE TABLE MPI_P2P_EVENTS (" + times +
       ", commHandle INTEGER, remoteRank INTEGER, size INTEGER, tag INTEGER, requestHandle INTEGER)");
  sql_("CREATE TABLE MPI_START_WAIT_EVENTS (" + times + ", requestHandle INTEGER)");
  sql_("CREATE TABLE MPI_OTHER_EVENTS (" + times + ")");
  const std::string tid = text_of(tid_101);
  sql_("INSERT INTO MPI_COLLECTIVES_EVENTS VALUES (300, 400, " + tid + ", 11, 55, 66, 2, NULL, 8), (500, 510, " + tid +
       ", 12, 55, 66, NULL, 8, 8), (520, 530, " + tid + ", 18, 55, 66, NULL, 8, 8)");
  sql_("INSERT INTO MPI_P2P_EVENTS VALUES (600, 610, " + tid + ", 13, 55, 1, 64, 9, 77), (200, 250, " + tid +
       ", 14, 55, 1, 64, 9, NULL), (10, 20, " + text_of(tid_201) + ", 14, 55, 1, 64, 9, NULL)");
  sql_("INSERT INTO MPI_START_WAIT_EVENTS VALUES (700, 800, " + tid + ", 15, 77), (650, 660, " + tid + ", 16, 77)");
  sql_("INSERT INTO MPI_OTHER_EVENTS VALUES (900, 910, " + tid + ", 17)");
  const Trace trace = read();
  ASSERT_EQ(trace.processes.size(), 1) << "a process that calls MPI alone is none of the trace's";
  const std::vector<MpiCall>& calls = trace.processes[0].mpi_calls;
  ASSERT_EQ(calls.size(), 5);
  EXPECT_EQ(trace.strings[calls[0].name], "MPI_Recv");
  EXPECT_EQ(calls[0].communicator, 0);
  EXPECT_EQ(calls[0].bytes, 64);
  EXPECT_EQ(calls[0].root, 1) << "its peer";
  EXPECT_EQ(calls[0].tag, 9);
  EXPECT_EQ(trace.strings[calls[1].name], "MPI_Reduce");
  EXPECT_EQ(calls[1].start_ns, 300);
  EXPECT_EQ(calls[1].end_ns, 400);
  EXPECT_EQ(calls[1].communicator, 66);
  EXPECT_EQ(calls[1].handle, 55);
  EXPECT_EQ(calls[1].root, 2);
  EXPECT_EQ(calls[1].bytes, 8);
  EXPECT_EQ(calls[1].thread_id, 101);
  EXPECT_EQ(trace.strings[calls[2].name], "MPI_Isend");
  EXPECT_EQ(calls[2].request, 77);
  EXPECT_EQ(trace.strings[calls[3].name], "MPI_Start");
  EXPECT_EQ(calls[3].request, 77);
  EXPECT_EQ(trace.strings[calls[4].name], "MPI_Waitall");
  EXPECT_EQ(calls[4].request, 77);
  EXPECT_EQ(trace.processes[0].nvtx_ranges.size(), 8) << "all of them are ranges";
}

TEST_F(HostEventsTest, OverheadOfBothTablesTellsProfilerFromCuda) {
  sql_(
      "CREATE TABLE PROFILER_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, returnValue "
      "INTEGER)");
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INTEGER, end INTEGER, globalTid INTEGER, nameId INTEGER, "
      "overheadType INTEGER)");
  sql_("INSERT INTO PROFILER_OVERHEAD VALUES (1, 5, " + text_of(tid_101) + ", 3, 0), (2, 9, " + text_of(tid_101) +
       ", 5, 0)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (30, 40, " + text_of(tid_101) + ", 4, 7), (50, 90, " +
       text_of(tid_101) + ", 4, 8)");
  const ProcessTrace process = read().processes.at(0);
  ASSERT_EQ(process.overheads.size(), 4);
  EXPECT_EQ(process.overheads[0].kind, OverheadKind::buffer_flush) << "told by the name before nsys 2025.5";
  EXPECT_EQ(process.overheads[1].kind, OverheadKind::undefined);
  EXPECT_TRUE(process.overheads[1].is_profiler);
  EXPECT_EQ(process.overheads[2].kind, OverheadKind::lazy_function_loading);
  EXPECT_FALSE(process.overheads[2].is_profiler);
  EXPECT_EQ(process.overheads[3].kind, OverheadKind::command_buffer_full);
  EXPECT_EQ(process.overheads[3].end_ns, 90);
}

TEST_F(HostEventsTest, SchedulingWithAndWithoutTheStateColumns) {
  sql_("CREATE TABLE SCHED_EVENTS (start INTEGER, cpu INTEGER, isSchedIn INTEGER, globalTid INTEGER)");
  sql_("INSERT INTO SCHED_EVENTS VALUES (70, 3, 0, " + text_of(tid_101) + "), (20, 2, 1, " + text_of(tid_101) + ")");
  const ProcessTrace process = read().processes.at(0);
  ASSERT_EQ(process.scheduling_events.size(), 2);
  EXPECT_EQ(process.scheduling_events[0].time_ns, 20);
  EXPECT_TRUE(process.scheduling_events[0].on_cpu);
  EXPECT_EQ(process.scheduling_events[0].cpu, 2);
  EXPECT_FALSE(process.scheduling_events[1].on_cpu);
  EXPECT_EQ(process.scheduling_events[1].thread_state, 0);
}

TEST_F(HostEventsTest, SynchronizationEventsAndMemory) {
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, contextId INTEGER, streamId "
      "INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (50, 60, 1, 4294967295, 9, " + text_of(pid_100) +
       ", 1, 4294967295, 0), (10, 11, 1, 7, 8, " + text_of(pid_100) + ", 2, 5, 77), (10, 11, 1, 7, 8, " +
       text_of(pid_200) + ", 2, 5, 77), (80, 90, 1, 7, 10, " + text_of(pid_100) + ", 99, 5, 4294967295)");
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (contextId INTEGER, streamId INTEGER, correlationId INTEGER, "
      "globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (1, 13, 6, " + text_of(pid_100) + ", 5, 77)");
  sql_(
      "CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INTEGER, globalPid INTEGER, deviceId INTEGER, bytes INTEGER, "
      "memKind INTEGER, memoryOperationType INTEGER)");
  sql_("INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (20, " + text_of(pid_100) + ", 0, 512, 2, 1), (5, " +
       text_of(pid_100) + ", 0, 512, 2, 0)");
  const ProcessTrace process = read().processes.at(0);
  ASSERT_EQ(process.synchronizations.size(), 3);
  EXPECT_EQ(process.synchronizations[0].kind, SyncKind::stream_wait_event);
  EXPECT_EQ(process.synchronizations[0].event_sync_id, 77);
  EXPECT_EQ(process.synchronizations[1].kind, SyncKind::event);
  EXPECT_EQ(process.synchronizations[1].stream_id, no_stream);
  EXPECT_EQ(process.synchronizations[1].event_id, 0) << "none";
  EXPECT_EQ(process.synchronizations[2].kind, SyncKind::unknown) << "a number that nsys does not define";
  EXPECT_EQ(process.synchronizations[2].event_sync_id, 0) << "none";
  ASSERT_EQ(process.event_records.size(), 1);
  EXPECT_EQ(process.event_records[0].stream_id, 13);
  EXPECT_EQ(process.event_records[0].event_sync_id, 77);
  ASSERT_EQ(process.memory_events.size(), 2);
  EXPECT_FALSE(process.memory_events[0].is_release);
  EXPECT_TRUE(process.memory_events[1].is_release);
  EXPECT_EQ(process.memory_events[1].bytes, 512);
}

TEST_F(HostEventsTest, ApiNamesKeepTheVersionBeside) {
  testing::add_runtime_table(sql_);
  sql_(
      "INSERT INTO StringIds VALUES (6, 'cudaLaunchKernel_v7000'), (7, 'cuInit'), (8, "
      "'cudaGetDeviceProperties_v2_v12000')");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, " + text_of(tid_101) + ", 1, 6, 0), (3, 4, 0, " +
       text_of(tid_101) + ", 2, 7, 100000), (5, 6, 0, " + text_of(tid_101) + ", 3, 8, 0)");
  const Trace trace = read();
  const auto& calls = trace.processes.at(0).api_calls;
  ASSERT_EQ(calls.size(), 3);
  EXPECT_EQ(calls[0].name_version, 7000);
  EXPECT_EQ(calls[1].name_version, 0);
  EXPECT_NE(calls[1].return_value, 0) << "an error code too large to keep must not become success";
  EXPECT_EQ(trace.strings[calls[2].name], "cudaGetDeviceProperties_v2");
  EXPECT_EQ(calls[2].name_version, 12000);
}

}  // namespace
}  // namespace nsys_explain::ingest
