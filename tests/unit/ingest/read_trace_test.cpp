#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <random>

#include "ingest/row_filters.hpp"
#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::add_basics;
using testing::add_kernel;
using testing::add_kernel_table;
using testing::add_runtime_table;
using ::testing::ElementsAre;
using testing::error_of;
using testing::has_warning;
using ::testing::HasSubstr;
using testing::pid_100;
using testing::pid_200;
using testing::text_of;
using testing::tid_101;
using testing::Writer;

class ReadTraceTest : public testing::ScratchTest {
 protected:
  ReadTraceTest() : sql_(file()) {}
  Trace read() { return read_trace(file()); }

  Writer sql_;
};

std::vector<Nanoseconds> starts(const Kernels& kernels) {
  std::vector<Nanoseconds> result;
  for (const Kernel& kernel : kernels) result.push_back(kernel.start_ns);
  return result;
}

TEST_F(ReadTraceTest, KernelsAreSortedByTimeWithinTheirProcessAndDevice) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_("INSERT INTO StringIds VALUES (7, 'gemm'), (9, 'void gemm<float>(float*)')");
  add_kernel(sql_, {.start = 300, .end = 400, .name = 7, .global_pid = pid_200});
  add_kernel(sql_, {.start = 300, .end = 350, .device = 1, .name = 7});
  add_kernel(sql_, {.start = 100, .end = 120, .device = 1, .stream = 13, .correlation = 5, .name = 7});
  add_kernel(sql_, {.start = 100, .end = 110, .device = 1, .name = 7});
  add_kernel(sql_, {.start = -50, .end = -40, .name = 7});
  sql_(
      "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 9, graphNodeId = 77, dynamicSharedMemory = 1024 "
      "WHERE correlationId = 5");
  const Trace trace = read();
  EXPECT_TRUE(trace.has_kernel_table);
  ASSERT_EQ(trace.processes.size(), 2);
  EXPECT_EQ(trace.processes[0].global_pid, pid_100);
  EXPECT_EQ(trace.processes[0].process_id, 100);
  EXPECT_EQ(trace.processes[1].process_id, 200);
  ASSERT_EQ(trace.processes[0].devices.size(), 2);
  EXPECT_EQ(trace.processes[0].devices[1].device_id, 1);
  EXPECT_THAT(starts(trace.processes[0].devices[0].kernels), ElementsAre(-50));
  EXPECT_THAT(starts(trace.processes[0].devices[1].kernels), ElementsAre(100, 100, 300));
  const Kernel& kernel = trace.processes[0].devices[1].kernels[1];
  const KernelKind& kind = trace.processes[0].devices[1].kind_of(kernel);
  EXPECT_EQ(kernel.end_ns, 120) << "equal starts are ordered by end";
  EXPECT_EQ(kind.stream_id, 13);
  EXPECT_EQ(kernel.correlation_id, 5);
  EXPECT_EQ(kind.context_id, 1);
  EXPECT_EQ(kind.graph_node_id, 77);
  EXPECT_EQ(trace.strings[kind.short_name], "gemm");
  EXPECT_EQ(trace.strings[kind.demangled_name], "void gemm<float>(float*)");
  EXPECT_EQ(trace.strings[kind.mangled_name], "");
  EXPECT_EQ(kind.registers_per_thread, 32);
  EXPECT_EQ(kind.grid_x, 1);
  EXPECT_EQ(kind.grid_z, 3);
  EXPECT_EQ(kind.block_z, 6);
  EXPECT_EQ(kind.static_shared_bytes, 0);
  EXPECT_EQ(kind.dynamic_shared_bytes, 1024);
}

