#include "clock/fit.hpp"
#include "clock/host_ties.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "fit_truth.hpp"
#include "simulated_clocks.hpp"

namespace nsys_explain::clock {
namespace {

using testing::Coverage;
using testing::Errors;
using testing::errors_of;
using testing::fit_serially;
using ::testing::HasSubstr;
using testing::offset_floor_ns;
using testing::SimulatedClocks;

constexpr int seeds = 12;

struct Capture {
  int nodes;
  double seconds;
  int instances;
};

class WorldAllReduce : public ::testing::TestWithParam<Capture> {};

// The demand: every pairwise offset within three floors of 0.42 us sqrt(1 / N + 1 / 4) at mid-run, drifts within three
// of their own floor (3.5 offset floors per second of run), whatever the initial clocks.
TEST_P(WorldAllReduce, ReachesTheStatisticalFloor) {
  const Capture capture = GetParam();
  const double floor = offset_floor_ns(capture.instances);
  const double drift_floor = 3.5 * testing::all_reduce_floor_ns / std::sqrt(capture.instances) * 1e-9 / capture.seconds;
  Coverage coverage;
  int beyond = 0, pairs = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(1000 + seed, capture.nodes, capture.seconds);
    job.add(Operation::all_reduce, job.everybody(), capture.instances);
    const ClockFit fit = fit_serially(job);
    const Errors errors = errors_of(job, fit, job.everybody());
    coverage.add(errors);
    for (std::size_t a = 0; a < errors.offset_ns.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        beyond += std::abs(errors.offset_ns[a] - errors.offset_ns[b]) > 3 * floor ? 1 : 0;
        beyond += std::abs(errors.drift[a] - errors.drift[b]) > 3 * drift_floor ? 1 : 0;
        pairs += 2;
      }
    }
    // The extremes of n members lie further apart than one pair: the range of 32 normals is below 6 sigma in 999 of
    // 1,000 cases, that is 6 * 0.268 / 0.42 = 3.8 floors.
    EXPECT_LT(errors.worst_offset_pair(), 4 * floor) << "seed " << seed;
    EXPECT_LT(errors.worst_drift_pair(), 4 * drift_floor) << "seed " << seed;
    EXPECT_TRUE(fit.warnings.empty());
    for (const SessionClock& clock : fit.report.sessions) EXPECT_EQ(clock.method, ClockMethod::collectives);
  }
  // One pair's difference has sqrt(2) * 0.268 us: 3 floors are 3.3 of it.
  EXPECT_LE(beyond, std::max(1, pairs / 200)) << "of " << pairs;
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorldAllReduce,
                         ::testing::Values(Capture{2, 1, 300}, Capture{2, 60, 1000}, Capture{3, 10, 100},
                                           Capture{8, 1, 100}, Capture{8, 60, 400}, Capture{32, 1, 200},
                                           Capture{32, 60, 400}));

TEST(Fit, BiasedClassesDoNotSpoilAllReduce) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(2000 + seed, 8, 10);
    job.add(Operation::all_reduce, job.everybody(), 100);
    job.add(Operation::all_gather, job.everybody(), 1500);
    job.add(Operation::reduce_scatter, job.everybody(), 1500);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    EXPECT_LT(errors.worst_offset_pair(), 4 * offset_floor_ns(100)) << "seed " << seed;
  }
}

TEST(Fit, ReportsNoDriftWhereThereIsNone) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(3000 + seed, 8, 30, 20e6, 0);
    job.add(Operation::all_reduce, job.everybody(), 100, 0, 0.5);  // the mix changes along the run
    job.add(Operation::all_gather, job.everybody(), 300, 0.3, 1);
    job.add(Operation::reduce_scatter, job.everybody(), 300);
    for (const SessionClock& clock : fit_serially(job).report.sessions) EXPECT_EQ(clock.drift_ppb, 0) << seed;
  }
}

