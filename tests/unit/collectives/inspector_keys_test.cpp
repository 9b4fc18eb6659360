#include "collectives/inspector_keys.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/extraction.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t world = 0xabcdef0123456789;
constexpr std::uint64_t other = 0x1111222233334444;
constexpr Nanoseconds us = 1'000;

/// Kernels on streams, and a log that says what each of them was. Durations vary as waits do.
class Rank {
 public:
  /// A kernel, and its record unless `logged` is false.
  void run(Operation operation, std::uint64_t communicator, std::uint64_t lane, Nanoseconds duration_ns,
           bool logged = true) {
    TraceArrival arrival;
    arrival.enter = TraceTime(now_ns_);
    arrival.exit = arrival.enter + duration_ns;
    arrival.operation = operation;
    arrival.communicator = lane;
    arrival.index = static_cast<std::int32_t>(arrivals.size());
    now_ns_ += duration_ns + 50 * us;
    InspectorRecord record;
    record.communicator = communicator;
    record.operation = operation;
    record.sequence = sequence_[{communicator, operation}]++;
    record.bytes = 1 << 20;
    record.duration_ns = (duration_ns - 3 * us) / us * us;
    record.end_ns = arrival.exit.ns + 40 * us;
    record.dumped_ns = 1'000'000 * us;
    expected.push_back(record.sequence);
    arrivals.push_back(arrival);
    if (logged) records.push_back(record);
  }
  void lose(std::size_t kernel) {
    arrivals.erase(arrivals.begin() + static_cast<std::ptrdiff_t>(kernel));
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(kernel));
  }
  std::vector<std::int64_t> sequences() const {
    std::vector<std::int64_t> result;
    for (const TraceArrival& arrival : arrivals) result.push_back(arrival.sequence);
    return result;
  }
  void forget_times() {
    for (InspectorRecord& record : records) record.end_ns = no_time;
  }

  std::vector<TraceArrival> arrivals;
  std::vector<InspectorRecord> records;
  std::vector<std::int64_t> expected;

 private:
  std::map<std::pair<std::uint64_t, Operation>, std::int64_t> sequence_;
  Nanoseconds now_ns_ = 5'000 * us;
};

/// 20 kernels of one communicator; every third takes as long as the others of its kind.
Rank one_communicator() {
  Rank rank;
  for (int i = 0; i < 20; ++i)
    rank.run(Operation::all_reduce, world, 0, i % 3 == 0 ? 300 * us : (400 + 97 * (i * 7 % 20)) * us);
  return rank;
}

TEST(InspectorKeys, EveryKernelTakesItsNumber) {
  Rank rank = one_communicator();
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(rank.sequences(), rank.expected);
  for (const TraceArrival& arrival : rank.arrivals) {
    EXPECT_EQ(arrival.communicator, world);
    EXPECT_EQ(arrival.call_bytes, 1 << 20);
    EXPECT_EQ(arrival.evidence, Evidence::nccl_payload);
    EXPECT_EQ(arrival.position, arrival.index);
  }
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_EQ(coverage[0].communicator, world);
  EXPECT_EQ(coverage[0].records, 20);
  EXPECT_EQ(coverage[0].keyed, 20);
  EXPECT_EQ(coverage[0].contradicting, 0);
}

TEST(InspectorKeys, WithoutTimesOrderAndDurationsTell) {
  Rank rank = one_communicator();
  rank.forget_times();
  apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(rank.sequences(), rank.expected);
}

TEST(InspectorKeys, HolesOfTheLogAreCountedOver) {
  Rank rank = one_communicator();
  for (const std::size_t hole : {13U, 7U, 6U, 2U}) rank.records.erase(rank.records.begin() + hole);
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(rank.sequences(), rank.expected);
  EXPECT_EQ(coverage.at(0).keyed, 20);
  EXPECT_EQ(rank.arrivals[7].call_bytes, -1) << "its record is lost, its number is not";
}

TEST(InspectorKeys, ALostKernelMovesNoNumber) {
  for (std::size_t lost = 0; lost < 20; ++lost) {
    for (const bool with_times : {true, false}) {
      Rank rank = one_communicator();
      rank.lose(lost);
      if (!with_times) rank.forget_times();
      apply_inspector_log(rank.arrivals, rank.records);
      std::size_t keyed = 0;
      for (std::size_t a = 0; a < rank.arrivals.size(); ++a) {
        if (rank.arrivals[a].sequence < 0) continue;
        EXPECT_EQ(rank.arrivals[a].sequence, rank.expected[a]) << "kernel " << a << ", lost " << lost;
        ++keyed;
      }
      EXPECT_GE(keyed, with_times ? 19U : 15U) << "lost " << lost;
    }
  }
}

