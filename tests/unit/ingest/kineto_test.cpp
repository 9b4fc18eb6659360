#include <zlib.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "export_fixture.hpp"
#include "ingest/export_report.hpp"
#include "ingest/kineto/export_kineto.hpp"
#include "ingest/kineto/trace_event.hpp"
#include "ingest/nccl_payload.hpp"

namespace nsys_explain::ingest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

TEST(KinetoTime, IsExactToTheNanosecond) {
  const std::vector<std::pair<std::string, Nanoseconds>> known{
      {"0", 0},
      {"1", 1'000},
      {"4426.114", 4'426'114},
      {"0.001", 1},
      {"0.0019", 1},
      {"-2.5", -2'500},
      {"1682725898236567", 1'682'725'898'236'567'000},
      {"1419247332972.313", 1'419'247'332'972'313},  // a double holds it no finer than 0.0002
      {"9007199254740993.001", 9'007'199'254'740'993'001},
      {"1.5e3", 1'500'000},
      {"1E-2", 10},
      {"1e-300", 0},
  };
  for (const auto& [text, ns] : known) EXPECT_EQ(nanoseconds_of(text), ns) << text;
}

TEST(KinetoTime, RefusesWhatIsNoNumber) {
  for (const char* text : {"", "-", "NaN", "Infinity", "inf", "null", "\"12\"", "1.2.3", "12x", "1e", "1e99", ".",
                           "9300000000000000000", "99999999999999999999999999999999999999999999999"})
    EXPECT_EQ(nanoseconds_of(text), std::nullopt) << text;
}

struct Split {
  std::vector<std::string> events;
  std::vector<std::pair<std::string, std::string>> members;
  bool has_events = false, is_whole = false, is_json = false;
  std::int64_t left_out = 0;
  friend bool operator==(const Split&, const Split&) = default;
};

Split split(std::string_view text, std::size_t piece) {
  Split result;
  EventSplitter splitter(
      {[&](const std::string& object) { result.events.push_back(object); },
       [&](std::string_view name, const std::string& value) { result.members.emplace_back(name, value); }});
  for (std::size_t at = 0; at < text.size(); at += piece) splitter.feed(text.substr(at, piece));
  result.has_events = splitter.has_events();
  result.is_whole = splitter.is_whole();
  result.is_json = splitter.is_json();
  result.left_out = splitter.left_out();
  return result;
}

constexpr std::string_view small_trace =
    R"( {"schemaVersion": 1, "info": {"traceEvents": [{"x": 1}]}, "a\"]b": "q}\\",
 "traceEvents": [ {"name": "a]}\"{", "args": {"grid": [1, [2]]}} , {"name": "b"}, 7, null,{} ],
 "base": 12, "last": true}
)";

TEST(EventSplitter, GivesEventsAndMembers) {
  const Split all = split(small_trace, small_trace.size());
  EXPECT_THAT(all.events, ElementsAre(R"({"name": "a]}\"{", "args": {"grid": [1, [2]]}})", R"({"name": "b"})", "{}"));
  EXPECT_THAT(all.members, ElementsAre(Pair("schemaVersion", "1"), Pair("info", R"({"traceEvents": [{"x": 1}]})"),
                                       Pair(R"(a\"]b)", R"("q}\\")"), Pair("base", "12"), Pair("last", "true")));
  EXPECT_TRUE(all.has_events && all.is_whole && all.is_json);
  EXPECT_EQ(all.left_out, 2);
}

TEST(EventSplitter, DoesNotDependOnThePieces) {
  const Split all = split(small_trace, small_trace.size());
  for (std::size_t piece = 1; piece < small_trace.size(); ++piece) EXPECT_EQ(split(small_trace, piece), all) << piece;
}

TEST(EventSplitter, ReadsABareArray) {
  const Split all = split(R"([{"a":1},{"b":2}])", 3);
  EXPECT_THAT(all.events, ElementsAre(R"({"a":1})", R"({"b":2})"));
  EXPECT_TRUE(all.is_whole && all.has_events);
}

