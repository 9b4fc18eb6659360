#include "ingest/event_readers.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::text_of;
using testing::tid_101;
using testing::tid_201;

class TracedCallsTest : public testing::ScratchTest {
 protected:
  TracedCallsTest() : sql_(file()) {
    testing::add_basics(sql_);
    testing::add_kernel_table(sql_);
    testing::add_kernel(sql_, {.start = 100, .end = 200, .name = 1});
    sql_(
        "INSERT INTO StringIds VALUES (1, 'k'), (2, 'cudaMalloc_v3020'), (3, '0x7fd9'), (4, '/opt/libcupti.so.12'), "
        "(5, '/usr/lib64/libcuda.so.525'), (6, 'cudaMalloc'), (7, '/opt/libcudart.so.12'), (8, 'load'), (9, '/home/me/app'), "
        "(10, 'main'), (11, 'cublasSgemm_v2'), (12, 'cudnnConvolutionForward')");
  }
  testing::Writer sql_;
};

TEST_F(TracedCallsTest, StacksLeaveOutTheProfilerAndNameLibrariesWithoutFunctionsOnce) {
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, "
      "nameId INTEGER, returnValue INTEGER, callchainId INTEGER)");
  const std::string tid = text_of(tid_101);
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (70, 90, " + tid + ", 2, 2, 0, 5), (10, 40, " + tid +
       ", 1, 2, 0, 7), (50, 60, " + tid + ", 3, 2, 0, NULL), (50, 60, " + tid + ", 4, 2, 0, 99)");
  sql_(
      "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, originalIP INTEGER, "
      "stackDepth INTEGER)");
  sql_(
      "INSERT INTO CUDA_CALLCHAINS VALUES (7, 10, 9, NULL, 0, 5), (7, 8, 9, NULL, 0, 4), (7, 6, 7, 0, 0, 3), "
      "(7, 3, 5, 1, 0, 2), (7, 3, 5, 1, 0, 1), (7, 3, 4, 1, 0, 0), (5, 10, 9, NULL, 0, 0)");
  const Trace trace = read_trace(file());
  const auto& calls = trace.processes.at(0).traced_calls;
  ASSERT_EQ(calls.size(), 2) << "those with a backtrace";
  EXPECT_EQ(calls[0].start_ns, 10);
  EXPECT_EQ(calls[0].end_ns, 40);
  EXPECT_EQ(calls[0].thread_id, 101);
  EXPECT_EQ(trace.strings[calls[0].name], "cudaMalloc");
  EXPECT_EQ(trace.strings[calls[0].stack], "libcuda.so.525 < cudaMalloc < load < main");
  EXPECT_EQ(trace.strings[calls[1].stack], "main");
}

TEST_F(TracedCallsTest, StacksThatCallsCountFromZeroAreFoundByTheFunctionsInThem) {
  sql_(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, "
      "nameId INTEGER, returnValue INTEGER, callchainId INTEGER)");
  sql_("INSERT INTO StringIds VALUES (13, 'cudaFree_v3020'), (14, 'cudaFree')");
  const std::string tid = text_of(tid_101);
  sql_("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (10, 40, " + tid + ", 1, 2, 0, 0), (50, 60, " + tid +
       ", 2, 13, 0, 1)");
  sql_(
      "CREATE TABLE CUDA_CALLCHAINS (id INTEGER, symbol INTEGER, module INTEGER, unresolved INTEGER, stackDepth INTEGER)");
  sql_("INSERT INTO CUDA_CALLCHAINS VALUES (1, 6, 7, 0, 0), (1, 8, 9, 0, 1), (2, 14, 7, 0, 0), (2, 10, 9, 0, 1)");
  const Trace trace = read_trace(file());
  const auto& calls = trace.processes.at(0).traced_calls;
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(trace.strings[calls[0].stack], "cudaMalloc < load");
  EXPECT_EQ(trace.strings[calls[1].stack], "cudaFree < main");
}

TEST_F(TracedCallsTest, FiftyCallsIntoLibraries) {
  for (const char* table : {"CUBLAS_EVENTS", "CUDNN_EVENTS"})
    sql_(std::string("CREATE TABLE ") + table +
         " (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, nameId INTEGER)");
  for (int i = 0; i < 25; ++i) {
    const std::string span = "(" + std::to_string(1000 - i) + ", " + std::to_string(1010 + i) + ", ";
    sql_("INSERT INTO CUBLAS_EVENTS VALUES " + span + "29, " + text_of(tid_101) + ", 11)");
    sql_("INSERT INTO CUDNN_EVENTS VALUES " + span + "28, " + text_of(i < 5 ? tid_201 : tid_101) + ", 12)");
  }
  const Trace trace = read_trace(file());
  const auto& calls = trace.processes.at(0).library_calls;
  ASSERT_EQ(calls.size(), 45) << "five are of a process that does nothing on a GPU";
  EXPECT_TRUE(
      std::is_sorted(calls.begin(), calls.end(), [](const auto& a, const auto& b) { return a.start_ns < b.start_ns; }));
  // From i = 5 for cuDNN: 10 + 2 i ns each.
  std::int64_t cublas_ns = 0, cudnn_ns = 0;
  for (const LibraryCall& call : calls) (call.is_cudnn ? cudnn_ns : cublas_ns) += call.end_ns - call.start_ns;
  EXPECT_EQ(cublas_ns, 25 * 10 + 2 * 300);
  EXPECT_EQ(cudnn_ns, 20 * 10 + 2 * 290);
  EXPECT_EQ(trace.strings[calls.back().name], "cublasSgemm_v2");
  for (const Warning& warning : trace.warnings) EXPECT_EQ(warning.message.find("CUBLAS_EVENTS"), std::string::npos);
}

}  // namespace
}  // namespace nsys_explain::ingest
