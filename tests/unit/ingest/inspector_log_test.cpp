#include "ingest/side_files.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nsys_explain::ingest {
namespace {

using ::testing::HasSubstr;

/// As NCCL 2.28's plugin writes it; the example of its own documentation.
constexpr const char* terse =
    R"({"header":{"id":"0x7f8c496ae9f661","rank":2,"n_ranks":8,"nnodes":1},"metadata":{)"
    R"("inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"profiler_plugin",)"
    R"("dump_timestamp_us":1748030377748202,"hostname":"example-hostname","pid":1639453},"coll_perf":{)"
    R"("coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,)"
    R"("coll_algobw_gbs":277.210914,"coll_busbw_gbs":485.119099}})";

/// v4.2, with communicator name, algorithm, and times of two channels.
constexpr const char* verbose =
    R"({"header":{"id":"0x9e7a479f95a66c","comm_name":"unknown","rank":31,"n_ranks":32,"nnodes":4},"metadata":{)"
    R"("inspector_output_format_version":"v4.2","dump_timestamp_us":1749490229087081,"hostname":"h","pid":468528},)"
    R"("coll_perf":{"coll":"ReduceScatter","coll_algo":"RING","coll_proto":"LL","coll_sn":129,)"
    R"("coll_msg_size_bytes":65536,"coll_exec_time_us":110,"coll_timing_source":"kernel_gpu","event_trace_ts":{)"
    R"("coll_start_ts":1749490229000100,"coll_stop_ts":1749490229000120,"kernel_events":[{"channel_id":0,)"
    R"("kernel_start_ts":1749490229000200,"kernel_stop_ts":1749490229000310},{"channel_id":1,)"
    R"("kernel_start_ts":1749490229000201,"kernel_stop_ts":1749490229000313}]}}})";

