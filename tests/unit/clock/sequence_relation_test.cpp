#include "clock/coarse_clocks.hpp"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>

namespace nsys_explain::clock {
namespace {

constexpr Nanoseconds us = 1000, ms = 1000 * us;

/// All-reduces of eight steps on a clock that is ahead by `ahead_ns`; the record of one may be lost.
RecordedSequence member_of(std::int32_t trace_rank, Nanoseconds ahead_ns, std::uint64_t communicator, int lost = -1,
                           Nanoseconds jitter_scale = 1) {
  constexpr std::array<Nanoseconds, 8> jitter_us{0, 310, -220, 470, 120, -390, 260, -80};
  RecordedSequence member;
  member.trace_rank = member.session = trace_rank;
  member.communicator = communicator;
  member.digest = lost < 0 ? 8 : 7;  // all symbols are alike, so those of seven operations have one digest
  for (int step = 0; step < 8; ++step) {
    if (step == lost) continue;
    member.positions.push_back(static_cast<std::int64_t>(member.positions.size()));
    member.operations.symbols.push_back(1);
    member.operations.exit_ns.push_back(70 * ms * step + jitter_scale * jitter_us[static_cast<std::size_t>(step)] * us +
                                        ahead_ns);
  }
  member.operations.enter_ns = member.operations.exit_ns;
  return member;
}

TEST(SequenceRelation, EqualSequencesAreOneOperationByOperation) {
  const auto relation = relate_sequences(member_of(0, 3 * ms, 5), member_of(1, 0, 5), 0);
  ASSERT_TRUE(relation);
  EXPECT_NEAR(relation->line.offset_ns, -3.0 * ms, 1.0 * us);
}

TEST(SequenceRelation, TwoThatLostAsManyRecordsAreNotTakenForEqual) {
  // In order, four of seven pairs are of two operations: the line lies off by most of a step.
  EXPECT_FALSE(relate_sequences(member_of(0, 3 * ms, 5, 2), member_of(1, 0, 5, 6), 0));
}

TEST(SequenceRelation, SequencesOfUnknownKinshipAreOnlyRoughlyAlike) {
  // Ranks that lie alike in two communicators: their ends need not agree, so their order is all there is.
  const auto relation = relate_sequences(member_of(0, 3 * ms, 5), member_of(1, 0, 6, -1, 2), 0);
  ASSERT_TRUE(relation);
  EXPECT_NEAR(relation->line.offset_ns, -3.0 * ms, 0.5 * ms);
  EXPECT_GT(relation->residual_ns, 50.0 * us);
}

}  // namespace
}  // namespace nsys_explain::clock
