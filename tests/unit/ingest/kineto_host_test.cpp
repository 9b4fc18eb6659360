#include <fstream>
#include <string>
#include <vector>

#include "export_fixture.hpp"
#include "ingest/export_report.hpp"
#include "ingest/kineto/kineto_tables.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class KinetoHost : public testing::ScratchTest {
 protected:
  Trace read(const std::string& json, const std::string& name = "rank-3.json") {
    std::ofstream(file(name)) << json;
    std::filesystem::remove(file("export.sqlite"));
    ExportedInput exported = export_input(file(name), directory().string());
    warnings = std::move(exported.warnings);
    return read_trace(exported.path);
  }
  std::vector<Warning> warnings;
};

std::string event(const std::string& category, const std::string& name, const std::string& time,
                  const std::string& arguments = "") {
  return R"({"ph":"X","pid":4242,"tid":5,"cat":")" + category + R"(","name":")" + name + R"(",)" + time +
         R"(,"args":{)" + arguments + "}}";
}

const std::string told =
    R"("Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":2,"dtype":"BFloat16","Process Group Name":"0","Process Group Ranks":"[0, 1]")";

std::string trace_of(const std::vector<std::string>& events, const std::string& members = "") {
  std::string json = R"({"distributedInfo":{"rank":1,"world_size":2},)" + members + R"("traceEvents":[)";
  for (const std::string& one : events) json += (&one == events.data() ? "" : ",") + one;
  return json + "]}";
}

/// An operator from 100 to 200 us that launches NCCL's kernels, by the calls with these numbers at 110, 120, ...
std::vector<std::string> launches(int kernels) {
  std::vector<std::string> events{event("cpu_op", "record_param_comms", R"("ts":100,"dur":100)", told)};
  for (int n = 1; n <= kernels; ++n) {
    const std::string number = R"("correlation":)" + std::to_string(n), at = R"("ts":)" + std::to_string(100 + 10 * n);
    events.push_back(event("cuda_runtime", "cudaLaunchKernelExC", at + R"(,"dur":5)", number));
    events.push_back(event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", R"("ts":300,"dur":9)",
                           R"("device":0,"context":1,"stream":9,)" + number));
  }
  return events;
}

TEST_F(KinetoHost, AKernelThatTellsNothingHasTheCollectiveOfItsOperator) {
  const Trace trace = read(trace_of(launches(1)));
  EXPECT_THAT(warnings, IsEmpty());
  const ProcessTrace& process = trace.processes.at(0);
  ASSERT_THAT(process.nccl_calls, SizeIs(1));
  EXPECT_EQ(process.nccl_calls[0].function, NcclFunction::all_reduce);
  EXPECT_EQ(process.nccl_calls[0].bytes, 2000);  // 1,000 elements of two bytes
  EXPECT_EQ(process.nccl_calls[0].rank, 1);
  EXPECT_EQ(process.nccl_calls[0].start_ns, process.api_calls.at(0).start_ns);
}

TEST_F(KinetoHost, NobodyKnowsWhichOfTwoKernelsIsTheOperators) {
  const Trace trace = read(trace_of(launches(2)));
  EXPECT_THAT(trace.processes.at(0).nccl_calls, IsEmpty());
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].count, 2);
}

TEST_F(KinetoHost, AnOperatorThatEndedBeforeTheLaunchTellsNothing) {
  std::vector<std::string> events = launches(1);
  events[0] = event("cpu_op", "record_param_comms", R"("ts":100,"dur":10)", told);
  EXPECT_THAT(read(trace_of(events)).processes.at(0).nccl_calls, IsEmpty());
}

TEST_F(KinetoHost, CallsHaveTheirStackOfPython) {
  std::vector<std::string> events = launches(1);
  events.push_back(event("python_function", "train.py(3): main", R"("ts":50,"dur":900)"));
  events.push_back(event("python_function", "<built-in method mm of type object at 0x7f0Ab1>", R"("ts":109,"dur":4)"));
  events.push_back(event("python_function", "<built-in function print>", R"("ts":90,"dur":19)"));
  events.push_back(event("cuda_runtime", "cudaDeviceSynchronize", R"("ts":1000,"dur":5)", R"("correlation":7)"));
  const Trace trace = read(trace_of(events));
  ASSERT_THAT(trace.processes.at(0).traced_calls, SizeIs(1));  // main has ended before the second call
  const TracedCall& call = trace.processes[0].traced_calls[0];
  EXPECT_EQ(trace.strings[call.name], "cudaLaunchKernelExC");
  EXPECT_EQ(trace.strings[call.stack], "<built-in method mm of type object> < train.py(3): main");
}

TEST_F(KinetoHost, IsNamedByTheTraceOrByItsFile) {
  const std::string by_file = "node7_4242.1751410836000000000.pt.trace.json";
  EXPECT_EQ(read(trace_of(launches(1)), by_file).session.host, "node7");
  EXPECT_EQ(read(trace_of(launches(1)), by_file).session.boot_key, "");  // its clock is known no better for it
  EXPECT_EQ(read(trace_of(launches(1)), "node7_1.1751410836000000000.pt.trace.json").session.host, "");
  EXPECT_EQ(read(trace_of(launches(1), R"("hostname": "a-12",)"), by_file).session.host, "a-12");
  EXPECT_EQ(host_in_file_name("my_node_4242.17.pt.trace.json.gz", 4242), "my_node");
  EXPECT_EQ(host_in_file_name("node_4242.json", 4242), "");
}

TEST(WithoutAddress, LeavesTheRest) {
  EXPECT_EQ(without_address("<method x of T object at 0x7fFF, y>"), "<method x of T object, y>");
  EXPECT_EQ(without_address("look at 0x"), "look");
  EXPECT_EQ(without_address("a.py(3): at"), "a.py(3): at");
}

}  // namespace
}  // namespace nsys_explain::ingest
