#include "ingest/event_readers.hpp"

#include <gmock/gmock.h>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

using testing::has_warning;
using testing::text_of;
using testing::tid_101;
using testing::tid_201;

class NvtxEventsTest : public testing::ScratchTest {
 protected:
  NvtxEventsTest() : sql_(file()) {
    testing::add_basics(sql_);
    sql_("INSERT INTO StringIds VALUES (1, 'ncclAllReduce'), (2, 'ncclGroupStart'), (3, 'AllReduce')");
  }

  void range(std::int64_t start, const std::string& end, const std::string& text, std::int64_t tid = tid_101,
             int domain = 0, const std::string& more_names = "", const std::string& more_values = "", int type = 59) {
    sql_("INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId" + more_names + ") VALUES (" +
         text_of(start) + "," + end + "," + std::to_string(type) + "," + text + "," + text_of(tid) + "," +
         std::to_string(domain) + more_values + ")");
  }
  void name_domain(int number, const std::string& name, std::int64_t tid = tid_101) {
    range(-500, "NULL", "'" + name + "'", tid, number, "", "", 75);
  }
  /// A range of the registered string 1, ncclAllReduce.
  void all_reduce(std::int64_t start, std::int64_t end, const std::string& column, const std::string& value,
                  std::int64_t tid = tid_101) {
    range(start, text_of(end), "NULL", tid, 1, ", textId, " + column, ", 1, " + value);
  }
  Trace read() { return read_trace(file()); }
  static std::string text(const Trace& trace, const NvtxRange& range) { return trace.strings[range.text]; }
  static std::string domain(const Trace& trace, const NvtxRange& range) { return trace.strings[range.domain]; }

  testing::Writer sql_;
};

