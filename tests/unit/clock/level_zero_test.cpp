#include "clock/level_zero.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace nsys_explain::clock {
namespace {

constexpr Nanoseconds second = 1'000'000'000;
constexpr Nanoseconds utc = 1'700'000'000 * second;

Session session(const std::string& path, const std::string& host, Nanoseconds utc_start, Nanoseconds system_clock) {
  Session result;
  result.path = path;
  result.host = host;
  result.utc_start_ns = utc_start;
  result.system_clock_ns = system_clock;
  return result;
}

TEST(LevelZero, EpochIsTheEarliestRecordedStart) {
  const std::vector<Session> sessions = {session("a", "h", no_time, no_time), session("b", "h", utc + 5, no_time),
                                         session("c", "h", utc + 2, no_time)};
  EXPECT_EQ(job_epoch_utc_ns(sessions), utc + 2);
  EXPECT_EQ(session_start(sessions[1], utc + 2), SessionTime(3));
  EXPECT_EQ(session_start(sessions[0], utc + 2), SessionTime(0));
  EXPECT_EQ(job_epoch_utc_ns({}), 0);
}

TEST(LevelZero, SessionsOfOneBootDifferByTheirSystemClocks) {
  // b started 0.4 s after a by the system clock, 0.4 s + 3 us after a by UTC: b's UTC is 3 us ahead.
  const std::vector<Session> sessions = {session("a", "h", utc, 100 * second),
                                         session("b", "h", utc + 400'003'000, 100 * second + 400'000'000)};
  const LevelZero level = level_zero(sessions);
  EXPECT_EQ(level.clocks[0].method, ClockMethod::host_clock);
  EXPECT_EQ(level.clocks[1].method, ClockMethod::host_clock);
  EXPECT_EQ(level.clocks[0].offset_ns, 0);
  EXPECT_EQ(level.clocks[1].offset_ns, 3'000);
  EXPECT_EQ(level.clocks[0].uncertainty_ns, 0);
  EXPECT_EQ(level.clocks[1].uncertainty_ns, host_clock_uncertainty_ns);
  EXPECT_EQ(level.clocks[1].component, 0);
  EXPECT_EQ(level.units, (std::vector<std::int32_t>{0, 0}));
}

TEST(LevelZero, ARebootOrAnotherHostIsAnotherClock) {
  const std::vector<Session> sessions = {session("a", "h", utc, 100 * second),
                                         session("b", "h", utc + 60 * second, 20 * second),  // rebooted
                                         session("c", "g", utc, 100 * second),               // another host
                                         session("d", "h", utc, no_time)};                   // no system clock
  const LevelZero level = level_zero(sessions);
  EXPECT_EQ(level.units, (std::vector<std::int32_t>{0, 1, 2, 3}));
  for (const SessionClock& clock : level.clocks) {
    EXPECT_EQ(clock.method, ClockMethod::utc);
    EXPECT_EQ(clock.offset_ns, 0);
    EXPECT_FALSE(clock.uncertainty_ns.has_value());
  }
}

TEST(LevelZero, BootKeysDecideWhereKnown) {
  std::vector<Session> sessions = {session("a", "h", utc, 100 * second), session("b", "h", utc, 100 * second)};
  sessions[0].boot_key = "one";
  sessions[1].boot_key = "two";
  EXPECT_EQ(level_zero(sessions).units, (std::vector<std::int32_t>{0, 1}));
  sessions[1] = session("b", "h", utc, 20 * second);  // rebooted: an equal key does not outweigh that
  sessions[1].boot_key = "one";
  EXPECT_EQ(level_zero(sessions).units, (std::vector<std::int32_t>{0, 1}));
  sessions[1] = session("b", "h", no_time, 101 * second);  // needs no UTC
  sessions[1].boot_key = "one";
  const LevelZero level = level_zero(sessions);
  EXPECT_EQ(level.units, (std::vector<std::int32_t>{0, 0}));
  // b's session time starts at 0 as a's does, but b started a second later.
  EXPECT_EQ(level.clocks[1].offset_ns, -second);
}

TEST(LevelZero, DoesNotDependOnTheOrderGiven) {
  std::vector<Session> sessions = {session("a", "h", utc, 100 * second), session("b", "g", utc, 50 * second),
                                   session("c", "h", utc + 7, 100 * second), session("d", "g", utc + 9, 50 * second)};
  const LevelZero forward = level_zero(sessions);
  std::reverse(sessions.begin(), sessions.end());
  const LevelZero backward = level_zero(sessions);
  for (std::size_t s = 0; s < 4; ++s) {
    EXPECT_EQ(forward.clocks[s].path, backward.clocks[3 - s].path);
    EXPECT_EQ(forward.clocks[s].offset_ns, backward.clocks[3 - s].offset_ns);
    EXPECT_EQ(forward.clocks[s].component, backward.clocks[3 - s].component);
    EXPECT_EQ(forward.units[s], backward.units[3 - s]);
  }
  EXPECT_EQ(forward.clocks[2].offset_ns, 7);
  EXPECT_EQ(forward.clocks[3].offset_ns, 9);
  EXPECT_EQ(forward.clocks[3].component, 1);
}

TEST(LevelZero, UtcRelatesHostsOnlyIfTheUserSaysSo) {
  const std::vector<Session> sessions = {session("a", "h", utc, 100 * second), session("b", "g", utc, no_time),
                                         session("c", "h", utc + 7, 100 * second), session("d", "f", no_time, no_time)};
  const LevelZero vouched = level_zero(sessions, {.method = {}, .utc_uncertainty_ns = 500});
  EXPECT_EQ(vouched.clocks[0].component, 0);
  EXPECT_EQ(vouched.clocks[1].component, 0);
  EXPECT_EQ(vouched.clocks[1].method, ClockMethod::utc);
  EXPECT_EQ(vouched.clocks[1].uncertainty_ns, 500);
  EXPECT_EQ(vouched.clocks[2].method, ClockMethod::host_clock);
  EXPECT_EQ(vouched.clocks[2].offset_ns, 7);
  EXPECT_EQ(vouched.clocks[3].component, 1);  // recorded no UTC: nothing to vouch for
  EXPECT_FALSE(vouched.clocks[3].uncertainty_ns.has_value());

  const LevelZero forced = level_zero(sessions, {.method = ClockMethod::utc, .utc_uncertainty_ns = {}});
  EXPECT_EQ(forced.clocks[2].method, ClockMethod::utc);
  EXPECT_EQ(forced.clocks[2].offset_ns, 0);
  EXPECT_EQ(forced.clocks[2].component, 0);
  EXPECT_EQ(forced.clocks[2].uncertainty_ns, ntp_uncertainty_ns);
}

TEST(LevelZero, OneSessionOrNoneIsFine) {
  EXPECT_TRUE(level_zero({}).clocks.empty());
  const std::vector<Session> one = {session("a", "h", utc, 5)};
  const LevelZero level = level_zero(one, {.method = {}, .utc_uncertainty_ns = 500});
  ASSERT_EQ(level.clocks.size(), 1U);
  EXPECT_FALSE(level.clocks[0].uncertainty_ns.has_value());
}

}  // namespace
}  // namespace nsys_explain::clock
