#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "test_support.hpp"

/// The bytes of NCCL's payloads, worked out by hand from the struct layouts of NCCL's sources.
namespace nsys_explain::synth {
namespace {

using namespace test;

class Payload : public ExportTest {
 protected:
  /// All functions at once: tensor, pipeline and data groups of two.
  JobPlan rich_plan(const char* nccl) {
    JobPlan plan = small_plan();
    plan.layout = {2, 4, 2, 2, 0};
    plan.workload.mixture_of_experts = true;
    plan.workload.tensor_parallel_style = TensorParallelStyle::sequence_parallel;
    plan.workload.gradient_bytes_per_layer = 0x0123456;
    plan.workload.restart_at_step = 2;
    plan.export_style.nccl_version = nccl;
    return plan;
  }

  static std::string little_endian(std::uint64_t value) {
    std::string text;
    static constexpr char digits[] = "0123456789abcdef";
    for (int i = 0; i < 8; ++i, value >>= 8) {
      text += digits[(value >> 4) & 15];
      text += digits[value & 15];
    }
    return text;
  }

  /// Distinct blobs of one function.
  static std::vector<std::string> blobs(const std::string& path, const std::string& function,
                                        const char* column = "binaryData") {
    return test::column(query(path, std::string("SELECT DISTINCT n.") + column +
                                        " FROM NVTX_EVENTS n JOIN StringIds s ON s.id = n.textId WHERE s.value = '" +
                                        function + "' ORDER BY n.start"),
                        0);
  }