TEST(Fit, SpreadOutAllGathersNeitherDriftNorDeceive) {
  // As measured: most of the spread is a lasting bias, the rest scatters from instance to instance by as much.
  Coverage coverage;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(3500 + seed, 8, 30, 20e6, 0);
    job.gather_scatter = 1.25;
    job.add(Operation::all_gather, job.everybody(), 200);
    job.add(Operation::all_gather, {0, 1, 2, 3}, 200, 0.4, 1);
    const ClockFit fit = fit_serially(job);
    for (const SessionClock& clock : fit.report.sessions) EXPECT_EQ(clock.drift_ppb, 0) << seed;
    coverage.add(errors_of(job, fit, job.everybody()));
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

TEST(Fit, FindsDriftInAOneSecondRun) {
  SimulatedClocks job(7, 2, 1);
  job.clocks = {{1e6, 0}, {-2e6, 50e-6}};
  job.add(Operation::all_reduce, job.everybody(), 200);
  const ClockFit fit = fit_serially(job);
  // 50 ppm seen from the reference: 1 - 1 / (1 + 50e-6) = 49997.5 ppb; three floors are 3 * 3.5 * 29.7 = 312 ppb.
  EXPECT_NEAR(fit.report.sessions[1].drift_ppb, 49'997.5, 312);
  EXPECT_EQ(fit.report.sessions[0].drift_ppb, 0);
  EXPECT_EQ(fit.report.sessions[0].offset_ns, 0);
}

TEST(Fit, AllGathersAloneAreKnownToBeBiased) {
  Coverage coverage;
  for (int seed = 0; seed < 4 * seeds; ++seed) {
    SimulatedClocks job(4000 + seed, 8, 20);
    job.add(Operation::all_gather, job.everybody(), 100);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    coverage.add(errors);
    // A bias is no drift: three drift floors of a jitter of 1 us per exit.
    EXPECT_LT(errors.worst_drift_pair(), 3 * 3.5 * 1'000e-9 / 10 / 20) << "seed " << seed;
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

TEST(Fit, ReduceScattersAloneReachTheirFloor) {
  Coverage coverage;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(5000 + seed, 8, 5);
    job.add(Operation::reduce_scatter, job.everybody(), 200);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    coverage.add(errors);
    // A pair of exits: sqrt(2) * 1 us / 0.6745 * 0.603 = 1.264 us. Of 28 pairs the worst may miss by four floors.
    EXPECT_LT(errors.worst_offset_pair(), 4 * offset_floor_ns(200, 1'264)) << "seed " << seed;
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

TEST(Fit, ARingOfSubGroupsRelatesAll) {
  Coverage coverage;
  for (int seed = 0; seed < seeds; ++seed) {
    constexpr int nodes = 16, instances = 100;
    SimulatedClocks job(6000 + seed, nodes, 10);
    for (int n = 0; n < nodes; ++n) job.add(Operation::all_reduce, {n, (n + 1) % nodes}, instances);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    coverage.add(errors);
    // The two ways round between opposite nodes are 8 links each: variance 8 / 2 links.
    EXPECT_LT(errors.worst_offset_pair(), 3 * std::sqrt(8.0 / 2) * offset_floor_ns(instances)) << seed;
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

TEST(Fit, AChainOfReduceScattersReachesItsFloor) {
  Coverage coverage;
  constexpr int nodes = 8, instances = 200;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(6500 + seed, nodes, 10);
    for (int n = 0; n + 1 < nodes; ++n) job.add(Operation::reduce_scatter, {n, n + 1}, instances);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    coverage.add(errors);
    // Seven links one after another; each as uncertain as a pair of exits.
    EXPECT_LT(errors.worst_offset_pair(), 3 * std::sqrt(7.0) * offset_floor_ns(instances, 1'264)) << seed;
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 4);  // who is the last of two by chance counts as if it lasted
}

TEST(Fit, ComponentsStayApart) {
  SimulatedClocks job(8, 6, 5);
  job.add(Operation::all_reduce, {0, 2, 4}, 100);
  job.add(Operation::all_reduce, {1, 3}, 100);  // 5 takes part in nothing
  const ClockFit fit = fit_serially(job);
  std::vector<int> components;
  for (const SessionClock& clock : fit.report.sessions) components.push_back(clock.component);
  EXPECT_THAT(components, ::testing::ElementsAre(0, 1, 0, 1, 0, 2));
  EXPECT_LT(errors_of(job, fit, {0, 2, 4}).worst_offset_pair(), 4 * offset_floor_ns(100));
  EXPECT_LT(errors_of(job, fit, {1, 3}).worst_offset_pair(), 4 * offset_floor_ns(100));
  EXPECT_EQ(fit.report.sessions[1].offset_ns, 0);
  EXPECT_EQ(fit.report.sessions[1].drift_ppb, 0);
  EXPECT_EQ(fit.report.sessions[5].method, ClockMethod::utc);
  EXPECT_FALSE(fit.report.sessions[5].uncertainty_ns.has_value());
  ASSERT_EQ(fit.warnings.size(), 1U);
  EXPECT_EQ(fit.warnings[0].count, 3);
  EXPECT_THAT(fit.warnings[0].message, HasSubstr("not related"));
}

TEST(Fit, UtcRelatesWhatCollectivesDoNot) {
  SimulatedClocks job(9, 4, 5);
  job.add(Operation::all_reduce, {0, 1}, 100);
  job.add(Operation::all_reduce, {2, 3}, 100);
  const ClockFit fit = fit_serially(job, {.method = {}, .utc_uncertainty_ns = 700});
  for (const SessionClock& clock : fit.report.sessions) EXPECT_EQ(clock.component, 0);
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::collectives);
  EXPECT_LT(*fit.report.sessions[1].uncertainty_ns, 400);
  EXPECT_EQ(fit.report.sessions[3].method, ClockMethod::utc);
  EXPECT_GE(*fit.report.sessions[3].uncertainty_ns, 700);
  EXPECT_TRUE(fit.warnings.empty());
}

TEST(Fit, WrongMatchesDoNotMatter) {
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(9000 + seed, 8, 10);
    job.add(Operation::all_reduce, job.everybody(), 400);
    for (ObservedMember& member : job.observations.members) {
      if (job.uniform(0, 1) >= 0.01) continue;
      const auto off = static_cast<Nanoseconds>(job.uniform(1e6, 9e6));  // always late: the worst kind
      member.enter_ns += off;
      member.exit_ns += off;
    }
    const ClockFit fit = fit_serially(job);
    EXPECT_LT(errors_of(job, fit, job.everybody()).worst_offset_pair(), 4 * offset_floor_ns(400)) << seed;
    EXPECT_GT(*fit.report.residual.held_out_max_ns, 1'000'000);  // they are seen, not hidden
    EXPECT_LT(*fit.report.residual.held_out_p90_ns, 1'000);
  }
}

TEST(Fit, AConstantAddedToOneSessionIsAbsorbed) {
  SimulatedClocks job(11, 5, 10);
  job.add(Operation::all_reduce, job.everybody(), 200);
  const ClockFit before = fit_serially(job);
  constexpr Nanoseconds added = 123'456'789;
  for (ObservedMember& member : job.observations.members) {
    if (member.session != 3) continue;
    member.enter_ns += added;
    member.exit_ns += added;
  }
  const ClockFit after = fit_serially(job);
  for (int s = 0; s < 5; ++s) {
    const Nanoseconds expected = before.report.sessions[s].offset_ns + (s == 3 ? added : 0);
    EXPECT_NEAR(static_cast<double>(after.report.sessions[s].offset_ns), static_cast<double>(expected),
                static_cast<double>(*before.report.sessions[s].uncertainty_ns) + 1);
  }
}

TEST(Fit, SessionsWithoutUtcAreRelated) {
  SimulatedClocks job(12, 3, 10, 2e12);  // half an hour apart
  for (Session& session : job.sessions) session.utc_start_ns = no_time;
  job.add(Operation::all_reduce, job.everybody(), 200);
  const Errors errors = errors_of(job, fit_serially(job), job.everybody());
  EXPECT_LT(errors.worst_offset_pair(), 4 * offset_floor_ns(200));
}

// ---- host clocks

TEST(Fit, HostClocksRelateWhatCollectivesDoNot) {
  SimulatedClocks job(13, 4, 10);
  // 0 and 3 run on one machine; 3 takes part in nothing.
  job.sessions[3].host = job.sessions[0].host;
  job.sessions[0].system_clock_ns = 50'000'000'000;
  job.sessions[3].system_clock_ns = 50'000'004'000;  // session 3 began 4 us later than its equal UTC says
  job.add(Operation::all_reduce, {0, 1, 2}, 100);
  const ClockFit fit = fit_serially(job);
  EXPECT_EQ(fit.report.sessions[3].method, ClockMethod::host_clock);
  EXPECT_EQ(fit.report.sessions[3].component, 0);
  EXPECT_NEAR(static_cast<double>(fit.report.sessions[3].offset_ns), -4'000, 1);
  EXPECT_NEAR(static_cast<double>(*fit.report.sessions[3].uncertainty_ns), host_tie_ns, 5);
  EXPECT_EQ(fit.report.sessions[1].method, ClockMethod::collectives);
}

TEST(Fit, HostClocksAloneStayExact) {
  SimulatedClocks job(14, 4, 10);
  for (const int s : {0, 3}) job.sessions[s].host = "one", job.sessions[s].system_clock_ns = 77'000'000'000;
  job.sessions[3].utc_start_ns += 12'345;
  job.add(Operation::all_reduce, {1, 2}, 100);
  const ClockFit fit = fit_serially(job);
  EXPECT_EQ(fit.report.sessions[3].method, ClockMethod::host_clock);
  EXPECT_EQ(fit.report.sessions[3].offset_ns, 12'345);
  EXPECT_EQ(fit.report.sessions[3].drift_ppb, 0);
  EXPECT_EQ(fit.report.sessions[3].component, fit.report.sessions[0].component);
  EXPECT_NE(fit.report.sessions[1].component, fit.report.sessions[0].component);
}

TEST(Fit, AWrongHostClockIsLetGo) {
  SimulatedClocks job(15, 4, 10);  // clocks of all four differ by milliseconds
  for (const int s : {1, 2}) job.sessions[s].host = "same name", job.sessions[s].system_clock_ns = 99'000'000'000;
  job.add(Operation::all_reduce, job.everybody(), 200);
  const ClockFit fit = fit_serially(job);
  EXPECT_LT(errors_of(job, fit, job.everybody()).worst_offset_pair(), 4 * offset_floor_ns(200));
  ASSERT_EQ(fit.warnings.size(), 1U);
  EXPECT_THAT(fit.warnings[0].message, HasSubstr("not on one clock"));
}

// ---- weaker operations, forced methods

TEST(Fit, OperationsThatDoNotSynchroniseBridgeOnlyWhereNothingElseDoes) {
  SimulatedClocks job(16, 4, 10);
  job.add(Operation::all_reduce, {0, 1}, 100);
  job.add(Operation::all_reduce, {2, 3}, 100);
  job.add(Operation::send_recv, {1, 2}, 100);
  job.add(Operation::broadcast, {0, 1}, 1000);  // between sessions that all-reduces relate
  const ClockFit fit = fit_serially(job);
  EXPECT_LT(errors_of(job, fit, {0, 1}).worst_offset_pair(), 4 * offset_floor_ns(100));
  EXPECT_EQ(fit.report.sessions[3].component, 0);
  EXPECT_GT(*fit.report.sessions[3].uncertainty_ns, 4'000);
  ASSERT_EQ(fit.warnings.size(), 1U);
  EXPECT_EQ(fit.warnings[0].count, 2);
  EXPECT_THAT(fit.warnings[0].message, HasSubstr("do not synchronise"));
}

TEST(Fit, AForcedMethodIsUsed) {
  SimulatedClocks job(17, 3, 5);
  for (const int s : {0, 1}) job.sessions[s].host = "one", job.sessions[s].system_clock_ns = 5;
  job.add(Operation::all_reduce, job.everybody(), 50);
  const ClockFit utc = fit_serially(job, {.method = ClockMethod::utc, .utc_uncertainty_ns = {}});
  for (const SessionClock& clock : utc.report.sessions) EXPECT_EQ(clock.method, ClockMethod::utc);
  const ClockFit host = fit_serially(job, {.method = ClockMethod::host_clock, .utc_uncertainty_ns = {}});
  EXPECT_EQ(host.report.sessions[1].method, ClockMethod::host_clock);
  EXPECT_EQ(host.report.sessions[2].component, 1);
  const ClockFit collectives = fit_serially(job, {.method = ClockMethod::collectives, .utc_uncertainty_ns = {}});
  for (const SessionClock& clock : collectives.report.sessions) EXPECT_EQ(clock.method, ClockMethod::collectives);
  EXPECT_TRUE(collectives.warnings.empty());  // the wrong host clock is not even looked at
}

// ---- degenerate jobs

TEST(Fit, NothingToFitLeavesLevelZero) {
  EXPECT_TRUE(fit_clocks({}, {}, Reduction::serial()).report.sessions.empty());
  SimulatedClocks job(18, 2, 1);
  const ClockFit none = fit_serially(job);
  EXPECT_EQ(none.report.sessions[1].method, ClockMethod::utc);
  EXPECT_FALSE(none.report.residual.held_out_p50_ns.has_value());
  SimulatedClocks single(19, 1, 1);
  single.add(Operation::all_reduce, {0, 0}, 5);  // two ranks in one session
  const ClockFit one = fit_serially(single);
  EXPECT_EQ(one.report.sessions[0].method, ClockMethod::utc);
  EXPECT_EQ(one.report.sessions[0].offset_ns, 0);
  EXPECT_TRUE(one.warnings.empty());
}

TEST(Fit, OneInstanceGivesAnOffsetWithItsUncertainty) {
  SimulatedClocks job(20, 3, 1);
  job.add(Operation::all_reduce, job.everybody(), 1);
  const ClockFit fit = fit_serially(job);
  const Errors errors = errors_of(job, fit, job.everybody());
  for (int s = 1; s < 3; ++s) {
    EXPECT_LT(std::abs(errors.offset_ns[s]), 3 * errors.uncertainty_ns[s]);
    // It takes its last member 200 us: 5% of that from instance to instance, 0.6 of it lasts, on either side.
    EXPECT_NEAR(errors.uncertainty_ns[s], 10'000 * std::sqrt(2 * 1.36), 1'500);
    EXPECT_EQ(fit.report.sessions[s].drift_ppb, 0);  // nothing says anything about it
  }
  EXPECT_EQ(fit.report.residual.samples, 0);
}

TEST(Fit, MovesOffsetsIntoTheirPhysicalBounds) {
  // Two kinds of all-reduce, each as even as the other: in one member 1 leaves 200 us late, in the other with the
  // others, 5 us after the last enter. Half-way its clock would be 100 us ahead, and it would have left the latter
  // before the others entered. In truth all clocks agree.
  SimulatedClocks job(21, 2, 2, 0, 0);
  for (int i = 0; i < 210; ++i) {
    const bool small = i % 21 == 0;
    ObservedInstance instance;
    instance.operation = Operation::all_reduce;
    instance.message_bytes = small ? 1 << 10 : 1 << 26;
    instance.first_member = static_cast<std::int64_t>(job.observations.members.size());
    instance.members = 2;
    job.observations.instances.push_back(instance);
    const Nanoseconds begin = Nanoseconds{10'000'000} * i;
    for (int s = 0; s < 2; ++s) {
      const Nanoseconds late = small ? 5'000 : s == 1 ? 220'000 : 20'000;
      job.observations.members.push_back({begin, begin + late + static_cast<Nanoseconds>(job.uniform(0, 500)), s});
    }
  }
  const ClockFit fit = fit_serially(job);
  ASSERT_EQ(fit.warnings.size(), 1U);
  EXPECT_THAT(fit.warnings[0].message, HasSubstr("nearest possible"));
  // 5 us of transfer and six scales of 0.15 us are left to the bound.
  EXPECT_NEAR(static_cast<double>(fit.report.sessions[1].offset_ns), 5'900, 1'000);
}

}  // namespace
}  // namespace nsys_explain::clock