TEST(InspectorKeys, CommunicatorsThatTakeTurnsOnAStreamAreToldApart) {
  Rank rank;
  for (int i = 0; i < 24; ++i)
    rank.run(Operation::all_reduce, i % 3 == 0 ? other : world, 0, (300 + 61 * (i * 11 % 24)) * us);
  apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(rank.sequences(), rank.expected);
  for (std::size_t a = 0; a < rank.arrivals.size(); ++a)
    EXPECT_EQ(rank.arrivals[a].communicator, a % 3 == 0 ? other : world);
}

TEST(InspectorKeys, SmallOperationsThatAreNotLoggedKeepTheirStream) {
  Rank rank = one_communicator();
  rank.run(Operation::broadcast, world, 0, 30 * us, false);
  rank.run(Operation::broadcast, world, 5, 30 * us, false);  // on a stream that the log says nothing of
  apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(rank.arrivals[20].communicator, world);
  EXPECT_EQ(rank.arrivals[20].evidence, Evidence::order);
  EXPECT_EQ(rank.arrivals[20].sequence, -1);
  EXPECT_EQ(rank.arrivals[21].communicator, 5U);
}

TEST(InspectorKeys, TheLogOfAnotherRunTellsNothing) {
  Rank rank = one_communicator();
  for (InspectorRecord& record : rank.records) {
    record.end_ns += 3'600'000'000'000;
    record.dumped_ns += 3'600'000'000'000;
  }
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(std::count(rank.expected.begin(), rank.expected.end(), -1), 0);
  for (const TraceArrival& arrival : rank.arrivals) {
    EXPECT_EQ(arrival.sequence, -1);
    EXPECT_EQ(arrival.communicator, 0U);
  }
  EXPECT_EQ(coverage.at(0).keyed, 0);
}

TEST(InspectorKeys, WhereTraceAndLogContradictTheTraceCounts) {
  Rank rank = one_communicator();
  for (std::size_t a = 0; a < rank.arrivals.size(); ++a) {
    rank.arrivals[a].communicator = other;  // as a payload of the trace says
    rank.arrivals[a].evidence = Evidence::nccl_payload;
  }
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  for (const TraceArrival& arrival : rank.arrivals) {
    EXPECT_EQ(arrival.communicator, other);
    EXPECT_EQ(arrival.sequence, -1);
  }
  EXPECT_EQ(coverage.at(0).keyed, 0);
  EXPECT_EQ(coverage.at(0).contradicting, 13) << "the others fit several kernels";
}

TEST(InspectorKeys, RecordsInAnotherOrderThanKernelsAreNotBelieved) {
  Rank rank = one_communicator();
  std::vector<std::int64_t> turned;
  for (const InspectorRecord& record : rank.records) turned.push_back(record.sequence);
  std::reverse(turned.begin(), turned.end());
  for (std::size_t r = 0; r < turned.size(); ++r) rank.records[r].sequence = turned[r];
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(coverage.at(0).keyed, 0);
  EXPECT_EQ(coverage.at(0).contradicting, 20);
}

/// Kernels of sends and receives on one stream, 50 us apart, each with records in NCCL's order.
class Stage {
 public:
  void run(Nanoseconds duration_ns, const std::vector<std::pair<Directions, std::int32_t>>& calls) {
    TraceArrival arrival;
    arrival.enter = TraceTime(now_ns_);
    arrival.exit = arrival.enter + duration_ns;
    arrival.operation = Operation::send_recv;
    arrivals.push_back(arrival);
    now_ns_ += duration_ns + 50 * us;
    Nanoseconds early_ns = 0;
    for (const auto& [directions, peer] : calls) {
      InspectorRecord record;
      record.communicator = world;
      record.operation = Operation::send_recv;
      record.sequence = ++sequence_;
      record.bytes = 1'000;
      record.duration_ns = (duration_ns - early_ns - 3 * us) / us * us;
      record.end_ns = arrival.exit.ns - early_ns + 40 * us;
      record.rank = 4;
      record.peer = peer;
      record.directions = directions;
      records.push_back(record);
      early_ns += 60 * us;  // the next of the group is done earlier
    }
  }

  std::vector<TraceArrival> arrivals;
  std::vector<InspectorRecord> records;

 private:
  std::int64_t sequence_ = 0;
  Nanoseconds now_ns_ = 5'000 * us;
};

/// 12 kernels; kernel k sends to peer k % 3 and, where k is even, receives from peer 5 in the same group.
Stage stage() {
  Stage stage;
  for (int k = 0; k < 12; ++k) {
    std::vector<std::pair<Directions, std::int32_t>> calls = {{Directions::sends, k % 3}};
    if (k % 2 == 0) calls.emplace_back(Directions::receives, 5);
    stage.run((300 + 61 * (k * 5 % 12)) * us, calls);
  }
  return stage;
}