  std::uint64_t hash_of(const std::string& name) const {
    for (const TrueCommunicator& communicator : job_.communicators)
      if (communicator.name == name) return communicator.hash;
    return 0;
  }
};

TEST_F(Payload, AllReduceOf227) {
  const std::string path = write(rich_plan("2.27"))[0];
  EXPECT_THAT(blobs(path, "ncclAllReduce"),
              ::testing::Contains("x0100000000000000"   // domain 1
                                  "0500000100000000"    // schema 16777216 + 5
                                  "1800000000000000"    // 24 bytes of payload
                                  "3800000000000000" +  // 56 bytes in all
                                  little_endian(hash_of("data 0")) +
                                  "5634120000000000"  // message size 0x123456
                                  "00000000"          // sum
                                  "00000000"));       // padding to 8
}

TEST_F(Payload, AllReduceOf216HasNoCommunicator) {
  const std::string path = write(rich_plan("2.16"))[0];
  EXPECT_THAT(blobs(path, "ncclAllReduce"),
              ::testing::Contains(
                  "x010000000000000005000001000000001000000000000000300000000000000056341200000000000000000000000000"));
}

TEST_F(Payload, CommInitSwapsRankAndCountBetweenTheFamilies) {
  // Rank 3 is member 1 of 2 in data group 1 = {1, 3}; its device is 3.
  const std::string modern = write(rich_plan("2.27"))[3];
  EXPECT_THAT(blobs(modern, "ncclCommInitRankConfig"),
              ::testing::Contains("x01000000000000000b0000010000000018000000000000003800000000000000" +
                                  little_endian(hash_of("data 1")) + "02000000010000000300000000000000"));
  const std::string old = write(rich_plan("2.22"))[3];
  EXPECT_THAT(
      blobs(old, "ncclCommInitRank"),
      ::testing::Contains("x010000000000000000000001000000000c000000000000002c00000000000000010000000200000003000000"));
}

TEST_F(Payload, SendAndReceiveNameTheirPeer) {
  // Rank 4 is the second stage of pipeline {0, 4}: its peer is member 0.
  const std::string path = write(rich_plan("2.27"))[4];
  const std::string rest = little_endian(hash_of("pipeline 0")) + "00000001000000000000000000000000";
  EXPECT_THAT(blobs(path, "ncclSend"),
              ::testing::Contains("x0100000000000000090000010000000018000000000000003800000000000000" + rest));
  EXPECT_THAT(blobs(path, "ncclRecv"),
              ::testing::Contains("x01000000000000000a0000010000000018000000000000003800000000000000" + rest));
  for (const char* silent : {"ncclGroupStart", "ncclGroupEnd"})
    EXPECT_THAT(blobs(path, silent), ::testing::ElementsAre("NULL"));
}

TEST_F(Payload, HexTextIsTheSameBytesAsText) {
  JobPlan plan = rich_plan("2.27");
  const std::vector<std::string> binary = blobs(write(plan)[0], "ncclReduceScatter");
  plan.export_style.payload = PayloadStyle::hex_text;
  std::vector<std::string> text = blobs(write(plan)[0], "ncclReduceScatter");
  for (std::string& value : text) value.insert(0, "x");
  EXPECT_EQ(text, binary);
  EXPECT_FALSE(binary.empty());
}

TEST_F(Payload, JsonIsKeyedByLabel) {
  JobPlan plan = rich_plan("2.27");
  plan.export_style.payload = PayloadStyle::json;
  const std::string path = write(plan)[0];
  EXPECT_THAT(blobs(path, "ncclAllReduce", "jsonText"),
              ::testing::Contains("{\"NCCL communicator ID\":" + std::to_string(hash_of("data 0")) +
                                  ",\"Message size [bytes]\":1193046,\"Reduction operation\":0}"));
  EXPECT_THAT(blobs(path, "ncclAllReduce"), ::testing::ElementsAre("NULL"));
}

TEST_F(Payload, NoneLeavesTheDefaultExport) {
  JobPlan plan = rich_plan("2.27");
  plan.export_style.payload = PayloadStyle::none;
  const std::string path = write(plan)[0];
  EXPECT_EQ(number(path, "SELECT count(binaryData) + count(jsonText) FROM NVTX_EVENTS"), 0);
  EXPECT_GT(number(path, "SELECT count(*) FROM NVTX_PAYLOAD_SCHEMAS"), 0);  // present in real default exports, too
}

TEST_F(Payload, DynamicTablesHoldOneColumnPerField) {
  JobPlan plan = rich_plan("2.27");
  plan.export_style.payload = PayloadStyle::dynamic_tables;
  plan.export_style.nsys_version = "2026.4";
  const std::string path = write(plan)[0];
  const std::string pid = query(path, "SELECT DISTINCT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL").at(0).at(0);
  const std::string table = "DYNAMIC_NVTXPAYLOAD_DATATYPE_" + pid + "_1_16777221";
  EXPECT_THAT(column_list(path, table),
              ::testing::ElementsAre("eventId", "NCCL_communicator_ID", "Message_size__bytes_", "Reduction_operation"));
  EXPECT_EQ(number(path, "SELECT count(*) FROM " + table +
                             " d JOIN NVTX_EVENTS e USING (eventId) JOIN StringIds s ON s.id "
                             "= e.textId WHERE s.value = 'ncclAllReduce'"),
            number(path, "SELECT count(*) FROM " + table));
  EXPECT_EQ(
      query(path, "SELECT originalName FROM NVTX_EXPORT_TRANSLATION WHERE sanitizedName = 'Message_size__bytes_'"),
      (Rows{{"Message size [bytes]"}}));
  EXPECT_EQ(number(path, "SELECT count(*) FROM NVTX_EVENTS_PAYLOAD_SCHEMAS"),
            number(path,
                   "SELECT count(*) FROM NVTX_EVENTS e JOIN StringIds s ON s.id = e.textId WHERE s.value NOT LIKE "
                   "'ncclGroup%'"));
}

/// (function id, size, fields "label@offset") of the schema tables.
using Layouts = std::map<std::string, std::string>;

Layouts layouts_of(const std::string& path) {
  Layouts layouts;
  for (const auto& row : query(path, "SELECT DISTINCT schemaId - 16777216, payloadSize FROM NVTX_PAYLOAD_SCHEMAS"))
    layouts[row[0]] = row[1] + ":";
  for (const auto& row : query(path,
                               "SELECT DISTINCT schemaId - 16777216, idx, name, coalesce(offset, 0), type FROM "
                               "NVTX_PAYLOAD_SCHEMA_ENTRIES ORDER BY 1, 2"))
    layouts[row[0]] += " " + row[2] + "@" + row[3] + "/" + row[4];
  return layouts;
}

TEST_F(Payload, LayoutsOf224) {
  const Layouts all = layouts_of(write(rich_plan("2.24"))[0]);
  EXPECT_EQ(all.at("11"), "12: Rank@0/5 No. of ranks@4/5 CUDA device@8/5");
  EXPECT_EQ(all.at("4"), "8: Message size [bytes]@0/22");
  EXPECT_EQ(all.at("5"), "16: Message size [bytes]@0/22 Reduction operation@8/16777230");
  EXPECT_EQ(all.at("6"), "16: Bytes@0/22 Root@8/5");
  EXPECT_EQ(all.at("7"), "16: Message size [bytes]@0/22 Reduction operation@8/16777230");
  EXPECT_EQ(all.at("8"), "16: Message size [bytes]@0/22 Root@8/5 Reduction operation@12/16777230");
  EXPECT_EQ(all.at("9"), "16: Bytes@0/22 Peer rank@8/5");
  EXPECT_EQ(all.at("10"), "16: Bytes@0/22 Peer rank@8/5");
  EXPECT_EQ(all.at("2"), "12: Rank@0/5 No. of ranks@4/5 CUDA device@8/5");
  EXPECT_EQ(all.size(), 9U);
}

TEST_F(Payload, LayoutsOf230) {
  const Layouts all = layouts_of(write(rich_plan("2.30"))[0]);
  const std::string head = "NCCL communicator ID@0/18";
  EXPECT_EQ(all.at("11"), "24: " + head + " No. of ranks@8/5 Rank@12/5 CUDA device@16/5");
  EXPECT_EQ(all.at("2"), "24: " + head + " No. of ranks@8/5 Rank@12/5 CUDA device@16/5");
  EXPECT_EQ(all.at("4"), "16: " + head + " Message size [bytes]@8/22");
  EXPECT_EQ(all.at("5"), "24: " + head + " Message size [bytes]@8/22 Reduction operation@16/16777240");
  EXPECT_EQ(all.at("6"), "24: " + head + " Message size [bytes]@8/22 Root@16/5");
  EXPECT_EQ(all.at("8"), "24: " + head + " Message size [bytes]@8/22 Root@16/5 Reduction operation@20/16777240");
  EXPECT_EQ(all.at("9"), "24: " + head + " Message size [bytes]@8/22 Peer rank@16/5");
  EXPECT_EQ(all.at("16"), "16: " + head + " Message size [bytes]@8/22");  // its own all-to-all
}

TEST_F(Payload, ReductionEnumMovesWithTheVersion) {
  const std::map<std::string, std::string> expected{{"2.22", "16777227"}, {"2.23", "16777230"}, {"2.25", "16777230"},
                                                    {"2.26", "16777231"}, {"2.27", "16777232"}, {"2.28", "16777236"},
                                                    {"2.29", "16777240"}};
  for (const auto& [nccl, type] : expected)
    EXPECT_EQ(query(write(rich_plan(nccl.c_str()))[0],
                    "SELECT DISTINCT type FROM NVTX_PAYLOAD_SCHEMA_ENTRIES WHERE name = 'Reduction operation'"),
              (Rows{{type}}))
        << nccl;
}

TEST_F(Payload, KernelNamesFollowTheVersion) {
  const auto name = [&](const char* nccl) {
    return query(write(rich_plan(nccl))[0],
                 "SELECT DISTINCT s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName "
                 "WHERE "
                 "s.value LIKE 'nccl%AllReduce%'")
        .at(0)
        .at(0);
  };
  EXPECT_EQ(name("2.18"), "ncclKernel_AllReduce_RING_LL_Sum_bfloat(ncclDevComm *, unsigned long, ncclWork *)");
  EXPECT_EQ(name("2.20"), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm *, unsigned long, ncclWork *)");
  EXPECT_EQ(name("2.27"), "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)");
}

}  // namespace
}  // namespace nsys_explain::synth
