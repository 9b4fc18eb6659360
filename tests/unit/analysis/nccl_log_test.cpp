#include "analysis/tables/side_files.hpp"

#include <string>

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

/// Two hosts with two GPUs each, as NCCL 2.2x logs them; what a launcher puts before lines, and lines of others
/// between.
constexpr const char* log_of_four =
    "node1:100:100 [0] NCCL INFO cudaDriverVersion 12040\n"
    "NCCL version 2.21.5+cuda12.4\n"
    "node1:100:110 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>\n"
    "node1:100:110 [0] NCCL INFO Using network IB\n"
    "node1:101:111 [1] NCCL INFO Using network IB\n"
    "2: node2:200:210 [0] NCCL INFO Using network IB\n"
    "node1:100:110 [0] NCCL INFO ncclCommInitRank comm 0x55aa rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 7000 commId 0x49bbd7790311d5eb - Init START\n"
    "node1:101:111 [1] NCCL INFO ncclCommInitRank comm 0x55ab rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId b000 commId 0x49bbd7790311d5eb - Init START\n"
    "2: node2:200:210 [0] NCCL INFO ncclCommInitRank comm 0x55ac rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 7000 commId 0x49bbd7790311d5eb - Init START\n"
    "node1:100:110 [0] NCCL INFO comm 0x55aa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0\n"
    "node1:100:110 [0] NCCL INFO Channel 00/02 :    0   1   2   3\n"
    "node1:100:110 [0] NCCL INFO Trees [0] 1/2/-1->0->-1 [1] 1/-1/-1->0->2\n"
    "node1:100:110 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node1:100:110 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n"
    "node1:101:111 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct\n"
    "node1:101:111 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA\n"
    "2: node2:200:210 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA\n"
    "2: node2:200:210 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[1] via P2P/IPC\n"
    "node1:100:110 [0] NCCL INFO 16 coll channels, 16 collnet channels, 8 nvls channels, 32 p2p channels, 2 p2p channels per peer\n"
    "node1:100:110 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}\n"
    "node1:100:110 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo Ring proto Simple channel{Lo..Hi}={0..15}\n"
    "node1:100:110 [0] NCCL INFO AllGather: 4096 Bytes -> Algo 1 proto 0 time 12.3\n"
    "Epoch 1: loss 3.5\n"
    "node1:100:110 [0] NCCL INFO NCCL_SECRET set by environment to hunter2\n";

TEST(NcclLog, MembersAreNamedOnce) {
  NcclLog log;
  add_nccl_log(log_of_four, log);
  ASSERT_EQ(log.members.size(), 3U) << "rank 3 logged nothing";
  const LoggedMember& first = log.members.at({"0x49bbd7790311d5eb", 0});
  EXPECT_EQ(first.host, "node1");
  EXPECT_EQ(first.version, "2.21.5+cuda12.4");
  EXPECT_EQ(first.network, "IB");
  EXPECT_EQ(first.process_id, 100);
  EXPECT_EQ(first.ranks, 4);
  EXPECT_EQ(first.nodes, 2);
  EXPECT_EQ(first.collective_channels, 16);
  EXPECT_EQ(first.nvls_channels, 8);
  EXPECT_EQ(first.p2p_channels, 32);
  const LoggedMember& third = log.members.at({"0x49bbd7790311d5eb", 2});
  EXPECT_EQ(third.host, "node2") << "the launcher's label is no part of it";
  EXPECT_EQ(third.cuda_device, 0);
  EXPECT_EQ(third.collective_channels, -1);
}

TEST(NcclLog, ConnectionsCountChannelsOnce) {
  NcclLog log;
  add_nccl_log(log_of_four, log);
  const std::vector<Table> tables = nccl_log_tables(log);
  const Table& connections = tables[1];
  ASSERT_EQ(connections.row_count(), 4U);
  const auto row = [&](std::size_t i) {
    return std::to_string(column<std::int64_t>(connections, "from_rank")[i]) + " -> " +
           std::to_string(column<std::int64_t>(connections, "to_rank")[i]) + " " +
           column<std::string>(connections, "transport")[i] + " " +
           std::to_string(column<std::int64_t>(connections, "same_host")[i]) + " " +
           std::to_string(column<std::int64_t>(connections, "channels")[i]);
  };
  EXPECT_EQ(row(0), "0 -> 1 P2P/CUMEM 1 2");
  EXPECT_EQ(row(1), "1 -> 0 SHM/direct 1 1");
  EXPECT_EQ(row(2), "1 -> 2 NET/IB/GDRDMA 0 1") << "both ends logged it";
  EXPECT_EQ(row(3), "2 -> 3 P2P/IPC -1 1") << "where rank 3 is nobody logged";
  EXPECT_EQ(column<std::string>(connections, "communicator")[0], "0x49bbd7790311d5eb");
}

TEST(NcclLog, ChoicesOfOldAndNewReleases) {
  NcclLog log;
  add_nccl_log(log_of_four, log);
  ASSERT_EQ(log.choices.size(), 2U);
  EXPECT_EQ(log.choices.at({"AllReduce", 1'048'576, "RING", "SIMPLE"}), 2);
  EXPECT_EQ(log.choices.at({"AllGather", 4'096, "RING", "LL"}), 1);
}

TEST(NcclLog, NothingElseOfALogIsKept) {
  NcclLog log;
  add_nccl_log(log_of_four, log);
  for (const Table& table : nccl_log_tables(log)) {
    for (const ColumnData& data : table.columns) {
      if (const auto* texts = std::get_if<TextColumn>(&data)) {
        for (const std::string& text : texts->distinct()) EXPECT_EQ(text.find("hunter2"), std::string::npos);
      }
    }
  }
}

TEST(NcclLog, DamagedLinesAreNoLines) {
  NcclLog log;
  add_nccl_log(
      "NCCL INFO\n"
      "a NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
      "n:1:2 [0] NCCL INFO Channel 00/0 : x[0] -> 1[1] via P2P/IPC\n"
      "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> via\n"
      "n:1:2 [ NCCL INFO comm 0x1 rank 0 nranks 2 commId zz - Init START\n"
      "n:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev\n"
      "n:1:2 [0] NCCL INFO  Bytes -> Algo\n"
      "n:1:2 [0] NCCL INFO AllReduce: 99999999999999999999 Bytes -> Algo RING proto LL\n",
      log);
  EXPECT_TRUE(log.members.empty());
  EXPECT_TRUE(log.connections.empty());
  EXPECT_TRUE(log.choices.empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