TEST(EventSplitter, GivesWhatIsWholeOfATraceThatBreaksOff) {
  for (std::size_t size = 0; size < small_trace.size(); ++size) {
    const Split part = split(small_trace.substr(0, size), 5);
    const Split all = split(small_trace, 5);
    ASSERT_LE(part.events.size(), all.events.size());
    EXPECT_TRUE(std::equal(part.events.begin(), part.events.end(), all.events.begin())) << size;
    EXPECT_EQ(part.is_whole, size > small_trace.rfind('}')) << size;
  }
}

TEST(EventSplitter, KeepsNoEventThatIsTooLong) {
  const std::string text = R"([{"a":")" + std::string(EventSplitter::longest_event, 'x') + R"("},{"b":2}])";
  const Split all = split(text, 4096);
  EXPECT_THAT(all.events, ElementsAre(R"({"b":2})"));
  EXPECT_EQ(all.left_out, 1);
}

TEST(EventSplitter, EndsOnAnything) {
  for (const char* text : {"SQLite format 3", "}", "]", "[}", "[:]", "[,,]", "{,}", "{]", "[[[[[[", "{\"a\" 1}", "\"\"",
                           "[\"", "{\"traceEvents\": {}}", "{\"traceEvents\": [}}}}]}"})
    EXPECT_THAT(split(text, 1).events, IsEmpty()) << text;
  split(std::string(100'000, '['), 1000);
  split(std::string(100'000, '}'), 1000);
}

TEST(EventParser, ReadsAKernel) {
  EventParser parser;
  const auto event = parser.event(
      R"({"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce\u0041", "pid": 0, "tid": 20, "ts": 1.25, "dur": 3,
          "args": {"External id": 9, "device": 1, "context": 2, "stream": 20, "correlation": 27, "blocks per SM": NaN,
                   "registers per thread": 96, "shared memory": 512, "warps per SM": inf, "grid": [8, 16, 5], "block": [128, 1, 1],
                   "Collective name": "allreduce", "In msg nelems": 100, "Out msg nelems": 101, "Group size": 4, "dtype": "BFloat16",
                   "Process Group Name": "7", "Process Group Ranks": [0, 2], "Seq": 5}})");
  ASSERT_TRUE(event);
  EXPECT_TRUE(event->is_complete);
  EXPECT_EQ(event->category, "kernel");
  EXPECT_EQ(event->name, "ncclDevKernel_AllReduceA");
  EXPECT_EQ(event->start_ns, 1'250);
  EXPECT_EQ(event->duration_ns, 3'000);
  EXPECT_THAT(event->grid, ElementsAre(8, 16, 5));
  EXPECT_THAT(event->block, ElementsAre(128, 1, 1));
  EXPECT_EQ(event->device, 1);
  EXPECT_EQ(event->context, 2);
  EXPECT_EQ(event->stream, 20);
  EXPECT_EQ(event->correlation, 27);
  EXPECT_EQ(event->registers, 96);
  EXPECT_EQ(event->shared_bytes, 512);
  EXPECT_EQ(event->collective.group_ranks, "[0, 2]");
  EXPECT_EQ(event->collective.sequence, 5);
}

TEST(EventParser, NeverThrows) {
  EventParser parser;
  const std::string deep = R"({"args": )" + std::string(5000, '[') + std::string(5000, ']') + "}";
  for (const std::string& text :
       {std::string("{}"), std::string("{"), std::string("{\"ph\": 1}"), std::string("{\"ts\": {}, \"args\": 3}"),
        std::string("{\"args\": {\"grid\": \"x\", \"device\": [1]}}"), std::string("{\"name\": \"\xff\xfe\"}"), deep,
        std::string("{\"a\": \"\\ud800\"}"), std::string("{\"name\" \"x\"}")})
    static_cast<void>(parser.event(text));
  EXPECT_EQ(parser.distributed("[1").rank, -1);
  EXPECT_THAT(parser.devices("{}"), IsEmpty());
}

TEST(CollectiveCall, TellsWhatNcclTells) {
  CollectiveFields fields;
  fields.name = "_reduce_scatter_base";
  fields.data_type = "BFloat16";
  fields.group_name = "12";
  fields.group_ranks = "[0, 2, 4, 6]";
  fields.sent_elements = 4000;
  fields.received_elements = 1000;
  fields.group_size = 4;
  fields.sequence = 3;
  const auto call = collective_call(fields, 4);
  ASSERT_TRUE(call);
  EXPECT_EQ(call->label, "ncclReduceScatter");
  const auto payload = decode_json_payload(call->payload);
  ASSERT_TRUE(payload);
  EXPECT_EQ(payload->bytes, 2000);      // what one rank receives
  CollectiveFields annotated = fields;  // as PyTorch annotates kernels of graphs
  annotated.data_type = "bfloat16";
  EXPECT_EQ(decode_json_payload(collective_call(annotated, 4)->payload)->bytes, 2000);
  EXPECT_EQ(payload->rank, 2);
  EXPECT_EQ(payload->rank_count, 4);
  EXPECT_EQ(payload->sequence, 3);
  const auto of_another_member = decode_json_payload(collective_call(fields, 6)->payload);
  EXPECT_EQ(payload->communicator, of_another_member->communicator);
  fields.group_ranks = "[1, 3, 5, 7]";
  EXPECT_NE(payload->communicator, decode_json_payload(collective_call(fields, 3)->payload)->communicator);
}

TEST(CollectiveCall, KnowsTheOperationsOfPyTorch) {
  const std::vector<std::pair<std::string, std::string>> known{{"allreduce", "ncclAllReduce"},
                                                               {"allreduce_coalesced", "ncclAllReduce"},
                                                               {"_allgather_base", "ncclAllGather"},
                                                               {"all_gather_into_tensor_coalesced", "ncclAllGather"},
                                                               {"all_to_all", "ncclAlltoAll"},
                                                               {"all_to_allv", "ncclAlltoAll"},
                                                               {"reduce_scatter_tensor_coalesced", "ncclReduceScatter"},
                                                               {"reduce", "ncclReduce"},
                                                               {"broadcast", "ncclBroadcast"},
                                                               {"send", "ncclSend"},
                                                               {"recv", "ncclRecv"},
                                                               {"gather", "ncclGather"},
                                                               {"scatter", "ncclScatter"},
                                                               {"barrier", "ncclAllReduce"}};
  for (const auto& [name, label] : known) {
    CollectiveFields fields;
    fields.name = name;
    ASSERT_TRUE(collective_call(fields, -1)) << name;
    EXPECT_EQ(collective_call(fields, -1)->label, label) << name;
  }
  CollectiveFields waiting;
  waiting.name = "wait";
  EXPECT_FALSE(collective_call(waiting, -1));
}

TEST(CollectiveCall, TellsPeersByTheirPlaceInTheGroup) {
  CollectiveFields fields;
  fields.name = "send";
  fields.group_name = "1";
  fields.group_ranks = "[8, 24]";
  fields.group_size = 2;
  fields.destination_rank = 24;
  fields.sequence = 9;
  const auto payload = decode_json_payload(collective_call(fields, 8)->payload);
  EXPECT_EQ(payload->peer_or_root, 1);
  EXPECT_EQ(payload->rank, 0);
  EXPECT_EQ(payload->sequence, -1);  // sends and receives are counted otherwise
  EXPECT_EQ(place_in_group("[0, 1, ..., 63]", 63), -1);
  EXPECT_EQ(place_in_group("[]", 0), -1);
}

class KinetoExport : public testing::ScratchTest {
 protected:
  Trace read(const std::string& json, bool packed = false) {
    const std::string path = file(packed ? "rank-3.json.gz" : "rank-3.json");
    if (packed) {
      gzFile out = ::gzopen(path.c_str(), "wb");
      ::gzwrite(out, json.data(), static_cast<unsigned>(json.size()));
      ::gzclose(out);
    } else {
      std::ofstream(path) << json;
    }
    std::filesystem::remove(file("export.sqlite"));
    ExportedInput exported = export_input(path, directory().string());
    warnings = std::move(exported.warnings);
    return read_trace(exported.path);
  }
  std::string said(const std::string& json) {
    try {
      read(json);
    } catch (const TraceError& error) {
      return error.what();
    }
    return "";
  }
  std::vector<Warning> warnings;
};

constexpr const char* job_trace =
    R"json({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
"deviceProperties": [{"id": 1, "name": "NVIDIA H100", "numSms": 132, "computeMajor": 9, "computeMinor": 0, "warpSize": 32, "maxThreadsPerMultiprocessor": 2048}],
"traceEvents": [
{"ph":"X","cat":"kernel","name":"void ns::gemm<float>(int)","pid":1,"tid":7,"ts":1000.500,"dur":20.25,"args":{"device":1,"context":1,"stream":7,"correlation":11,"grid":[2,3,4],"block":[64,1,1],"registers per thread":40}},
{"ph":"M","name":"process_name","pid":4242,"tid":0,"ts":0,"args":{"name":"python3"}},
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#6","pid":4242,"tid":4242,"ts":900,"dur":500,"args":{}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":4242,"tid":4242,"ts":950,"dur":30,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":4242,"tid":4242,"ts":960,"dur":5,"args":{"cbid":211,"correlation":11}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernelExC","pid":4242,"tid":77777777777,"ts":970.001,"dur":4,"args":{"correlation":12}},
{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","pid":1,"tid":20,"ts":1021,"dur":40,"args":{"device":1,"context":1,"stream":20,"correlation":12,"grid":[8,1,1],"block":[640,1,1],"Collective name":"allreduce","In msg nelems":1000,"Out msg nelems":1000,"Group size":8,"dtype":"Float","Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]","Seq":2}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pinned)","pid":1,"tid":7,"ts":1070,"dur":2.24,"args":{"device":1,"context":1,"stream":7,"correlation":13,"bytes":4096}},
{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":1,"tid":7,"ts":1080,"dur":1,"args":{"device":1,"context":1,"stream":7,"correlation":14,"bytes":64}},
{"ph":"X","cat":"cuda_sync","name":"Stream Wait Event","pid":1,"tid":20,"ts":1015,"dur":1,"args":{"cuda_sync_kind":"Stream Wait Event","wait_on_stream":7,"wait_on_cuda_event_record_corr_id":15,"wait_on_cuda_event_id":9,"stream":20,"correlation":16,"device":1,"context":1}},
{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#6","pid":1,"tid":7,"ts":1000,"dur":60},
{"ph":"X","cat":"python_function","name":"train.py(3): main","pid":4242,"tid":4242,"ts":900,"dur":500},
{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":900,"dur":600}],
"baseTimeNanoseconds": 1751410836000000000})json";

TEST_F(KinetoExport, BecomesATrace) {
  const Trace trace = read(job_trace, true);
  EXPECT_THAT(warnings, IsEmpty());
  ASSERT_THAT(trace.processes, SizeIs(1));
  const ProcessTrace& process = trace.processes[0];
  EXPECT_EQ(process.process_id, 4242);
  EXPECT_EQ(process.name, "python3");
  EXPECT_EQ(trace.world_size, 8);
  EXPECT_EQ(trace.session.utc_start_ns, 1'751'410'836'001'000'500);  // of the first event
  ASSERT_THAT(process.devices, SizeIs(1));
  const DeviceTrace& device = process.devices[0];
  EXPECT_EQ(device.device_id, 1);
  EXPECT_EQ(device.gpu_name, "NVIDIA H100");
  EXPECT_EQ(device.gpu_limits.multiprocessors, 132);
  ASSERT_THAT(device.kernels, SizeIs(2));
  EXPECT_EQ(device.kernels[0].start_ns, 0);
  EXPECT_EQ(device.kernels[0].end_ns, 20'250);
  EXPECT_EQ(device.kernels[1].start_ns, 20'500);
  EXPECT_EQ(trace.strings[device.kind_of(device.kernels[0]).short_name], "gemm");
  EXPECT_EQ(device.kind_of(device.kernels[0]).grid_z, 4);
  ASSERT_THAT(device.memory_operations, SizeIs(2));
  EXPECT_EQ(device.memory_operations[0].bytes, 4096);
  EXPECT_EQ(device.memory_operations[0].copy_kind, 2);
  EXPECT_EQ(device.memory_operations[0].destination_kind, 1);
  EXPECT_TRUE(device.memory_operations[1].is_set);
  ASSERT_THAT(process.api_calls, SizeIs(2));
  EXPECT_EQ(process.api_calls[1].start_ns, -30'499);
}

TEST_F(KinetoExport, TellsRangesCollectivesAndWaits) {
  const Trace trace = read(job_trace);
  const ProcessTrace& process = trace.processes.at(0);
  std::vector<std::string> ranges;
  for (const NvtxRange& range : process.nvtx_ranges) ranges.emplace_back(trace.strings[range.text]);
  EXPECT_THAT(ranges, ElementsAre("ProfilerStep#6", "aten::mm", "ncclAllReduce"));
  ASSERT_THAT(process.nccl_calls, SizeIs(1));
  EXPECT_EQ(process.nccl_calls[0].function, NcclFunction::all_reduce);
  EXPECT_EQ(process.nccl_calls[0].bytes, 4000);
  EXPECT_EQ(process.nccl_calls[0].rank, 3);
  EXPECT_EQ(process.nccl_calls[0].start_ns, process.api_calls[1].start_ns);
  EXPECT_EQ(process.nccl_calls[0].thread_id, process.api_calls[1].thread_id);
  ASSERT_THAT(process.synchronizations, SizeIs(1));
  ASSERT_THAT(process.event_records, SizeIs(1));
  EXPECT_EQ(process.synchronizations[0].event_sync_id, process.event_records[0].event_sync_id);
  EXPECT_EQ(process.event_records[0].stream_id, 7U);
  bool claims_rank = false;
  for (const RankClaim& claim : process.claims)
    claims_rank = claims_rank || (claim.source == RankSource::environment && claim.rank == 3);
  EXPECT_TRUE(claims_rank);
}

TEST_F(KinetoExport, GivesNoCallToKernelsThatOneGraphLaunched) {
  std::string json(job_trace);
  const std::size_t kernel = json.find(R"({"ph":"X","cat":"kernel","name":"nccl)");
  const std::string row = json.substr(kernel, json.find('\n', kernel) + 1 - kernel);
  const Trace trace = read(json.insert(kernel, row));
  EXPECT_THAT(trace.processes.at(0).devices.at(0).kernels, SizeIs(3));
  EXPECT_THAT(trace.processes.at(0).nccl_calls, IsEmpty());
}

TEST_F(KinetoExport, ReadsWhatIsWholeAndSaysSo) {
  const std::string whole(job_trace);
  const Trace trace = read(whole.substr(0, whole.find("\"Collective name\"")));
  EXPECT_THAT(trace.processes.at(0).devices.at(0).kernels, SizeIs(1));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].severity, Severity::data_loss);
  EXPECT_THAT(warnings[0].message, HasSubstr("the trace breaks off after 6 events"));
}

TEST_F(KinetoExport, CountsEventsWithoutATime) {
  std::string json(job_trace);
  json.replace(json.find("\"ts\":1070"), 9, "\"ts\":NaN");
  const Trace trace = read(json);
  EXPECT_THAT(trace.processes.at(0).devices.at(0).memory_operations, SizeIs(1));
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_EQ(warnings[0].count, 1);
  EXPECT_THAT(warnings[0].message, HasSubstr("without a time that is a number"));
}

TEST_F(KinetoExport, RefusesOtherFiles) {
  EXPECT_THAT(said("plain text"), HasSubstr("is not JSON"));
  EXPECT_THAT(said(R"({"verdict": {"text": "x"}})"), HasSubstr("holds no traceEvents"));
  EXPECT_THAT(said(""), HasSubstr("holds no traceEvents"));
  EXPECT_THAT(
      said(
          R"({"traceEvents": [{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":2,"tid":2,"ts":1,"dur":1}]})"),
      HasSubstr("AMD GPU"));
  EXPECT_THAT(said(R"({"hip_runtime_version": 7, "traceEvents": []})"), HasSubstr("AMD GPU"));
}

TEST_F(KinetoExport, HasTimesWithoutABase) {
  const Trace trace = read(
      R"({"traceEvents": [{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1682725898082228,"dur":10,"args":{"device":0,"stream":7,"correlation":1}}]})");
  EXPECT_EQ(trace.session.utc_start_ns, 1'682'725'898'082'228'000);
}

}  // namespace
}  // namespace nsys_explain::ingest
