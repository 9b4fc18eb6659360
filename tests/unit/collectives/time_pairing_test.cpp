#include "collectives/time_pairing.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

constexpr Nanoseconds us = 1'000, ms = 1'000'000;

void add(MemberSequence& sequence, Nanoseconds enter_ns, Nanoseconds exit_ns) {
  sequence.symbols.push_back(7);
  sequence.enter_ns.push_back(enter_ns);
  sequence.exit_ns.push_back(exit_ns);
}

/// The partner of the last operation of the member, which follows gathers of 50 us that both leave at once, or the
/// reference now and then later.
std::ptrdiff_t partner_of_last(Nanoseconds enter_ns, Nanoseconds exit_ns, Nanoseconds its_enter_ns,
                               Nanoseconds its_exit_ns, Nanoseconds late_ns = 0) {
  constexpr Nanoseconds gathers = 120;
  MemberSequence member, reference;
  for (Nanoseconds i = 0; i < gathers; ++i) {
    add(member, i * ms, i * ms + 50 * us);
    add(reference, i * ms, i * ms + 50 * us + (i % 4 == 0 ? late_ns : 0));
  }
  add(member, gathers * ms + enter_ns, gathers * ms + exit_ns);
  add(reference, gathers * ms + its_enter_ns, gathers * ms + its_exit_ns);
  const ClockMap same({{0, 0, 0}});
  return pair_by_time(member, reference, reference.exit_ns, same, {2 * us, 400 * us}).back();
}

TEST(PairByTime, WhoLeavesLateIsPaired) {
  EXPECT_EQ(partner_of_last(0, 50 * us, 0, 150 * us), 120);
  EXPECT_EQ(partner_of_last(0, 110 * us, 60 * us, 130 * us), 120);  // inside together for 50 us
}

TEST(PairByTime, WhatFollowsIsNotPairedWhereBothCounterpartsAreLost) {
  // The member leaves one gather late, the reference has begun the next: inside together for 20 us.
  EXPECT_EQ(partner_of_last(0, 80 * us, 60 * us, 130 * us), -1);
  // That members leave late now and then does not make up for it.
  EXPECT_EQ(partner_of_last(0, 110 * us, 60 * us, 130 * us, 60 * us), 120);
  EXPECT_EQ(partner_of_last(0, 80 * us, 60 * us, 130 * us, 60 * us), -1);
}

TEST(PairByTime, WhatEndsAtOnceIsOneHoweverShort) {
  EXPECT_EQ(partner_of_last(0, 80 * us, 60 * us, 81 * us), 120);
}

}  // namespace
}  // namespace nsys_explain::collectives