TEST_F(NvtxEventsTest, RangesMarksAndDomainsInTheOldColumns) {
  add_nvtx_table(sql_, "");  // 2022: no binaryData, no eventId
  range(300, "400", "'inner'");
  range(100, "NULL", "'open'");
  range(200, "600", "'outer'");
  range(150, "NULL", "'mark'", tid_101, 0, "", "", 34);
  range(250, "260", "'elsewhere'", tid_101, 3, ", endGlobalTid", "," + text_of(tid_101 + 1), 60);
  name_domain(3, "Library");
  range(100, "NULL", "'a thread'", tid_101, 0, "", "", 39);
  range(-2'000'000'000, "-1000", "'before the session'", tid_201);
  const Trace trace = read();
  ASSERT_EQ(trace.processes.size(), 2);
  const auto& ranges = trace.processes[0].nvtx_ranges;
  ASSERT_EQ(ranges.size(), 5) << "names of threads and domains are no ranges";
  EXPECT_EQ(text(trace, ranges[0]), "open");
  EXPECT_EQ(ranges[0].end_ns, no_time);
  EXPECT_EQ(text(trace, ranges[1]), "mark");
  EXPECT_EQ(ranges[1].kind, NvtxKind::mark);
  EXPECT_EQ(text(trace, ranges[2]), "outer");
  EXPECT_EQ(ranges[2].start_ns, 200);
  EXPECT_EQ(ranges[2].end_ns, 600);
  EXPECT_EQ(ranges[2].thread_id, 101);
  EXPECT_EQ(ranges[2].end_thread_id, 101);
  EXPECT_EQ(domain(trace, ranges[2]), "");
  EXPECT_EQ(text(trace, ranges[3]), "elsewhere");
  EXPECT_EQ(ranges[3].kind, NvtxKind::start_end);
  EXPECT_EQ(ranges[3].end_thread_id, 102);
  EXPECT_EQ(domain(trace, ranges[3]), "Library");
  EXPECT_EQ(trace.processes[1].nvtx_ranges[0].start_ns, -2'000'000'000);
  EXPECT_TRUE(has_warning(trace, "still open", 1));
  EXPECT_TRUE(trace.processes[0].nccl_calls.empty());
}

TEST_F(NvtxEventsTest, ADomainNumberMeansSomethingWithinItsProcessOnly) {
  add_nvtx_table(sql_);
  name_domain(1, "NCCL", tid_101);
  name_domain(1, "cuBLAS", tid_201);
  range(10, "20", "'ncclAllReduce'", tid_101, 1);
  range(10, "20", "'ncclAllReduce'", tid_201, 1);
  const Trace trace = read();
  EXPECT_EQ(domain(trace, trace.processes[0].nvtx_ranges[0]), "NCCL");
  EXPECT_EQ(trace.processes[0].nccl_calls.size(), 1);
  EXPECT_EQ(domain(trace, trace.processes[1].nvtx_ranges[0]), "cuBLAS");
  EXPECT_TRUE(trace.processes[1].nccl_calls.empty());
}

TEST_F(NvtxEventsTest, NcclIsKnownByItsLabelsWhereTheDomainHasNoName) {
  add_nvtx_table(sql_);
  range(10, "20", "'ncclAllReduce'", tid_101, 1);
  range(10, "20", "'ncclAllReduce'", tid_101, 0);
  range(10, "20", "'AllReduce'", tid_201, 1);
  const Trace trace = read();
  EXPECT_EQ(trace.processes[0].nccl_calls.size(), 1) << "the default domain is the user's";
  EXPECT_TRUE(trace.processes[1].nccl_calls.empty()) << "the advanced labels alone are too common";
  EXPECT_TRUE(has_warning(trace, "does not name the NVTX domain of NCCL", 1));
}

TEST_F(NvtxEventsTest, AdvancedLabelsCountWithNcclsPayloadSchema) {
  add_nvtx_table(sql_);
  sql_(
      "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId, schemaId, idx, flags, type, name, offset);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 5, 0, NULL, 18, 'NCCL communicator ID', NULL)");
  range(10, "20", "'AllReduce'", tid_201, 1);
  const Trace trace = read();
  ASSERT_EQ(trace.processes.at(0).nccl_calls.size(), 1);
  EXPECT_EQ(trace.processes[0].nccl_calls[0].function, NcclFunction::all_reduce);
}

TEST_F(NvtxEventsTest, CallsStandInOrderWithTheirPayloads) {
  add_nvtx_table(sql_);
  name_domain(1, "NCCL");
  // AllReduce of NCCL 2.27: communicator 5, 256 bytes, sum.
  all_reduce(
      300, 310, "binaryData",
      "x'0100000000000000' || x'0500000100000000' || x'1800000000000000' || x'3800000000000000' ||x'0500000000000000' || x'0001000000000000' || x'0000000000000000'");
  all_reduce(100, 110, "jsonText", R"('{"NCCL communicator ID": 6, "Message size [bytes]": 512}')");
  range(200, "205", "'user range'");
  range(90, "95", "NULL", tid_101, 1, ", textId", ", 2");
  const Trace trace = read();
  const ProcessTrace& process = trace.processes.at(0);
  ASSERT_EQ(process.nccl_calls.size(), 3);
  EXPECT_EQ(process.nccl_calls[0].function, NcclFunction::group_start);
  EXPECT_EQ(process.nccl_calls[1].communicator, 6);
  EXPECT_EQ(process.nccl_calls[1].bytes, 512);
  EXPECT_EQ(process.nccl_calls[2].communicator, 5);
  EXPECT_EQ(process.nccl_calls[2].bytes, 256);
  EXPECT_EQ(process.nccl_calls[2].start_ns, 300);
  EXPECT_EQ(process.nccl_calls[2].thread_id, 101);
  std::vector<bool> links;
  for (const NvtxRange& range : process.nvtx_ranges) links.push_back(range.is_nccl_call);
  EXPECT_THAT(links, ::testing::ElementsAre(true, true, false, true));
  EXPECT_FALSE(has_warning(trace, "NCCL calls"));
}

TEST_F(NvtxEventsTest, HexTextAndRegisteredJson) {
  add_nvtx_table(sql_);
  name_domain(1, "NCCL");
  sql_(R"(INSERT INTO StringIds VALUES (50, '{"Message size [bytes]": 99}'))");
  all_reduce(
      100, 110, "binaryData",
      "'0100000000000000050000010000000018000000000000003800000000000000050000000000000000010000000000000000000000000000'");
  all_reduce(200, 210, "jsonTextId", "50");
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).nccl_calls.at(0).communicator, 5);
  EXPECT_EQ(trace.processes[0].nccl_calls.at(1).bytes, 99);
}

TEST_F(NvtxEventsTest, BytesThatCannotBeDecodedAreCountedAndJsonIsTriedNext) {
  add_nvtx_table(sql_);
  name_domain(1, "NCCL");
  all_reduce(100, 110, "binaryData", "x'ff00'");
  all_reduce(200, 210, "binaryData, jsonText", R"(x'ff00', '{"Message size [bytes]": 7}')");
  all_reduce(300, 310, "binaryData", "NULL");
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).nccl_calls.at(0).bytes, -1);
  EXPECT_EQ(trace.processes[0].nccl_calls.at(1).bytes, 7);
  EXPECT_TRUE(has_warning(trace, "layout that is not known", 1));
  EXPECT_TRUE(has_warning(trace, "no payload in this export", 1));
}

TEST_F(NvtxEventsTest, DynamicTablesKnowBest) {
  add_nvtx_table(sql_, ", binaryData TEXT, eventId INTEGER PRIMARY KEY");
  name_domain(1, "NCCL");
  all_reduce(100, 110, "eventId, jsonText", R"(41, '{"Message size [bytes]": 7}')");
  all_reduce(200, 210, "eventId", "42");
  sql_(
      "CREATE TABLE DYNAMIC_NVTXPAYLOAD_DATATYPE_281476654530560_1_16777221 (eventId INTEGER, NCCL_communicator_ID"
      " INTEGER, field_2 INTEGER, Parent_NCCL_communicator_ID INTEGER);"
      "INSERT INTO DYNAMIC_NVTXPAYLOAD_DATATYPE_281476654530560_1_16777221 VALUES (41, -1, 4096, 3), (42, 8, 8192, 3);"
      "CREATE TABLE NVTX_EXPORT_TRANSLATION (originalName TEXT, sanitizedName TEXT);"
      "INSERT INTO NVTX_EXPORT_TRANSLATION VALUES ('Message size [bytes]', 'field_2')");
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).nccl_calls.at(0).communicator, ~std::uint64_t{0}) << "the top bit may be set";
  EXPECT_EQ(trace.processes[0].nccl_calls.at(0).bytes, 4096);
  EXPECT_EQ(trace.processes[0].nccl_calls.at(1).communicator, 8);
  EXPECT_EQ(trace.processes[0].nccl_calls.at(1).bytes, 8192);
}

