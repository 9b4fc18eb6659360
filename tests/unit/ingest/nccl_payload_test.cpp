#include "ingest/nccl_payload.hpp"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "unit/ingest/export_fixture.hpp"

namespace nsys_explain::ingest {
namespace {

/// Bytes written field by field, as a little-endian machine lays out the C struct.
class Bytes {
 public:
  Bytes& u64(std::uint64_t value) { return add(value, 8); }
  Bytes& i32(std::int32_t value) { return add(static_cast<std::uint32_t>(value), 4); }
  Bytes& padding(int bytes) { return add(0, bytes); }
  const std::string& get() const { return bytes_; }

 private:
  Bytes& add(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string bytes_;
};

/// What nsys stores in binaryData: four numbers, then the payload.
std::string blob(std::uint64_t nccl_schema, const std::string& payload, std::uint64_t domain = 1) {
  return Bytes().u64(domain).u64(16777216 + nccl_schema).u64(payload.size()).u64(32 + payload.size()).get() + payload;
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    constexpr const char* digits = "0123456789ABCDEF";
    text += digits[static_cast<unsigned char>(c) >> 4];
    text += digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

constexpr std::uint64_t hash = 0xF123456789ABCDEF;

class NcclBlobTest : public testing::ScratchTest {
 protected:
  NcclBlobTest() { testing::Writer{file()}("CREATE TABLE StringIds (id INTEGER, value TEXT)"); }

  /// Decoded without any schema table in the export.
  std::optional<NcclPayload> decode(const std::string& stored) { return decode_with(stored, ""); }
  std::optional<NcclPayload> decode_with(const std::string& stored, const std::string& schema_sql) {
    std::filesystem::remove(file("schemas.sqlite"));
    testing::Writer sql(file("schemas.sqlite"));
    sql("CREATE TABLE NVTX_PAYLOAD_SCHEMAS (domainId, schemaId, name, type, flags, numEntries, payloadSize, alignTo);"
        "CREATE TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES (domainId, schemaId, idx, flags, type, name, description,"
        "arrayOrUnionDetail, offset);" +
        schema_sql);
    const Database database(file("schemas.sqlite"), OpenMode::read_only);
    return decode_binary_payload(stored, PayloadSchemas(database));
  }
};

TEST_F(NcclBlobTest, LayoutsUpTo224HaveNoCommunicator) {
  EXPECT_EQ(decode(blob(4, Bytes().u64(4096).get())), (NcclPayload{.bytes = 4096})) << "AllGather";
  EXPECT_EQ(decode(blob(5, Bytes().u64(4096).i32(2).padding(4).get())), (NcclPayload{.bytes = 4096})) << "AllReduce";
  EXPECT_EQ(decode(blob(7, Bytes().u64(4096).i32(2).padding(4).get())), (NcclPayload{.bytes = 4096}))
      << "ReduceScatter";
  EXPECT_EQ(decode(blob(6, Bytes().u64(64).i32(3).padding(4).get())), (NcclPayload{.bytes = 64, .peer_or_root = 3}))
      << "Broadcast";
  EXPECT_EQ(decode(blob(8, Bytes().u64(64).i32(3).i32(9).get())), (NcclPayload{.bytes = 64, .peer_or_root = 3}))
      << "Reduce";
  for (const int send_or_recv : {9, 10}) {
    EXPECT_EQ(decode(blob(send_or_recv, Bytes().u64(64).i32(5).padding(4).get())),
              (NcclPayload{.bytes = 64, .peer_or_root = 5}));
  }
}

TEST_F(NcclBlobTest, RankComesBeforeSizeUpTo224AndAfterItFrom225) {
  const NcclPayload old_member{.rank = 3, .rank_count = 8, .device = 1};
  for (const int schema : {0, 2, 3, 11, 12}) {
    EXPECT_EQ(decode(blob(schema, Bytes().i32(3).i32(8).i32(1).get())), old_member) << schema;
  }
  EXPECT_EQ(decode(blob(13, Bytes().i32(3).i32(8).i32(1).i32(0).i32(7).get())), old_member) << "CommSplit 2.23";
  EXPECT_EQ(decode(blob(1, Bytes().i32(4).get())), (NcclPayload{.rank_count = 4})) << "CommInitAll";

  const NcclPayload member{.communicator = hash, .rank = 3, .rank_count = 8, .device = 1};
  for (const int schema : {0, 2, 3, 11, 12, 19}) {
    EXPECT_EQ(decode(blob(schema, Bytes().u64(hash).i32(8).i32(3).i32(1).padding(4).get())), member) << schema;
  }
  EXPECT_EQ(decode(blob(15, Bytes().u64(hash).i32(8).i32(3).i32(1).i32(2).get())), member) << "CommShrink";
  EXPECT_EQ(decode(blob(13, Bytes().u64(hash).u64(77).i32(8).i32(3).i32(1).i32(0).i32(3).padding(4).get())), member)
      << "CommSplit: the new communicator, not its parent";
  EXPECT_EQ(decode(blob(20, Bytes().u64(hash).u64(77).i32(8).i32(3).i32(1).padding(4).get())), member) << "CommGrow";
  EXPECT_EQ(decode(blob(1, Bytes().u64(hash).i32(4).padding(4).get())),
            (NcclPayload{.communicator = hash, .rank_count = 4}));
  EXPECT_EQ(decode(blob(14, Bytes().u64(hash).get())), (NcclPayload{.communicator = hash})) << "CommFinalize";
}

TEST_F(NcclBlobTest, LayoutsFrom225StartWithTheCommunicator) {
  const NcclPayload size{.communicator = hash, .bytes = 1 << 20};
  EXPECT_EQ(decode(blob(4, Bytes().u64(hash).u64(1 << 20).get())), size) << "AllGather";
  EXPECT_EQ(decode(blob(16, Bytes().u64(hash).u64(1 << 20).get())), size) << "AlltoAll";
  EXPECT_EQ(decode(blob(5, Bytes().u64(hash).u64(1 << 20).i32(4).padding(4).get())), size) << "AllReduce";
  EXPECT_EQ(decode(blob(7, Bytes().u64(hash).u64(1 << 20).i32(4).padding(4).get())), size) << "ReduceScatter";
  const NcclPayload size_peer{.communicator = hash, .bytes = 1 << 20, .peer_or_root = 6};
  for (const int schema : {6, 9, 10, 17, 18}) {
    EXPECT_EQ(decode(blob(schema, Bytes().u64(hash).u64(1 << 20).i32(6).padding(4).get())), size_peer) << schema;
  }
  EXPECT_EQ(decode(blob(8, Bytes().u64(hash).u64(1 << 20).i32(6).i32(0).get())), size_peer) << "Reduce";
  EXPECT_EQ(decode(blob(21, Bytes().u64(hash).u64(1 << 20).i32(6).i32(0).get())), size_peer) << "PutSignal";
  EXPECT_EQ(decode(blob(22, Bytes().u64(hash).i32(6).i32(0).get())),
            (NcclPayload{.communicator = hash, .peer_or_root = 6}))
      << "Signal";
  EXPECT_EQ(decode(blob(23, Bytes().u64(hash).i32(2).i32(0).get())), (NcclPayload{.communicator = hash}))
      << "WaitSignal";
}

TEST_F(NcclBlobTest, HexTextMeansTheSameAsBytes) {
  const std::string stored = blob(4, Bytes().u64(hash).u64(4096).get());
  const NcclPayload expected{.communicator = hash, .bytes = 4096};
  EXPECT_EQ(decode(stored), expected);
  EXPECT_EQ(decode(hex(stored)), expected);
  EXPECT_EQ(decode("0x" + hex(stored)), expected);
  EXPECT_EQ(decode(hex(stored).substr(1)), std::nullopt);
}

TEST_F(NcclBlobTest, TheFourthNumberOfTheHeaderDoesNotMatter) {
  const std::string payload = Bytes().u64(hash).u64(4096).get();
  const std::string offset = Bytes().u64(1).u64(16777216 + 4).u64(16).u64(32).get() + payload;
  EXPECT_EQ(decode(offset), (NcclPayload{.communicator = hash, .bytes = 4096}));
}

TEST_F(NcclBlobTest, NothingIsGuessed) {
  const std::string payload = Bytes().u64(hash).u64(4096).get();
  EXPECT_EQ(decode(""), std::nullopt);
  EXPECT_EQ(decode(std::string(31, '\0')), std::nullopt) << "shorter than its header";
  EXPECT_EQ(decode(blob(4, payload).substr(0, 40)), std::nullopt) << "shorter than it says";
  EXPECT_EQ(decode(blob(4, payload + "x")), std::nullopt) << "no layout of AllGather has 17 bytes";
  EXPECT_EQ(decode(blob(99, payload)), std::nullopt) << "unknown call";
  EXPECT_EQ(decode(blob(4, Bytes().u64(hash).u64(1ULL << 60).get())), std::nullopt) << "an exabyte in one call";
  EXPECT_EQ(decode(blob(2, Bytes().u64(hash).i32(8).i32(8).i32(0).padding(4).get())), std::nullopt)
      << "rank 8 of 8 ranks";
  EXPECT_EQ(decode(Bytes().u64(1).u64(16777220).u64(~0ULL).u64(0).get()), std::nullopt) << "an endless payload";
}

TEST_F(NcclBlobTest, ACallOnANullCommunicatorLogsZeros) {
  EXPECT_EQ(decode(blob(2, Bytes().u64(0).i32(0).i32(0).i32(0).padding(4).get())),
            (NcclPayload{.rank = 0, .rank_count = 0, .device = 0}));
}

TEST_F(NcclBlobTest, TheExportsOwnSchemaCountsMoreThanTheBuiltInOnes) {
  // A made-up future AllGather: bytes first, then a new number, then the communicator. Every row twice, as nsys writes
  // one copy for each process; NULL offset means 0.
  const std::string rows =
      "INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, 16777220, NULL, 1, NULL, 3, 24, NULL);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 16777220, 0, NULL, 22, 'Message size [bytes]', NULL, NULL,"
      "NULL), (1, 16777220, 1, NULL, 5, 'Something new', NULL, NULL, 8), (1, 16777220, 2, NULL, 18,'NCCL communicator ID', NULL, NULL, 16);";
  const std::string payload = Bytes().u64(4096).i32(7).padding(4).u64(hash).get();
  EXPECT_EQ(decode_with(blob(4, payload), rows + rows), (NcclPayload{.communicator = hash, .bytes = 4096}));
  EXPECT_EQ(decode(blob(4, payload)), std::nullopt) << "without the schema the layout is unknown";
  EXPECT_EQ(decode_with(blob(4, Bytes().u64(hash).u64(4096).get()), rows), std::nullopt)
      << "16 bytes contradict the schema's 24";
}

TEST_F(NcclBlobTest, ContradictingSchemasFallBackToTheBuiltInLayoutOfThatSize) {
  // Process A has NCCL 2.27 in domain 1, process B an older one (8 bytes): the table does not say which is which.
  const std::string rows =
      "INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, 16777220, NULL, 1, NULL, 2, 16, NULL), (1, 16777220, NULL, 1, NULL,"
      "1, 8, NULL);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 16777220, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL,"
      "NULL), (1, 16777220, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8), (1, 16777220, 0, NULL, 22,'Message size [bytes]', NULL, NULL, NULL);";
  EXPECT_EQ(decode_with(blob(4, Bytes().u64(hash).u64(4096).get()), rows),
            (NcclPayload{.communicator = hash, .bytes = 4096}));
  EXPECT_EQ(decode_with(blob(4, Bytes().u64(64).get()), rows), (NcclPayload{.bytes = 64}));
}

TEST_F(NcclBlobTest, TheSchemaTablesOfARealExportOfNccl227Decode) {
  // As in a public 2026.2.1 export: ReduceScatter with the reduction as an enum type.
  const std::string rows =
      "INSERT INTO NVTX_PAYLOAD_SCHEMAS VALUES (1, 16777223, NULL, 1, NULL, 3, 24, NULL);"
      "INSERT INTO NVTX_PAYLOAD_SCHEMA_ENTRIES VALUES (1, 16777223, 0, NULL, 18, 'NCCL communicator ID', NULL, NULL,"
      "NULL), (1, 16777223, 1, NULL, 22, 'Message size [bytes]', NULL, NULL, 8), (1, 16777223, 2, NULL, 16777232,'Reduction operation', NULL, NULL, 16);";
  EXPECT_EQ(decode_with(blob(7, Bytes().u64(hash).u64(4096).i32(0).padding(4).get()), rows),
            (NcclPayload{.communicator = hash, .bytes = 4096}));
}

TEST(NcclJsonTest, LegacyLabelsAreKeys) {
  EXPECT_EQ(decode_json_payload(R"({"NCCL communicator ID": 17370112034559151599, "Message size [bytes]": 4096,
                                    "Reduction operation": "Sum"})"),
            (NcclPayload{.communicator = 17370112034559151599ULL, .bytes = 4096}));
  EXPECT_EQ(decode_json_payload(R"({"Bytes": "512", "Peer rank": 3})"), (NcclPayload{.bytes = 512, .peer_or_root = 3}));
  EXPECT_EQ(decode_json_payload(R"({"NCCL communicator ID": "0xff", "Parent NCCL communicator ID": 9,
                                    "No. of ranks": 8, "Rank": 7, "CUDA device": 0, "Color": 1, "Key": 2})"),
            (NcclPayload{.communicator = 255, .rank = 7, .rank_count = 8, .device = 0}));
}

TEST(NcclJsonTest, TheAdvancedTraceGivesCountAndTypeAndMore) {
  EXPECT_EQ(
      decode_json_payload(R"({"communicator": {"commHash": 99, "rank": 2, "nRanks": 16}, "count": 1024,
                                    "datatype": "ncclBfloat16", "seqNumber": 41, "apiId": 7, "unknown": [1, {}]})"),
      (NcclPayload{.communicator = 99, .bytes = 2048, .sequence = 41, .call_id = 7, .rank = 2, .rank_count = 16}));
  EXPECT_EQ(decode_json_payload(R"({"count": 10, "datatype": 7})"), (NcclPayload{.bytes = 40})) << "7 is ncclFloat32";
  EXPECT_TRUE(decode_json_payload(R"({"apiId": 7, "channel": 3})")->is_one_channel);
}

TEST(NcclJsonTest, WhatIsNoPayloadIsNotDecoded) {
  for (const char* text : {"", "{", "null", "[]", "{}", "5", R"({"Name": "conv1", "Inputs": [{"Dimensions": [1]}]})",
                           R"({"Message size [bytes]": -4})"}) {
    EXPECT_EQ(decode_json_payload(text), std::nullopt) << text;
  }
}

TEST(NcclLabelTest, LegacyAndAdvancedNames) {
  struct Case {
    const char* label;
    NcclFunction function;
    bool is_legacy;
  };
  for (const auto& [label, function, is_legacy] : std::vector<Case>{
           {"ncclAllReduce", NcclFunction::all_reduce, true},
           {"AllReduce", NcclFunction::all_reduce, false},
           {"ncclAlltoAll", NcclFunction::all_to_all, true},
           {"ncclBcast", NcclFunction::broadcast, true},
           {"ncclReduceScatter", NcclFunction::reduce_scatter, true},
           {"ncclGroupStart", NcclFunction::group_start, true},
           {"ncclGroupEnd", NcclFunction::group_end, true},
           {"API Group", NcclFunction::group_start, false},
           {"GroupLaunch", NcclFunction::group_end, false},
           {"ncclCommInitRankConfig", NcclFunction::comm_init, true},
           {"CommInit", NcclFunction::comm_init, false},
           {"ncclCommSplit", NcclFunction::comm_split, true},
           {"ncclCommFinalize", NcclFunction::comm_destroy, true},
           {"ncclCommCount", NcclFunction::other, true},
           {"KernelLaunch", NcclFunction::other, false},
       }) {
    const auto parsed = parse_nccl_label(label);
    ASSERT_TRUE(parsed) << label;
    EXPECT_EQ(parsed->function, function) << label;
    EXPECT_EQ(parsed->is_legacy, is_legacy) << label;
  }
  for (const char* text : {"", "nccl", "nccl:all_reduce", "ncclish", "forward", "allreduce"}) {
    EXPECT_FALSE(parse_nccl_label(text)) << text;
  }
}

}  // namespace
}  // namespace nsys_explain::ingest
