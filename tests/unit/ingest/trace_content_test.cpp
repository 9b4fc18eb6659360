#include "ingest/trace_content.hpp"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;

TraceContent content(std::int64_t ranges, std::int64_t calls, std::int64_t copies, std::int64_t copy_calls = 3) {
  return {500, ranges, calls, copies, copy_calls, {}};
}

TEST(TraceContent, WhatHalfOfTheExportsHoldTheOthersLack) {
  const TraceContent whole = content(80, 900, 3);
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(0, 900, 3), whole}), ElementsAre("", "no NVTX ranges", ""));
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 0, 3, 0), whole}),
              ElementsAre("no NVTX ranges and no CUDA calls", ""));
  // One of three annotates its steps: a choice.
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 900, 3), whole, content(0, 900, 3)}), ElementsAre("", "", ""));
  EXPECT_THAT(what_is_lacking(std::vector{content(0, 0, 0, 0)}), ElementsAre(""));
}

TEST(TraceContent, CopiesAreMissedWhereCallsAskForThem) {
  const TraceContent whole = content(80, 900, 3);
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(80, 900, 0)}),
              ElementsAre("", "no copies, though its calls ask for some"));
  EXPECT_THAT(what_is_lacking(std::vector{whole, content(80, 900, 0, 0)}), ElementsAre("", "")) << "it makes none";
}

TEST(TraceContent, ExportsWithoutKernelsDoNotCount) {
  TraceContent nothing;
  EXPECT_THAT(what_is_lacking(std::vector{content(80, 900, 3), nothing, nothing, content(0, 900, 3)}),
              ElementsAre("", "", "", "no NVTX ranges"));
}

TEST(TraceContent, ProcessesThatCallNcclWithoutGpuWorkAreCounted) {
  Trace trace;
  trace.strings = {"", "cudaMemcpyAsync", "cudaLaunchKernel"};
  trace.processes.resize(4);
  for (std::int32_t p = 0; p < 4; ++p) trace.processes[static_cast<std::size_t>(p)].process_id = 1000 + p;
  const auto call = [&](std::size_t process, NcclFunction function) {
    NcclCall one;
    one.function = function;
    trace.processes[process].nccl_calls.push_back(one);
  };
  trace.processes[0].devices.emplace_back().memory_operations.resize(2);
  call(0, NcclFunction::all_gather);
  call(1, NcclFunction::all_gather);
  call(2, NcclFunction::send);
  call(3, NcclFunction::comm_init);  // a launcher may do that
  for (const StringIndex name : {1U, 2U, 2U}) {
    ApiCall one;
    one.name = name;
    one.end_ns = 10;
    trace.processes[0].api_calls.push_back(one);
  }
  const TraceContent found = content_of(trace);
  EXPECT_THAT(found.untraced_processes, ElementsAre(1001, 1002));
  EXPECT_EQ(untraced_text(found), "processes 1001, 1002");
  EXPECT_EQ(found.ranges, 4);
  EXPECT_EQ(found.copies, 2);
  EXPECT_EQ(found.copy_calls, 1);
  EXPECT_EQ(found.calls, 3);
}

using namespace testing;  // NOLINT(google-build-using-namespace): the fixture
using ::testing::HasSubstr;
using ::testing::Not;

/// Exports without a kernel, of different reasons.
class NoGpuWork : public ScratchTest {
 protected:
  Writer& sql() { return sql_; }
  void SetUp() override { add_basics(sql_); }

  /// Calls of these names, one every 1,000 ns.
  void add_calls(const std::vector<std::string>& names) {
    add_runtime_table(sql_);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string id = std::to_string(i + 1), start = std::to_string(1000 * (i + 1));
      sql_("INSERT INTO StringIds VALUES (" + id + ", '" + names[i] + "')");
      sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + start + ", " + start + " + 500, 0, " +
           std::to_string(tid_101) + ", " + id + ", " + id + ", 0)");
    }
  }
  void told_to_trace_cuda(const std::string& value) {
    sql_("CREATE TABLE META_DATA_CAPTURE (name TEXT NOT NULL, value TEXT)");
    sql_("INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:COLLECT_CUDA_TRACE', '" + value + "')");
  }
  void nsys_says(const std::string& text) {
    sql_(
        "CREATE TABLE DIAGNOSTIC_EVENT (timestamp INTEGER, timestampType INTEGER, source INTEGER, severity INTEGER, "
        "text TEXT, globalPid INTEGER)");
    sql_("INSERT INTO DIAGNOSTIC_EVENT VALUES (1, 1, 1, 1, '" + text + "', NULL)");
  }
  /// What is said of it; the only warning that tells of lost data.
  std::string said() const {
    std::string message;
    for (const Warning& warning : read_trace(file()).warnings) {
      if (warning.severity == Severity::data_loss) message += warning.message;
    }
    return message;
  }

 private:
  Writer sql_{file()};
};