TEST_F(NvtxEventsTest, CategoriesOfNcclsDomainNumberAndNameCommunicators) {
  add_nvtx_table(sql_, ", binaryData TEXT, category INTEGER");
  name_domain(1, "NCCL");
  name_domain(2, "Library");
  name_domain(1, "NCCL", tid_201);
  const auto in_category = [&](std::int64_t start, std::int64_t tid, int domain, const std::string& category) {
    range(start, text_of(start + 5), "NULL", tid, domain, ", textId, category", ", 3, " + category);
  };
  const auto name_category = [&](std::int64_t tid, int domain, int category, const std::string& name) {
    range(-400, "NULL", "'" + name + "'", tid, domain, ", category", "," + std::to_string(category), 33);
  };
  in_category(100, tid_101, 1, "4000000000");  // of 32 bits without a sign
  in_category(110, tid_101, 1, "7");
  in_category(120, tid_101, 1, "NULL");
  in_category(130, tid_101, 1, "0");
  in_category(140, tid_101, 2, "7");
  in_category(100, tid_201, 1, "7");
  name_category(tid_101, 1, 7, "tp");  // the name may come after the ranges, and another process may use the number
  name_category(tid_101, 2, 7, "of the library");
  name_category(tid_201, 1, 7, "dp");
  const Trace trace = read();
  const auto named = [&](const NcclCall& call) { return trace.strings[call.category_name]; };
  const auto& calls = trace.processes.at(0).nccl_calls;
  ASSERT_EQ(calls.size(), 4);
  EXPECT_EQ(calls[0].category, 2);
  EXPECT_EQ(named(calls[0]), "");
  EXPECT_EQ(calls[1].category, 1);
  EXPECT_EQ(named(calls[1]), "tp");
  EXPECT_EQ(calls[2].category, 0);
  EXPECT_EQ(calls[3].category, 0);
  ASSERT_EQ(trace.processes.at(1).nccl_calls.size(), 1);
  EXPECT_EQ(trace.processes[1].nccl_calls[0].category, 1);
  EXPECT_EQ(named(trace.processes[1].nccl_calls[0]), "dp");
}

TEST_F(NvtxEventsTest, TheAdvancedTraceCountsEveryCallOnce) {
  add_nvtx_table(sql_);
  name_domain(1, "NCCL");
  const auto advanced = [&](std::int64_t start, const std::string& label, const std::string& json) {
    range(start, text_of(start + 10), "'" + label + "'", tid_101, 1, ", jsonText", ", '" + json + "'");
  };
  advanced(100, "API Group", "{}");
  advanced(101, "AllReduce", R"({"apiId": 1, "commHash": 9, "rank": 3, "nRanks": 4, "seqNumber": 12, "count": 4,
                               "datatype": "ncclFloat32"})");
  advanced(105, "GroupLaunch", "{}");
  advanced(120, "AllReduce", R"({"apiId": 1, "commHash": 9})");                // as run
  advanced(130, "AllReduce", R"({"apiId": 1, "commHash": 9, "channel": 0})");  // on the GPU
  const Trace trace = read();
  std::vector<NcclFunction> functions;
  for (const NcclCall& call : trace.processes.at(0).nccl_calls) functions.push_back(call.function);
  EXPECT_THAT(functions, ::testing::ElementsAre(NcclFunction::group_start, NcclFunction::all_reduce,
                                                NcclFunction::group_end, NcclFunction::other, NcclFunction::other));
  const NcclCall& call = trace.processes[0].nccl_calls[1];
  EXPECT_EQ(call.communicator, 9);
  EXPECT_EQ(call.sequence, 12);
  EXPECT_EQ(call.bytes, 16);
  EXPECT_EQ(call.rank, 3);
  EXPECT_EQ(call.rank_count, 4);
}

TEST_F(NvtxEventsTest, ReversedRangesAreLeftOutAndCounted) {
  add_nvtx_table(sql_);
  range(100, "50", "'backwards'");
  range(100, "150", "'forwards'");
  const Trace trace = read();
  EXPECT_EQ(trace.processes.at(0).nvtx_ranges.size(), 1);
  EXPECT_TRUE(has_warning(trace, "NVTX_EVENTS end before they start", 1));
}

}  // namespace
}  // namespace nsys_explain::ingest
