#include "collectives/member_meetings.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

using Operations = std::vector<TimedOperation>;
using Others = std::vector<const Operations*>;

TEST(MemberMeetings, TakeFromTheLastEntryAndDifferWithoutHabits) {
  const Operations own = {{0, 1'000}, {10'000, 12'000}, {20'000, 21'000}};
  // Leaves 40 later than the first lane, by habit; once 70 later.
  const Operations other = {{500, 1'040}, {11'500, 12'040}, {19'000, 21'070}};
  const std::vector<MemberMeeting> met = member_meetings<TimedOperation>(own, Others{&other});
  ASSERT_EQ(met.size(), 3);
  EXPECT_EQ(met[0].took_ns, 500);
  EXPECT_EQ(met[1].took_ns, 500);
  EXPECT_EQ(met[2].took_ns, 1'000);
  EXPECT_EQ(met[0].apart_ns, 0);
  EXPECT_EQ(met[1].apart_ns, 0);
  EXPECT_EQ(met[2].apart_ns, 30);
}

TEST(MemberMeetings, OperationsThatEndFarApartAreNoMeetings) {
  const Operations own = {{0, 1'000}};
  const Operations other = {{900, 100'000}};
  const std::vector<MemberMeeting> met = member_meetings<TimedOperation>(own, Others{&other});
  ASSERT_EQ(met.size(), 1);
  EXPECT_EQ(met[0].took_ns, 1'000);
  EXPECT_EQ(met[0].apart_ns, 0);
}

/// Twenty that need not wait and five that do; these leave `apart_ns` from each other.
std::vector<MemberMeeting> with_waits(Nanoseconds apart_ns) {
  std::vector<MemberMeeting> met(20, {50'000, 200});
  met.insert(met.end(), 5, {2'000'000, apart_ns});
  return met;
}

TEST(MemberMeetings, WaitsForSomebodyElseAreSeen) {
  const std::vector<bool> waited = have_waited(with_waits(200));
  ASSERT_EQ(waited.size(), 25);
  EXPECT_FALSE(waited.front());
  EXPECT_TRUE(waited.back());
  EXPECT_TRUE(are_many(waited));
}

TEST(MemberMeetings, WhoeverWaitsForOneLeavesTogether) {
  EXPECT_FALSE(are_many(have_waited_apart(with_waits(1'500))));
  EXPECT_TRUE(are_many(have_waited_apart(with_waits(1'501))));
}

TEST(MemberMeetings, FewTellNothing) {
  EXPECT_TRUE(have_waited(std::vector<MemberMeeting>(3, {50'000, 0})).empty());
  std::vector<bool> three(100, false);
  three[0] = three[1] = three[2] = true;
  EXPECT_FALSE(are_many(three));
}

}  // namespace
}  // namespace nsys_explain::collectives
