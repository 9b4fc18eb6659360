#include "collectives/mismatches.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

/// Four members; operation k is entered at 1000 k and left 100 ns later by all.
class Members {
 public:
  void does(std::int32_t rank, std::int32_t k, std::int64_t bytes = 64, Operation operation = Operation::all_reduce) {
    JobArrival a;
    a.trace_rank = rank;
    a.position = a.index = next_[static_cast<std::size_t>(rank)]++;
    a.enter = JobTime(1000 * k + rank);
    a.exit = JobTime(1000 * k + 100);
    a.operation = operation;
    a.call_bytes = bytes;
    a.communicator = 0xabcdef0123456789;
    a.evidence = Evidence::nccl_payload;
    arrivals_.push_back(a);
  }

  MemberComparison compare() const {
    std::vector<SequenceSummary> summaries;
    for (std::int32_t rank = 0; rank < 4; ++rank) {
      std::vector<TraceArrival> mine;
      for (const JobArrival& a : arrivals_)
        if (a.trace_rank == rank) mine.push_back({a, {}, {}});
      for (const SequenceSummary& s : summarise_sequences(mine, 0, {})) summaries.push_back(s);
    }
    const PlannedCommunicator planned = plan_communicators(summaries).front();
    const MatchUnit unit{0, 0, 100, 0};
    return compare_members(planned, arrivals_, match_unit(unit, planned, arrivals_, {1000}));
  }

 private:
  std::array<std::int32_t, 4> next_{};
  std::vector<JobArrival> arrivals_;
};

TEST(Mismatches, MembersThatDoTheSameHaveNone) {
  Members members;
  for (std::int32_t k = 0; k < 10; ++k)
    for (std::int32_t rank = 0; rank < 4; ++rank) members.does(rank, k, 64 + k);
  const MemberComparison comparison = members.compare();
  EXPECT_FALSE(comparison.first);
  EXPECT_EQ(comparison.operations, 10);
  for (const MemberGaps& gaps : comparison.members) EXPECT_EQ(gaps.missing + gaps.outside_window + gaps.alone, 0);
}

TEST(Mismatches, AnOperationThatOneMemberLacks) {
  Members members;
  for (std::int32_t k = 0; k < 10; ++k)
    for (std::int32_t rank = 0; rank < 4; ++rank)
      if (rank != 2 || (k != 4 && k != 7)) members.does(rank, k, 64 + k);
  const MemberComparison comparison = members.compare();
  EXPECT_EQ(comparison.members[2].missing, 2);
  EXPECT_EQ(comparison.members[2].outside_window, 0);
  EXPECT_EQ(comparison.members[0].missing, 0);
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(comparison.first->difference, Difference::missing);
  EXPECT_EQ(comparison.first->trace_rank, 2);
  EXPECT_EQ(comparison.first->differing, 1);
  EXPECT_EQ(comparison.first->position, 4);
  EXPECT_EQ(comparison.first->peer_trace_rank, 0);
  EXPECT_EQ(comparison.first->peer_position, 4);
  EXPECT_EQ(comparison.first->call_bytes, 68);
  EXPECT_EQ(comparison.first->at_ns, 4003);
}

TEST(Mismatches, WhatACaptureCutOffIsNotMissing) {
  Members members;
  for (std::int32_t k = 0; k < 10; ++k)
    for (std::int32_t rank = 0; rank < 4; ++rank)
      if (rank != 1 || (k >= 3 && k < 8)) members.does(rank, k, 64 + k);
  const MemberComparison comparison = members.compare();
  EXPECT_EQ(comparison.members[1].missing, 0);
  EXPECT_EQ(comparison.members[1].outside_window, 5);
  EXPECT_FALSE(comparison.first);
}

TEST(Mismatches, OtherBytesAndOtherOperationsAreToldApart) {
  for (const bool other_operation : {false, true}) {
    Members members;
    for (std::int32_t k = 0; k < 10; ++k)
      for (std::int32_t rank = 0; rank < 4; ++rank) {
        const bool differs = rank == 3 && k == 5;
        members.does(rank, k, differs && !other_operation ? 999 : 64 + k,
                     differs && other_operation ? Operation::all_gather : Operation::all_reduce);
      }
    const MemberComparison comparison = members.compare();
    ASSERT_TRUE(comparison.first);
    EXPECT_EQ(comparison.first->difference, other_operation ? Difference::operation : Difference::bytes);
    EXPECT_EQ(comparison.first->trace_rank, 3);
    EXPECT_EQ(comparison.first->position, 5);
    EXPECT_EQ(comparison.first->own_call_bytes, other_operation ? 69 : 999);
    EXPECT_EQ(comparison.first->own_operation, other_operation ? Operation::all_gather : Operation::all_reduce);
    EXPECT_EQ(comparison.first->call_bytes, 69);
    EXPECT_EQ(comparison.first->operation, Operation::all_reduce);
    EXPECT_EQ(comparison.members[3].missing, 1);
    EXPECT_EQ(comparison.members[3].alone, 1);
  }
}

TEST(Mismatches, AnOperationThatOneMemberAloneHasIsExtra) {
  Members members;
  for (std::int32_t k = 0; k < 10; ++k)
    for (std::int32_t rank = 0; rank < 4; ++rank)
      if (k != 6 || rank == 1) members.does(rank, k, 64 + k);
  const MemberComparison comparison = members.compare();
  ASSERT_TRUE(comparison.first);
  EXPECT_EQ(comparison.first->difference, Difference::extra);
  EXPECT_EQ(comparison.first->trace_rank, 1);
  EXPECT_EQ(comparison.first->position, 6);
  EXPECT_EQ(comparison.first->own_call_bytes, 70);
  EXPECT_EQ(comparison.members[1].alone, 1);
}

}  // namespace
}  // namespace nsys_explain::collectives
