#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "clock/job_clock.hpp"
#include "fit_truth.hpp"
#include "simulated_clocks.hpp"

/// Runs of many minutes, along which drifts change.
namespace nsys_explain::clock {
namespace {

using testing::fit_serially;
using testing::SimulatedClocks;

constexpr int seeds = 10;

/// Largest difference of job time between any session and session 0 at one moment, over the whole run.
double worst_error_ns(const SimulatedClocks& job, const ClockFit& fit, double from_ns, double to_ns) {
  double worst = 0;
  for (int i = 0; i <= 200; ++i) {
    const double moment = from_ns + (to_ns - from_ns) * i / 200;
    const auto job_time = [&](int s) {
      return JobClock(fit.report.sessions[s], fit.report.pivot_ns)(SessionTime(std::llround(job.shows(s, moment)))).ns;
    };
    for (int s = 1; s < static_cast<int>(job.sessions.size()); ++s) {
      worst = std::max(worst, std::abs(static_cast<double>(job_time(s) - job_time(0))));
    }
  }
  return worst;
}

SimulatedClocks wandering_job(std::uint64_t seed) {
  SimulatedClocks job(seed, 4, 610);
  for (testing::TrueClock& clock : job.clocks) clock.wander_ns = job.uniform(-100e3, 100e3);
  job.add(Operation::all_reduce, job.everybody(), 1'000);
  return job;
}

TEST(LongRun, DriftsThatChangeAreFollowed) {
  for (int seed = 0; seed < seeds; ++seed) {
    const SimulatedClocks job = wandering_job(100 + seed);
    const ClockFit fit = fit_serially(job);
    // Ten intervals of 61 s. A line over h of a sine of amplitude A and angular frequency w is off by A w^2 h^2 / 8:
    // 5.1 us of 100 us; two sessions together twice as much, at most.
    EXPECT_EQ(fit.report.sessions[1].bends.size(), 11U) << seed;
    EXPECT_LT(worst_error_ns(job, fit, job.begin_ns(), job.end_ns()), 10e3) << seed;
    EXPECT_EQ(fit.report.sessions[1].bends[5].at_ns, fit.report.pivot_ns);
    EXPECT_EQ(fit.report.sessions[1].bends[5].correction_ns, 0) << "the offset is that at the pivot";
    EXPECT_LT(*fit.report.residual.held_out_p50_ns, 5'000);
  }
}

TEST(LongRun, AStraightClockIsNotBent) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(200 + seed, 4, 600);
    job.add(Operation::all_reduce, job.everybody(), 500);
    job.add(Operation::all_gather, job.everybody(), 300, 0.3, 0.8);  // a change of mix is no change of drift
    const ClockFit fit = fit_serially(job);
    for (const SessionClock& clock : fit.report.sessions) EXPECT_TRUE(clock.bends.empty()) << seed;
    EXPECT_LT(worst_error_ns(job, fit, job.begin_ns(), job.end_ns()), 800) << seed;
  }
}

TEST(LongRun, AShortRunHasOneDrift) {
  SimulatedClocks job(300, 2, 119);
  job.clocks[1].wander_ns = 20e3;
  job.add(Operation::all_reduce, job.everybody(), 500);
  for (const SessionClock& clock : fit_serially(job).report.sessions) EXPECT_TRUE(clock.bends.empty());
}

TEST(LongRun, WrongMatchesDoNotBendClocks) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(400 + seed, 4, 600);
    job.add(Operation::all_reduce, job.everybody(), 400);
    for (ObservedMember& member : job.observations.members) {
      if (job.uniform(0, 1) < 0.01) member.exit_ns += static_cast<Nanoseconds>(job.uniform(1e6, 50e6));
    }
    for (const SessionClock& clock : fit_serially(job).report.sessions) EXPECT_TRUE(clock.bends.empty()) << seed;
  }
}

TEST(LongRun, SessionsThatJoinLateFollowToo) {
  SimulatedClocks job(500, 3, 610);
  for (testing::TrueClock& clock : job.clocks) clock.wander_ns = 80e3;
  job.clocks[2].wander_ns = -80e3;
  job.add(Operation::all_reduce, {0, 1}, 1'000);
  job.add(Operation::all_reduce, {1, 2}, 500, 0.4, 0.9);
  const ClockFit fit = fit_serially(job);
  const double length = job.end_ns() - job.begin_ns();
  EXPECT_LT(worst_error_ns(job, fit, job.begin_ns() + 0.4 * length, job.begin_ns() + 0.9 * length), 10e3);
}

}  // namespace
}  // namespace nsys_explain::clock