TEST(InspectorLog, RecordsSayWhatWasLogged) {
  const InspectorLog log = parse_inspector_log(std::string(terse) + "\n" + verbose + "\n\n");
  EXPECT_TRUE(log.warnings.empty());
  ASSERT_EQ(log.records.size(), 2U);
  const InspectorRecord& first = log.records[0];
  EXPECT_EQ(first.communicator, 0x7f8c496ae9f661U);
  EXPECT_EQ(first.rank, 2);
  EXPECT_EQ(first.rank_count, 8);
  EXPECT_EQ(first.operation, Operation::all_reduce);
  EXPECT_EQ(first.sequence, 1407);
  EXPECT_EQ(first.bytes, 17'179'869'184);
  EXPECT_EQ(first.duration_ns, 61'974'000);
  EXPECT_EQ(first.end_ns, no_time);
  EXPECT_EQ(first.dumped_ns, 1'748'030'377'748'202'000);
  EXPECT_EQ(log.records[1].operation, Operation::reduce_scatter);
  EXPECT_EQ(log.records[1].end_ns, 1'749'490'229'000'313'000) << "the last channel ends it";
}

TEST(InspectorLog, OtherRecordsAreNoDamage) {
  const InspectorLog log = parse_inspector_log(
      R"({"header":{"id":"0x1","rank":0,"n_ranks":2},"metadata":{},"dump_stats":{"coll_records":3}})"
      "\n"
      R"({"header":{"id":"0x1","rank":0,"n_ranks":2},"metadata":{},"proxy_op":{"proxy_op_sn":3,"peer":1}})"
      "\n"
      R"({"header":{"id":"0x1","rank":0,"n_ranks":2},"metadata":{},"coll_perf":{"coll":"AllReduce","coll_sn":3,)"
      R"("coll_msg_size_bytes":65536,"coll_exec_time_us":9,"coll_timing_source":"collective_cpu"}})");
  EXPECT_TRUE(log.records.empty()) << "times of the host are no durations of kernels";
  EXPECT_TRUE(log.warnings.empty());
}

TEST(InspectorLog, SendsAndReceivesNameTheirPeer) {
  const std::string header = R"({"header":{"id":"0x1","rank":0,"n_ranks":4},"metadata":{},"p2p_perf":{)";
  const auto line = [&](const std::string& name, const std::string& peer, const std::string& bytes) {
    return header + R"("p2p":")" + name + R"(","p2p_sn":7,"p2p_peer":)" + peer + R"(,"p2p_msg_size_bytes":)" + bytes +
           R"(,"p2p_exec_time_us":21,"p2p_timing_source":"kernel_gpu","event_trace_ts":{"p2p_start_ts":5,)"
           R"("kernel_events":[{"channel_id":0,"kernel_start_ts":10,"kernel_stop_ts":31}]}}})"
           "\n";
  };
  const InspectorLog log = parse_inspector_log(line("Send", "3", "4096") + line("Recv", "1", "8192") +
                                               line("Send", "4", "4096") + line("Recv", "-1", "4096") +
                                               line("Recv", "1", "9223372036854775807") + line("Put", "1", "4096"));
  ASSERT_EQ(log.records.size(), 2U);
  EXPECT_EQ(log.records[0].operation, Operation::send_recv);
  EXPECT_EQ(log.records[0].directions, Directions::sends);
  EXPECT_EQ(log.records[0].peer, 3);
  EXPECT_EQ(log.records[0].sequence, 7);
  EXPECT_EQ(log.records[0].bytes, 4096);
  EXPECT_EQ(log.records[0].duration_ns, 21'000);
  EXPECT_EQ(log.records[0].end_ns, 31'000);
  EXPECT_EQ(log.records[1].directions, Directions::receives);
  EXPECT_EQ(log.records[1].peer, 1);
  ASSERT_EQ(log.warnings.size(), 1U);
  EXPECT_EQ(log.warnings[0].count, 3) << "peers that the communicator does not have, and a size that no GPU holds";
}

TEST(InspectorLog, DamagedLinesAndOtherVersionsAreCounted) {
  const std::string whole(terse);
  std::string other = whole, negative = whole, hash = whole;
  other.replace(other.find("v4.0"), 4, "v5.0");
  negative.replace(negative.find("1407"), 4, "-140");
  hash.replace(hash.find("0x7f8c496ae9f661"), 16, "another-identity");
  const InspectorLog log = parse_inspector_log(whole + "\n" + other + "\n" + negative + "\n" + hash + "\n[1,2]\n" +
                                               whole.substr(0, whole.size() / 2));
  EXPECT_EQ(log.records.size(), 1U);
  ASSERT_EQ(log.warnings.size(), 2U);
  EXPECT_THAT(log.warnings[0].message, HasSubstr("cut off or damaged"));
  EXPECT_EQ(log.warnings[0].count, 4);
  EXPECT_THAT(log.warnings[1].message, HasSubstr("another format"));
  EXPECT_EQ(log.warnings[1].count, 1);
}

class InspectorDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "inspector_log_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  void add(const std::string& name) const { std::ofstream(directory_ / name) << terse << "\n"; }

  std::filesystem::path directory_;
};

TEST_F(InspectorDirectory, TheLogOfAProcessIsFoundByHostAndNumber) {
  add("node1-pid17.log");
  add("node2-pid17.log");
  add("node1-pid117.log");
  EXPECT_EQ(read_inspector_log(directory_, "node1", 17).records.size(), 1U);
  EXPECT_EQ(read_inspector_log(directory_, "node1.example.org", 117).records.size(), 1U);
  EXPECT_EQ(read_inspector_log(directory_, "", 117).records.size(), 1U) << "only one has that number";
  for (const auto& [host, process] : {std::pair("node3", 17), std::pair("node1", 7), std::pair("", 17)}) {
    const InspectorLog none = read_inspector_log(directory_, host, process);
    EXPECT_TRUE(none.records.empty());
    ASSERT_EQ(none.warnings.size(), 1U);
    EXPECT_THAT(none.warnings[0].message, HasSubstr("have no log of NCCL Inspector"));
  }
}

TEST_F(InspectorDirectory, WithoutADirectoryThereIsNothingToSay) {
  EXPECT_THROW(list_inspector_logs((directory_ / "absent").string()), std::runtime_error);
  add("node1-pid17.log");
  const std::string before = list_inspector_logs(directory_);
  EXPECT_THAT(before, HasSubstr("node1-pid17.log"));
  std::ofstream(directory_ / "node1-pid17.log", std::ios::app) << "more";
  EXPECT_NE(list_inspector_logs(directory_), before);
}

}  // namespace
}  // namespace nsys_explain::ingest