TEST_F(ReadTraceTest, ApiCallsLoseTheirVersionSuffixAndKernelsWithoutOneAreCounted) {
  add_basics(sql_);
  add_kernel_table(sql_);
  add_runtime_table(sql_);
  sql_("INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaLaunchKernel_v7000'), (3, 'cuLaunchKernelEx'), (4, 'a_vb')");
  const auto call = [&](std::int64_t start, std::int64_t end, int correlation, int name, std::int64_t tid) {
    sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + text_of(start) + "," + text_of(end) + ", 0, " +
         text_of(tid) + "," + text_of(correlation) + "," + text_of(name) + ", 600)");
  };
  call(50, 60, 12, 3, tid_101);
  call(10, 20, 11, 2, tid_101);
  call(70, 70, 13, 4, tid_101);
  call(10, 20, 21, 2, testing::tid_201);
  add_kernel(sql_, {.start = 15, .end = 30, .correlation = 11, .name = 1});
  add_kernel(sql_, {.start = 31, .end = 40, .correlation = 11, .name = 1});  // a second one of the same launch
  add_kernel(sql_, {.start = 41, .end = 50, .correlation = 21, .name = 1});  // that call is another process's
  add_kernel(sql_, {.start = 51, .end = 60, .correlation = 0, .name = 1});
  const Trace trace = read();
  const auto& calls = trace.processes.at(0).api_calls;
  ASSERT_EQ(calls.size(), 3);
  EXPECT_EQ(trace.strings[calls[0].name], "cudaLaunchKernel");
  EXPECT_EQ(calls[0].start_ns, 10);
  EXPECT_EQ(calls[0].end_ns, 20);
  EXPECT_EQ(calls[0].thread_id, 101);
  EXPECT_EQ(calls[0].correlation_id, 11);
  EXPECT_EQ(calls[0].return_value, 600);
  EXPECT_EQ(trace.strings[calls[1].name], "cuLaunchKernelEx");
  EXPECT_EQ(trace.strings[calls[2].name], "a_vb");
  EXPECT_EQ(trace.processes[0].devices.at(0).kernels.size(), 4) << "without_call are kept";
  EXPECT_TRUE(has_warning(trace, "no launching API call", 2));
}

TEST_F(ReadTraceTest, KernelsOfNoProcessThatMakesCallsAreWarnedOf) {
  add_basics(sql_);
  testing::add_kernel_table(sql_);
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, "
      "correlationId INTEGER, nameId INTEGER, returnValue INTEGER)");
  sql_("INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaLaunchKernel_v7000')");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 20, 0, " + text_of(tid_101) + ", 11, 2, 0)");
  for (const std::int64_t pid : {std::int64_t{0}, testing::pid_200}) {
    sql_("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL");
    add_kernel(sql_, {.start = 15, .end = 30, .correlation = 11, .name = 1, .global_pid = pid});
    EXPECT_TRUE(has_warning(read(), "no process has both kernels and CUDA calls", 1)) << pid;
  }
  sql_("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL");
  add_kernel(sql_, {.start = 15, .end = 30, .correlation = 11, .name = 1});
  EXPECT_FALSE(has_warning(read(), "no process has both kernels and CUDA calls", 1));
}

TEST_F(ReadTraceTest, SizesThatCannotBeTrueCountNothing) {
  add_basics(sql_);
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER)");
  const std::string pid = text_of(pid_100);
  int start = 100;
  for (const char* bytes : {"4096", "-8", "9223372036854775800", "NULL", "4398046511104"}) {
    sql_("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (" + std::to_string(start) + ", " + std::to_string(start + 5) +
         ", 0, 1, 7, 3, " + pid + ", " + bytes + ", 1)");
    start += 10;
  }
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (9223372036854775800, 9223372036854775807, 0, 1, 7, 3, " + pid +
       ", 1, 1)");
  const Trace trace = read();
  std::vector<std::int64_t> sizes;
  for (const MemoryOperation& copy : trace.processes.at(0).devices.at(0).memory_operations) sizes.push_back(copy.bytes);
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{4096, 0, 0, 0, 4398046511104}));
  EXPECT_TRUE(has_warning(trace, "a size that cannot be true", 2));
  EXPECT_TRUE(has_warning(trace, "have no time or one that cannot be true", 1));
}

