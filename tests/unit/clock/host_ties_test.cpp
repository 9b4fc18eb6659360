#include "clock/host_ties.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nsys_explain::clock {
namespace {

/// `utc_start_ns` beyond the job epoch.
Session session(const std::string& path, const std::string& host) {
  Session one;
  one.path = path;
  one.host = one.boot_key = host;
  one.utc_start_ns = 1'000;
  return one;
}

/// All-reduces of two members; times are session time.
struct Pairs {
  Observations observations;

  void add(Nanoseconds enter_a, Nanoseconds exit_a, Nanoseconds enter_b, Nanoseconds exit_b) {
    ObservedInstance instance;
    instance.operation = Operation::all_reduce;
    instance.first_member = std::ssize(observations.members);
    instance.members = 2;
    instance.communicator = 0;
    observations.communicators = {{0, 1}};
    observations.instances.push_back(instance);
    observations.members.push_back({enter_a, exit_a, 0});
    observations.members.push_back({enter_b, exit_b, 1});
  }
};

TEST(HostTies, SessionsOfOneHostShareItsUtc) {
  Pairs pairs;
  // Members leave 200 us apart, always in the same order: no clock error, but the law of these ends.
  for (Nanoseconds t = 0; t < 100'000'000; t += 1'000'000) pairs.add(t, t + 500'000, t + 100'000, t + 700'000);
  const ClockFit fit =
      fit_clocks(std::vector{session("a", "h"), session("b", "h")}, pairs.observations, Reduction::serial());
  for (const SessionClock& clock : fit.report.sessions) {
    EXPECT_EQ(clock.offset_ns, 0);
    EXPECT_EQ(clock.component, 0);
    EXPECT_EQ(clock.method, ClockMethod::utc);
  }
  EXPECT_EQ(fit.report.sessions[0].uncertainty_ns, 0);
  EXPECT_EQ(fit.report.sessions[1].uncertainty_ns, host_tie_ns);
  EXPECT_EQ(difference_uncertainty_ns(fit.report.sessions, fit.errors, 0, 1, 0), host_tie_ns);
  EXPECT_TRUE(fit.warnings.empty());
}

TEST(HostTies, CollectivesThatNobodyCouldHaveLeftContradictThem) {
  Pairs pairs;
  // On true time both enter at t and leave at t + 20 us; the second session's UTC is 25 ms ahead.
  for (Nanoseconds t = 0; t < 100'000'000; t += 1'000'000)
    pairs.add(t, t + 20'000, t + 25'000'000, t + 25'020'000 + t % 3'000'000 / 1'000'000 * 100);
  const ClockFit fit =
      fit_clocks(std::vector{session("a", "h"), session("b", "h")}, pairs.observations, Reduction::serial());
  EXPECT_NEAR(static_cast<double>(fit.report.sessions[1].offset_ns), 25e6, 1'000);
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::collectives);
  ASSERT_FALSE(fit.warnings.empty());
  EXPECT_NE(fit.warnings.back().message.find("not on one clock"), std::string::npos);
}

TEST(HostTies, AnInstanceInAHundredMayBeAWrongMatch) {
  Pairs pairs;
  for (Nanoseconds i = 0; i < 199; ++i)
    pairs.add(i * 1'000'000, i * 1'000'000 + 50'000, i * 1'000'000, i * 1'000'000 + 60'000);
  pairs.add(300'000'000, 300'010'000, 900'000'000, 900'010'000);
  const ClockFit fit =
      fit_clocks(std::vector{session("a", "h"), session("b", "h")}, pairs.observations, Reduction::serial());
  EXPECT_EQ(fit.report.sessions[1].offset_ns, 0);
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::utc);
}

TEST(HostTies, OtherHostsAreRelatedByTheirCollectives) {
  Pairs pairs;
  for (Nanoseconds t = 0; t < 100'000'000; t += 1'000'000) pairs.add(t, t + 50'000, t + 5'000, t + 50'100);
  const ClockFit fit =
      fit_clocks(std::vector{session("a", "h"), session("b", "g")}, pairs.observations, Reduction::serial());
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::collectives);
  EXPECT_NEAR(static_cast<double>(fit.report.sessions[1].offset_ns), 100, 20);
}

TEST(HostTies, TheUserMayForbidThem) {
  Pairs pairs;
  for (Nanoseconds t = 0; t < 100'000'000; t += 1'000'000) pairs.add(t, t + 50'000, t + 5'000, t + 50'100);
  const ClockFit fit = fit_clocks(std::vector{session("a", "h"), session("b", "h")}, pairs.observations,
                                  Reduction::serial(), {.method = ClockMethod::collectives, .utc_uncertainty_ns = {}});
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::collectives);
}

}  // namespace
}  // namespace nsys_explain::clock
