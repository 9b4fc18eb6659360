#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "fit_truth.hpp"
#include "simulated_clocks.hpp"

/// When a fit is believed: see largest_credible_residual_ns.
namespace nsys_explain::clock {
namespace {

using testing::fit_serially;
using testing::SimulatedClocks;

constexpr int seeds = 10;

bool is_believed(const ClockFit& fit) {
  for (const SessionClock& session : fit.report.sessions) {
    if (session.method == ClockMethod::collectives) return true;
  }
  return false;
}

/// All-reduces a few milliseconds apart whose members leave up to `spread_ns` after the first.
SimulatedClocks spread_job(int seed, double spread_ns) {
  SimulatedClocks job(600 + seed, 4, 2);
  job.add(Operation::all_reduce, job.everybody(), 400);
  for (ObservedMember& member : job.observations.members) {
    member.exit_ns += static_cast<Nanoseconds>(job.uniform(0, spread_ns));
  }
  return job;
}

TEST(Belief, ASlowLinkIsBelieved) {
  // One step of the ring at 5 GB/s: the worst that true matches show.
  for (int seed = 0; seed < seeds; ++seed) {
    const ClockFit fit = fit_serially(spread_job(seed, 105e3));
    EXPECT_TRUE(is_believed(fit)) << seed;
    EXPECT_LT(*fit.report.residual.held_out_p50_ns, 60'000);
    EXPECT_EQ(fit.errors.draws, 64U);
  }
}

/// Every member's sequence is shifted against the others' by another, changing number of operations.
SimulatedClocks mismatched_job(int seed) {
  SimulatedClocks job(650 + seed, 4, 2);
  job.add(Operation::all_reduce, job.everybody(), 400);
  std::vector<ObservedMember>& members = job.observations.members;
  const std::vector<ObservedMember> right = members;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto shift = static_cast<std::size_t>(job.uniform(0, 8)) * 4;
    members[i] = right[(i + shift) % right.size()];
  }
  return job;
}

TEST(Belief, WrongMatchesAreNotBelieved) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job = mismatched_job(seed);
    const ClockFit fit = fit_serially(job);
    EXPECT_FALSE(is_believed(fit)) << seed;
    EXPECT_GT(*fit.report.residual.held_out_p50_ns, largest_credible_residual_ns);
    EXPECT_FALSE(fit.report.residual.histogram.empty()) << "the report shows what was not believed";
    ASSERT_FALSE(fit.warnings.empty());
    EXPECT_EQ(fit.warnings[0].severity, Severity::error);
    EXPECT_THAT(fit.warnings[0].message, ::testing::HasSubstr("many matches must be wrong"));
    for (const SessionClock& session : fit.report.sessions) {
      EXPECT_EQ(session.offset_ns, 0);
      EXPECT_FALSE(session.uncertainty_ns.has_value());
    }
    EXPECT_EQ(fit.errors.draws, 0U);
  }
}

TEST(Belief, ThatSomeMatchesAreWrongIsSaid) {
  // In every second all-reduce one of four members is matched with its next but one.
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(680 + seed, 4, 2);
    job.add(Operation::all_reduce, job.everybody(), 400);
    std::vector<ObservedMember>& members = job.observations.members;
    const std::vector<ObservedMember> right = members;
    for (std::size_t i = 0; i + 8 < members.size(); i += 8) members[i] = right[i + 8];
    const ClockFit fit = fit_serially(job);
    EXPECT_TRUE(is_believed(fit));
    EXPECT_THAT(fit.warnings, ::testing::Contains(
                                  ::testing::Field(&Warning::message, ::testing::HasSubstr("one in ten of the ends"))))
        << seed;
  }
}

/// All-reduces of 5 ms over sockets whose members leave up to 900 us after the first.
SimulatedClocks socket_job(int seed) {
  SimulatedClocks job = spread_job(seed, 900e3);
  for (ObservedMember& member : job.observations.members) member.enter_ns -= 5'000'000;
  return job;
}

TEST(Belief, EndsThatTrulyDifferDoNotMakeMatchesWrong) {
  for (int seed = 0; seed < seeds; ++seed) {
    const ClockFit fit = fit_serially(socket_job(seed));
    EXPECT_TRUE(is_believed(fit)) << seed;
    EXPECT_GT(*fit.report.residual.held_out_p90_ns, 250'000);
    EXPECT_EQ(fit.report.residual.unexplained, 0);
    EXPECT_TRUE(fit.warnings.empty()) << seed << ": " << fit.warnings.front().message;
  }
}

TEST(Belief, WhereAllMatchesAreRightNoneIsDoubted) {
  for (int seed = 0; seed < seeds; ++seed) EXPECT_TRUE(fit_serially(spread_job(seed, 105e3)).warnings.empty()) << seed;
}

TEST(Belief, HostClocksAndVouchedUtcStillHold) {
  SimulatedClocks job = mismatched_job(1);
  for (const int s : {0, 2}) job.sessions[s].host = "one", job.sessions[s].system_clock_ns = 77'000'000'000;
  const ClockFit hosts = fit_serially(job);
  EXPECT_EQ(hosts.report.sessions[2].component, hosts.report.sessions[0].component);
  EXPECT_NE(hosts.report.sessions[1].component, hosts.report.sessions[0].component);
  const ClockFit utc = fit_serially(job, {.method = {}, .utc_uncertainty_ns = 500});
  for (const SessionClock& session : utc.report.sessions) EXPECT_EQ(session.component, 0);
}

TEST(Belief, AForcedMethodIsUsedNevertheless) {
  const ClockFit fit = fit_serially(mismatched_job(2), {.method = ClockMethod::collectives, .utc_uncertainty_ns = {}});
  EXPECT_TRUE(is_believed(fit));
}

}  // namespace
}  // namespace nsys_explain::clock