TEST(SizeFilter, WhatItLetsThroughAddsUp) {
  SizeFilter sizes("T");
  std::uint64_t sum = 0;
  for (int row = 0; row < (1 << 19); ++row) sum += static_cast<std::uint64_t>(sizes.accept(most_bytes_at_once));
  EXPECT_EQ(sum, std::uint64_t{1} << 60);
  std::vector<Warning> warnings;
  sizes.report(warnings);
  ASSERT_EQ(warnings.size(), 1);
  EXPECT_EQ(warnings[0].count, 1 << 18);
}

TEST_F(ReadTraceTest, CopiesSetsAndGraphs) {
  add_basics(sql_);
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER,dstKind INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value INTEGER, bytes INTEGER, memKind INTEGER);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,"
      "streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);"
      "CREATE TABLE CUDA_GRAPH_NODE_EVENTS (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,"
      "nameId INTEGER, graphNodeId INTEGER, originalGraphNodeId INTEGER)");
  const std::string pid = text_of(pid_100);
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (200, 210, 0, 1, 7, 3, " + pid + ", 4096, 10, 2, NULL)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (100, 110, 0, 1, 7, 4, " + pid + ", 0, 64, 2)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (300, 310, 0, 1, 13, 5, " + pid + ", 8, 9)");
  sql_("INSERT INTO CUDA_GRAPH_NODE_EVENTS VALUES (60, 60, 77, " + pid +
       " + 101, 1, 8589934593, 4294967297),(50, 50, 77, " + pid +
       " + 101, 1, 4294967297, NULL), (51, 51, 77, 77, 1, 1, NULL)");
  const Trace trace = read();
  EXPECT_FALSE(trace.has_kernel_table);
  EXPECT_TRUE(has_warning(trace, "--cuda-graph-trace=node"));
  const std::vector<GraphNode>& nodes = trace.processes.at(0).graph_nodes;
  ASSERT_EQ(nodes.size(), 2) << "those of other processes are not of the trace";
  EXPECT_EQ(nodes[0].node_id, 4294967297U);
  EXPECT_EQ(nodes[0].original_id, 0U);
  EXPECT_EQ(nodes[0].created_ns, 50);
  EXPECT_EQ(nodes[0].thread_id, 101U);
  EXPECT_EQ(nodes[1].node_id, 8589934593U);
  EXPECT_EQ(nodes[1].original_id, 4294967297U);
  const DeviceTrace& device = trace.processes.at(0).devices.at(0);
  ASSERT_EQ(device.memory_operations.size(), 2);
  const MemoryOperation& set = device.memory_operations[0];
  EXPECT_TRUE(set.is_set);
  EXPECT_EQ(set.start_ns, 100);
  EXPECT_EQ(set.bytes, 64);
  EXPECT_EQ(set.copy_kind, -1);
  EXPECT_EQ(set.source_kind, -1);
  EXPECT_EQ(set.destination_kind, 2);
  const MemoryOperation& copy = device.memory_operations[1];
  EXPECT_FALSE(copy.is_set);
  EXPECT_EQ(copy.bytes, 4096);
  EXPECT_EQ(copy.copy_kind, 10);
  EXPECT_EQ(copy.source_kind, 2);
  EXPECT_EQ(copy.destination_kind, -1);
  ASSERT_EQ(device.graph_launches.size(), 1);
  EXPECT_EQ(device.graph_launches[0].graph_id, 8);
  EXPECT_EQ(device.graph_launches[0].graph_exec_id, 9);
  EXPECT_EQ(device.graph_launches[0].stream_id, 13);
}

