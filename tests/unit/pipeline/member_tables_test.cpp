#include "pipeline/match/member_tables.hpp"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::pipeline {
namespace {

/// A communicator of this size, of which trace ranks 4 and 7 were captured; they are its ranks 1 and 2.
Table members_of_size(std::int32_t size) {
  CrossRank cross;
  collectives::PlannedCommunicator& planned = cross.communicators.emplace_back();
  planned.name = "0x2a";
  planned.trace_ranks = {4, 7};
  planned.ranks = {1, 2};
  planned.lengths = {30, 30};
  planned.size = size;
  return member_tables(exchange::Communicator::serial(), cross).front();
}

TEST(MemberTables, MembersWithoutATraceHaveTheRanksThatAreLeft) {
  const Table members = members_of_size(5);
  EXPECT_EQ(column<std::int64_t>(members, "communicator_rank"), (std::vector<std::int64_t>{1, 2, 0, 3, 4}));
  EXPECT_EQ(column<std::int64_t>(members, "trace_rank"), (std::vector<std::int64_t>{4, 7, -1, -1, -1}));
}

TEST(MemberTables, AWrongSizeDoesNotMakeMillionsOfRows) {
  EXPECT_EQ(members_of_size(1 << 24).row_count(), 2U + 10'000U);
}

}  // namespace
}  // namespace nsys_explain::pipeline