TEST(InspectorExchanges, KernelsTakeCommunicatorAndPeer) {
  Stage run = stage();
  const auto coverage = apply_inspector_log(run.arrivals, run.records);
  for (std::size_t k = 0; k < run.arrivals.size(); ++k) {
    const TraceArrival& arrival = run.arrivals[k];
    EXPECT_EQ(arrival.communicator, world);
    EXPECT_EQ(arrival.peer_or_root, k % 2 == 0 ? several_peers : static_cast<std::int32_t>(k % 3)) << k;
    EXPECT_EQ(arrival.directions, k % 2 == 0 ? Directions::both : Directions::sends);
    EXPECT_EQ(arrival.call_bytes, 1'000) << "what it sends";
    // Rank 4 sends to lower ranks only; one in three of the messages goes to each.
    EXPECT_EQ(arrival.sequence, k % 2 == 0 ? -1 : 2 * static_cast<std::int64_t>(k / 3) + 1) << k;
    EXPECT_EQ(arrival.evidence, Evidence::nccl_payload);
  }
  ASSERT_EQ(coverage.size(), 1U);
  EXPECT_EQ(coverage[0].exchanges, 18);
  EXPECT_EQ(coverage[0].keyed_exchanges, 18);
  EXPECT_EQ(coverage[0].exchange_kernels, 12);
  EXPECT_EQ(coverage[0].records, 0);
}

TEST(InspectorExchanges, HalfAKernelNamesNoPeer) {
  for (std::size_t lost = 0; lost < 18; ++lost) {
    Stage run = stage();
    run.records.erase(run.records.begin() + static_cast<std::ptrdiff_t>(lost));
    apply_inspector_log(run.arrivals, run.records);
    for (std::size_t k = 0; k < run.arrivals.size(); ++k) {
      const std::int32_t peer = run.arrivals[k].peer_or_root;
      if (peer == -1 || lost == 17) continue;
      EXPECT_EQ(peer, k % 2 == 0 ? several_peers : static_cast<std::int32_t>(k % 3)) << "kernel " << k << ", " << lost;
    }
  }
}

TEST(InspectorExchanges, ALostKernelMovesNoPeer) {
  for (std::size_t lost = 0; lost < 12; ++lost) {
    Stage run = stage();
    run.arrivals.erase(run.arrivals.begin() + static_cast<std::ptrdiff_t>(lost));
    const auto coverage = apply_inspector_log(run.arrivals, run.records);
    for (std::size_t a = 0; a < run.arrivals.size(); ++a) {
      const std::size_t k = a < lost ? a : a + 1;
      if (run.arrivals[a].peer_or_root == -1) continue;
      EXPECT_EQ(run.arrivals[a].peer_or_root, k % 2 == 0 ? several_peers : static_cast<std::int32_t>(k % 3));
    }
    EXPECT_GE(coverage.at(0).exchange_kernels, 9);
  }
}

TEST(InspectorExchanges, WithoutTimesNothingIsTaken) {
  Stage run = stage();
  for (InspectorRecord& record : run.records) record.end_ns = no_time;
  EXPECT_EQ(apply_inspector_log(run.arrivals, run.records).at(0).keyed_exchanges, 0);
  for (const TraceArrival& arrival : run.arrivals) EXPECT_EQ(arrival.peer_or_root, -1);
}

TEST(InspectorExchanges, WhereTraceAndLogContradictTheTraceCounts) {
  Stage run = stage();
  for (TraceArrival& arrival : run.arrivals) arrival.peer_or_root = 4;
  const auto coverage = apply_inspector_log(run.arrivals, run.records);
  EXPECT_EQ(coverage.at(0).contradicting, 18);
  EXPECT_EQ(coverage.at(0).keyed_exchanges, 0);
  for (const TraceArrival& arrival : run.arrivals) EXPECT_EQ(arrival.peer_or_root, 4);
}

TEST(InspectorKeys, TimesThatDisagreeAreCounted) {
  Rank rank = one_communicator();
  rank.records[5].duration_ns -= 100 * us;
  rank.records[9].duration_ns += 250 * us;
  const auto coverage = apply_inspector_log(rank.arrivals, rank.records);
  EXPECT_EQ(coverage.at(0).compared, 20);
  EXPECT_EQ(coverage.at(0).disagreeing, 2);
  EXPECT_EQ(coverage.at(0).median_difference_ns, 3 * us) << "as the others have it";
  EXPECT_EQ(coverage.at(0).largest_difference_ns, -247 * us);
}

TEST(InspectorKeys, WithoutALogNothingChanges) {
  Rank rank = one_communicator();
  rank.arrivals[3].position = 7;
  EXPECT_TRUE(apply_inspector_log(rank.arrivals, {}).empty());
  EXPECT_EQ(rank.arrivals[3].position, 7);
}

}  // namespace
}  // namespace nsys_explain::collectives