TEST_F(ReadTraceTest, TheColumnsOf2022AndThoseThatAToolAddedAreNoProblem) {
  sql_(
      "CREATE TABLE EXPORT_META_DATA (name TEXT, value TEXT);"
      "INSERT INTO EXPORT_META_DATA VALUES ('EXPORT_SCHEMA_VERSION', '2.9.1'), ('EXPORT_PRODUCT_VERSION', '2022.1.3');"
      "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);"
      "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1600000000000000000, '', '');"
      "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT); INSERT INTO StringIds VALUES (1, 'k');"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (kernel_name TEXT, end INTEGER, start INTEGER, deviceId INTEGER,"
      "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER,shortName INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('added', 20, 10, 0, 1, 7, 1, " +
      text_of(pid_100) + ", 1, 1)");
  const Trace trace = read();
  EXPECT_EQ(trace.session.nsys_version, "2022.1.3");
  EXPECT_EQ(trace.session.utc_start_ns, 1600000000000000000);
  EXPECT_EQ(trace.session.system_clock_ns, no_time);
  const Kernel& kernel = trace.processes.at(0).devices.at(0).kernels.at(0);
  EXPECT_EQ(kernel.start_ns, 10);
  EXPECT_EQ(kernel.end_ns, 20);
  EXPECT_EQ(trace.processes.at(0).devices.at(0).kind_of(kernel).grid_x, 0);
}

TEST_F(ReadTraceTest, NamesAreMendedAndMissingOnesCounted) {
  add_basics(sql_);
  add_kernel_table(sql_);
  // 0xE9 is é in Latin-1; the second is valid UTF-8; the third is an overlong slash.
  sql_("INSERT INTO StringIds VALUES (1, CAST(x'6be965' AS TEXT)), (2, 'k\xC3\xA9'), (3, CAST(x'c0af' AS TEXT))");
  for (const int name : {1, 2, 3, 4}) add_kernel(sql_, {.start = name, .end = 10, .name = name});
  const Trace trace = read();
  const DeviceTrace& device = trace.processes.at(0).devices.at(0);
  const auto name = [&](std::size_t i) { return trace.strings[device.kind_of(device.kernels.at(i)).short_name]; };
  EXPECT_EQ(name(0),
            "k\xEF\xBF\xBD"
            "e");
  EXPECT_EQ(name(1), "k\xC3\xA9");
  EXPECT_EQ(name(2), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(name(3), "");
  EXPECT_TRUE(has_warning(trace, "not valid UTF-8", 2));
  EXPECT_TRUE(has_warning(trace, "strings that the export does not hold"));
}

TEST_F(ReadTraceTest, StringsAreDenseAndOnlyThoseInUse) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_("INSERT INTO StringIds VALUES (5, 'captured output of the program'), (1000000, 'kernel'), (-3, 'negative id')");
  add_kernel(sql_, {.start = 1, .end = 2, .name = 1000000});
  add_kernel(sql_, {.start = 3, .end = 4, .name = -3});
  add_kernel(sql_, {.start = 5, .end = 6, .name = 1000000});
  EXPECT_THAT(read().strings, ElementsAre("", "kernel", "negative id"));
}

TEST_F(ReadTraceTest, RowsThatCannotBeTrueAreLeftOutAndCounted) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_(
      "INSERT INTO StringIds VALUES (1, 'k');"
      "CREATE TABLE ANALYSIS_DETAILS (globalVid, duration, startTime, stopTime);"
      "INSERT INTO ANALYSIS_DETAILS VALUES (1, 1000000000, 0, 1000000000)");
  constexpr std::int64_t year = 31'557'600'000'000'000;
  for (int i = 0; i < 10; ++i) add_kernel(sql_, {.start = i, .end = i + 1, .name = 1});
  add_kernel(sql_, {.start = 20, .end = 19, .name = 1});
  add_kernel(sql_, {.start = 11 * year, .end = 11 * year + 1, .name = 1});
  add_kernel(sql_, {.start = -11 * year, .end = 0, .name = 1});
  add_kernel(sql_, {.start = 0, .end = 120'000'000'000, .name = 1});  // 120 times the capture
  add_kernel(sql_, {.start = 0, .end = 50'000'000'000, .name = 1});   // long, but less than a minute
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).devices.at(0).kernels.size(), 11);
  EXPECT_TRUE(has_warning(trace, "CUPTI_ACTIVITY_KIND_KERNEL end before they start", 1));
  EXPECT_TRUE(has_warning(trace, "cannot be true", 3));
}

TEST_F(ReadTraceTest, ATraceOfAbsurdTimesIsRefused) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_("INSERT INTO StringIds VALUES (1, 'k')");
  add_kernel(sql_, {.start = 0, .end = 1, .name = 1});
  add_kernel(sql_, {.start = 1'700'000'000'000'000'000, .end = 1'700'000'000'000'000'001, .name = 1});
  add_kernel(sql_, {.start = 9'223'372'036'854'775'807, .end = 9'223'372'036'854'775'807, .name = 1});
  EXPECT_THAT(error_of(file()), HasSubstr("times that cannot be true"));
}

TEST_F(ReadTraceTest, UtcTimesAndShiftsAreTakenOffAgain) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_(
      "INSERT INTO StringIds VALUES (1, 'k');"
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIME_NORMALIZE', 'true'),"
      "('EXPORT_PARAM_TIME_SHIFT', '1000'), ('EXPORT_CONFIG_TIME_SHIFT', '1000')");
  add_kernel(sql_, {.start = 1700000000000001250, .end = 1700000000000001300, .name = 1});
  const Trace trace = read();
  const Kernel& kernel = trace.processes.at(0).devices.at(0).kernels.at(0);
  EXPECT_EQ(kernel.start_ns, 250);
  EXPECT_EQ(kernel.end_ns, 300);
  EXPECT_EQ(trace.session.utc_start_ns + kernel.start_ns, 1700000000000000250) << "UTC without the shift";
  EXPECT_EQ(trace.session.system_clock_ns, 5'000'000'000);
  EXPECT_TRUE(has_warning(trace, "time shift of 1000 ns"));
}

TEST_F(ReadTraceTest, UtcTimesWithoutASessionStartStayUtc) {
  add_basics(sql_);
  add_kernel_table(sql_);
  sql_(
      "DELETE FROM TARGET_INFO_SESSION_START_TIME; INSERT INTO StringIds VALUES (1, 'k');"
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIME_NORMALIZE', 'true')");
  add_kernel(sql_, {.start = 1700000000000001250, .end = 1700000000000001300, .name = 1});
  const Trace trace = read();
  EXPECT_EQ(trace.session.utc_start_ns, 0);
  EXPECT_EQ(trace.processes.at(0).devices.at(0).kernels.at(0).start_ns, 1700000000000001250);
}

TEST_F(ReadTraceTest, ASessionStartThatIsMissingOrAbsurdIsNotUsed) {
  add_basics(sql_);
  sql_("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = 12345");
  const Trace absurd = read();
  EXPECT_EQ(absurd.session.utc_start_ns, no_time);
  EXPECT_TRUE(has_warning(absurd, "does not tell when the session started"));
  sql_("DROP TABLE TARGET_INFO_SESSION_START_TIME");
  EXPECT_EQ(read().session.utc_start_ns, no_time);
}

TEST_F(ReadTraceTest, OfSeveralSessionStartsTheEarliestCounts) {
  add_basics(sql_);
  sql_("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1600000000000000000, '', '', 77)");
  const Trace trace = read();
  EXPECT_EQ(trace.session.utc_start_ns, 1600000000000000000);
  EXPECT_EQ(trace.session.system_clock_ns, 77);
  EXPECT_TRUE(has_warning(trace, "several session starts"));
}

TEST_F(ReadTraceTest, NoKernelTableAndEmptyTablesAreATraceWithAdvice) {
  add_basics(sql_);
  const Trace without = read();
  EXPECT_FALSE(without.has_kernel_table);
  EXPECT_TRUE(without.processes.empty());
  EXPECT_TRUE(has_warning(without, "it has no kernel table"));
  EXPECT_TRUE(has_warning(without, "nsys profile -t cuda,nvtx"));
  add_kernel_table(sql_);
  add_runtime_table(sql_);
  testing::add_nvtx_table(sql_);
  const Trace empty = read();
  EXPECT_TRUE(empty.has_kernel_table);
  EXPECT_TRUE(has_warning(empty, "its kernel table is empty"));
}

TEST_F(ReadTraceTest, DatabasesThatAreNotExportsAreRefused) {
  sql_("CREATE TABLE Recipes (a)");
  EXPECT_THAT(error_of(file()), HasSubstr("not an export of Nsight Systems"));
}

TEST_F(ReadTraceTest, WithoutMetadataAndSessionStartTimesStandAlone) {
  sql_("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  add_kernel_table(sql_);
  EXPECT_TRUE(has_warning(read(), "does not tell when the session started"));
}

TEST_F(ReadTraceTest, ShortNamesFollowFromLongOnes) {
  sql_("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  sql_("INSERT INTO StringIds VALUES (1, 'void at::native::gemm<float, 2>(int, float)'), (2, 'plainKernel')");
  sql_("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, streamId INT, demangledName INT)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 100, 0, 7, 1), (200, 300, 0, 7, 2)");
  const Trace trace = read();
  const DeviceTrace& device = trace.processes.at(0).devices.at(0);
  ASSERT_EQ(device.kernels.size(), 2U);
  EXPECT_EQ(trace.strings[device.kind_of(device.kernels[0]).short_name], "gemm");
  EXPECT_EQ(trace.strings[device.kind_of(device.kernels[1]).short_name], "plainKernel");
}

TEST_F(ReadTraceTest, RowsWithoutAProcessGoToTheOnlyOneOrToNobody) {
  sql_("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  sql_("INSERT INTO StringIds VALUES (1, 'gemm')");
  sql_("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, globalPid INT, demangledName INT)");
  sql_("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, bytes INT, copyKind INT)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 100, 0, 111 * 16777216, 1)");
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100, 200, 0, 4096, 1)");
  const Trace alone = read();
  ASSERT_EQ(alone.processes.size(), 1U);
  EXPECT_EQ(alone.processes[0].devices.at(0).memory_operations.size(), 1U);
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 100, 0, 222 * 16777216, 1)");
  const Trace two = read();
  ASSERT_EQ(two.processes.size(), 2U);
  for (const ProcessTrace& process : two.processes) EXPECT_TRUE(process.devices.at(0).memory_operations.empty());
  EXPECT_TRUE(has_warning(two, "do not tell their process"));
}

TEST_F(ReadTraceTest, UnknownSchemaVersionsAreRefused) {
  add_basics(sql_, "4");
  EXPECT_THAT(error_of(file()), HasSubstr("schema version 4"));
}

TEST_F(ReadTraceTest, AKernelTableWithoutAColumnItNeedsIsRefused) {
  add_basics(sql_);
  sql_("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER)");
  EXPECT_THAT(error_of(file()), HasSubstr("CUPTI_ACTIVITY_KIND_KERNEL has no column deviceId"));
}

TEST_F(ReadTraceTest, WarningsOfNsysAreShownOnceWithTheirCount) {
  add_basics(sql_);
  sql_(
      "CREATE TABLE DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid);"
      "INSERT INTO DIAGNOSTIC_EVENT VALUES (0, 1, 3, 1, 'Profiling has started.', 0),"
      "(0, 1, 3, 3, 'CPU IP sampling is not available: unsupported CPU vendor.', 0),(0, 1, 3, 2, 'Not all CUDA events might have been collected.', 0),(5, 1, 3, 2, 'Not all CUDA events might have been collected.', 0),(5, 1, 3, 2, 'Two' || char(10) || char(9) || 'lines', 0), (5, 1, 3, 3, 'It broke', 0),(5, 1, 3, 2, '" +
      std::string(600, 'x') + "', 0)");
  const Trace trace = read();
  const auto severity_of = [&](const std::string& part) {
    for (const Warning& warning : trace.warnings) {
      if (warning.message.find(part) != std::string::npos) return warning.severity;
    }
    throw std::runtime_error("no warning with " + part);
  };
  EXPECT_FALSE(has_warning(trace, "Profiling has started"));
  EXPECT_TRUE(has_warning(trace, "Not all CUDA events", 2));
  EXPECT_EQ(severity_of("Not all CUDA events"), Severity::data_loss);
  EXPECT_TRUE(has_warning(trace, "Two lines", 1));
  EXPECT_EQ(severity_of("Two lines"), Severity::info);
  EXPECT_EQ(severity_of("It broke"), Severity::error);
  EXPECT_EQ(severity_of("unsupported CPU vendor"), Severity::info);
  EXPECT_TRUE(has_warning(trace, std::string(500, 'x') + " ..."));
  EXPECT_FALSE(has_warning(trace, std::string(501, 'x')));
}

TEST_F(ReadTraceTest, ACaptureRangeLosesNothingByBeginningLate) {
  add_basics(sql_);
  sql_(
      "CREATE TABLE DIAGNOSTIC_EVENT (timestamp, timestampType, source, severity, text, globalPid);"
      "INSERT INTO DIAGNOSTIC_EVENT VALUES (5, 1, 3, 2, 'Not all NVTX events might have been collected.', 0),"
      "(5, 1, 3, 2, 'Not all buffers were flushed', 0),(9, 1, 3, 1, 'Profiling started due to cudaProfilerStart API invoked in the application.', 0)");
  std::map<std::string, Severity> severities;
  for (const Warning& warning : read().warnings) severities[warning.message] = warning.severity;
  EXPECT_EQ(severities.at("Nsight Systems reported: Not all NVTX events might have been collected."), Severity::info);
  EXPECT_EQ(severities.at("Nsight Systems reported: Not all buffers were flushed"), Severity::data_loss);
}

TEST_F(ReadTraceTest, ADamagedFileIsReadOrRefusedButNeverMore) {
  add_basics(sql_);
  add_kernel_table(sql_);
  add_runtime_table(sql_);
  testing::add_nvtx_table(sql_);
  sql_("INSERT INTO StringIds VALUES (1, 'kernel'), (2, 'cudaLaunchKernel_v7000'), (3, 'ncclAllReduce')");
  for (int i = 0; i < 200; ++i) {
    add_kernel(sql_, {.start = 10 * i, .end = 10 * i + 5, .correlation = i, .name = 1});
    sql_("INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId, binaryData) VALUES (" +
         text_of(i) + "," + text_of(i + 5) + ", 59, " + text_of(tid_101) +
         ", 3, 1, x'0100000000000000040000010000000010000000000000003000000000000000" +
         "05000000000000000001000000000000')");
  }
  const std::string intact = testing::bytes_of(file());
  std::mt19937 random(20240229);  // a fixed seed: the same damage each time
  int read = 0, refused = 0;
  for (int i = 0; i < 300; ++i) {
    std::string damaged = intact;
    for (int change = 0; change <= i % 8; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    std::ofstream(file("damaged.sqlite"), std::ios::binary) << damaged;
    try {
      read_trace(file("damaged.sqlite"));
      ++read;
    } catch (const TraceError&) {
      ++refused;
    }
  }
  EXPECT_EQ(read + refused, 300);
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(ReadTraceTest, PartialExportsAndFilteredDomainsAreSaid) {
  add_basics(sql_);
  sql_(
      "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TIMES_TO_EXPORT', '0s/1s');"
      "CREATE TABLE META_DATA_CAPTURE (name TEXT, value TEXT);"
      "INSERT INTO META_DATA_CAPTURE VALUES ('NVTX_OPTIONS:NVTX_DOMAIN_FILTER_STRING', 'NCCL'),"
      "('NVTX_OPTIONS:NVTX_DOMAIN_FILTER_MODE_INCLUDE', 'false')");
  const Trace trace = read();
  EXPECT_TRUE(has_warning(trace, "span of time"));
  EXPECT_TRUE(has_warning(trace, "excluded NCCL's NVTX domain"));
}

}  // namespace
}  // namespace nsys_explain::ingest