TEST_F(NoGpuWork, OfAWindowOpenedWhileIdle) {
  add_calls({"cudaEventQuery_v3020", "cudaStreamSynchronize_v3020", "cudaEventQuery_v3020"});
  told_to_trace_cuda("true");
  EXPECT_EQ(
      said(),
      "the export holds no GPU kernels (it has no kernel table), only 3 CUDA calls: none of the CUDA calls launches work, so the program gave the GPU nothing to do while the capture was open; open it when work runs, later or for longer (nsys profile --delay, or --capture-range)");
}

TEST_F(NoGpuWork, OfLaunchesOfWhichNothingWasRecorded) {
  add_calls({"cudaLaunchKernel_v7000", "cuLaunchKernelEx", "cudaMalloc_v3020", "cudaGraphLaunch_v10000"});
  EXPECT_THAT(said(), HasSubstr("only 4 CUDA calls: 3 of the CUDA calls launch work, and nothing of it was recorded"));
}

TEST_F(NoGpuWork, OfATraceThatWasToldNotToTraceCuda) {
  add_nvtx_table(sql());
  told_to_trace_cuda("false");
  EXPECT_THAT(said(), HasSubstr("CUDA was not traced; capture with nsys profile -t cuda,nvtx"));
}

TEST_F(NoGpuWork, OfACaptureWithoutACall) {
  add_nvtx_table(sql());
  told_to_trace_cuda("true");
  EXPECT_THAT(said(), HasSubstr("CUDA was traced, but no CUDA call was made while the capture was open; open it when"));
  EXPECT_THAT(said(), Not(HasSubstr("-t cuda")));
}

TEST_F(NoGpuWork, OfEventsThatTheExportLacks) {
  add_nvtx_table(sql());
  nsys_says("Number of CUDA events collected: \t2,050.");
  EXPECT_THAT(said(), HasSubstr("nsys collected 2050 CUDA events, of which the export holds none; export the report"));
}

TEST_F(NoGpuWork, OfEventsThatNsysMayHaveLost) {
  add_calls({"cuInit", "cuStreamCreate"});
  nsys_says("Not all CUDA events might have been collected.");
  EXPECT_THAT(said(), HasSubstr("may not have collected all CUDA events, so work of the GPU may be lost; stop the"));
  EXPECT_THAT(said(), Not(HasSubstr("nothing to do")));
}

TEST_F(NoGpuWork, OfAPartialExport) {
  add_nvtx_table(sql());
  sql()("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PARAM_TABLES_TO_EXPORT', 'NVTX_EVENTS')");
  EXPECT_THAT(said(), HasSubstr("were exported; export without --tables and --times"));
}

TEST_F(NoGpuWork, OfAnExportThatTellsNothing) {
  add_nvtx_table(sql());
  EXPECT_THAT(
      said(),
      HasSubstr(
          "nor calls or ranges of the program: there is nothing to analyse on the GPU; capture with nsys profile -t cuda,nvtx"));
}

class UnreadTables : public ScratchTest {};

TEST_F(UnreadTables, AreNamedOnceWhereTheyHaveRows) {
  Writer sql(file());
  add_basics(sql);
  add_kernel_table(sql);
  add_kernel(sql, {.start = 10, .end = 20});
  sql("CREATE TABLE OPENACC_LAUNCH_EVENTS (start INTEGER)");
  sql("INSERT INTO OPENACC_LAUNCH_EVENTS VALUES (1), (2)");
  sql("CREATE TABLE NVTX_EVENTS_V2 (start INTEGER)");
  sql("INSERT INTO NVTX_EVENTS_V2 VALUES (1)");
  sql("CREATE TABLE UCX_EVENTS (start INTEGER)");      // no rows
  sql("CREATE TABLE ENUM_OPENACC_KIND (id INTEGER)");  // only what numbers mean
  sql("INSERT INTO ENUM_OPENACC_KIND VALUES (1)");
  sql("CREATE TABLE my_notes (text TEXT)");  // not of nsys
  sql("INSERT INTO my_notes VALUES ('x')");
  const Trace trace = read_trace(file());
  EXPECT_TRUE(
      has_warning(trace, "tables that are not read (NVTX_EVENTS_V2, OPENACC_LAUNCH_EVENTS): what they tell", 1));
  for (const Warning& warning : trace.warnings) {
    if (warning.message.find("not read") != std::string::npos) {
      EXPECT_EQ(warning.severity, Severity::info);
    }
  }
}

TEST_F(UnreadTables, AreNotNamedWhereThereIsNone) {
  Writer sql(file());
  add_basics(sql);
  add_kernel_table(sql);
  add_kernel(sql, {.start = 10, .end = 20});
  EXPECT_FALSE(has_warning(read_trace(file()), "not read"));
}

}  // namespace

}  // namespace nsys_explain::ingest
