#include "analysis/causes/causes.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

/// Four trace ranks, of which number 2 is late.
struct Scene {
  JobReport report;
  JobDelays delays;
  Straggler straggler;

  Scene() {
    report.ranks.resize(4);
    for (std::int32_t r = 0; r < 4; ++r) report.ranks[static_cast<std::size_t>(r)].trace_rank = r;
    delays.speed.resize(4);
    delays.bins = 2;
    delays.excess_work_ns.assign(8, 0);
    delays.slow_transfer_ns.assign(8, 0);
    straggler.trace_rank = 2;
    straggler.trace_ranks = {2};
  }
  Cause cause_after(Cause before) {
    straggler.cause = before;
    complete_cause(report, delays, nullptr, straggler);
    return straggler.cause;
  }
  void slow_link(std::vector<std::int32_t> trace_ranks) {
    SlowLink link;
    link.place = LinkPlace::rank_pair;
    link.trace_ranks = std::move(trace_ranks);
    link.slowdown = 2.5;
    report.slow_links.push_back(link);
  }
  void samples() {
    Table table = make_table({"gpu_samples",
                              "",
                              {{"trace_rank", ColumnKind::integer, "", ""},
                               {"source", ColumnKind::text, "", ""},
                               {"samples", ColumnKind::integer, "", ""},
                               {"throttled_samples", ColumnKind::integer, "", ""},
                               {"median_sm_clock_mhz", ColumnKind::real, "MHz", ""},
                               {"median_power_w", ColumnKind::real, "W", ""},
                               {"median_temperature_c", ColumnKind::real, "C", ""}}});
    RowWriter row(table);
    for (std::int64_t r = 0; r < 4; ++r) {
      const std::int64_t throttled = r == 2 ? 17 : 0;
      // In the other source of the same GPUs nothing is alike: it must not be mixed in.
      row << r << std::string_view("gpu_metrics") << std::int64_t{900} << std::int64_t{450} << 100.0 << -1.0 << -1.0;
      row << r << std::string_view("nvml") << std::int64_t{20} << throttled << (r == 2 ? 1200.0 : 1980.0)
          << (r == 2 ? 310.0 : 690.0 + static_cast<double>(r)) << -1.0;
    }
    report.tables.push_back(std::move(table));
  }
};

TEST(CauseContext, KernelsThatRunElsewhereTellWhereNoPeerDoes) {
  Scene scene;
  EXPECT_EQ(scene.cause_after(Cause::unknown), Cause::unknown);
  scene.delays.speed[2] = {2, 10, 1.2, 1e-9, true};
  EXPECT_EQ(scene.cause_after(Cause::unknown), Cause::slow_kernel);
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::extra_work) << "a cause that is known stays";
  scene.straggler.trace_ranks = {2, 3};
  EXPECT_EQ(scene.cause_after(Cause::unknown), Cause::unknown) << "of a place, all GPUs must be slow";
}

TEST(CauseContext, ExtraWorkIsNotWhatASlowGpuLosesByItsSpeed) {
  // 1 s of kernels that take 1.25 times as long as elsewhere: 200 ms.
  Scene scene;
  scene.report.ranks[2].budget.compute_ns = 1'000'000'000;
  scene.delays.excess_work_ns[4] = 300'000'000;
  scene.delays.excess_work_ns[5] = 90'000'000;
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::extra_work) << "no GPU is slow";
  scene.delays.speed[2].slow = true;
  scene.delays.speed[2].ratio = 1.25;
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::slow_kernel) << "200 of 390 ms";
  ASSERT_FALSE(scene.straggler.evidence.empty());
  EXPECT_NE(scene.straggler.evidence[0].find(
                "took 200.000 ms longer over the run than its peers' (table gpu_speed), all of its work 390.000 ms"),
            std::string::npos);
  scene.delays.excess_work_ns[5] = 110'000'000;
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::extra_work) << "200 of 410 ms";
}

TEST(CauseContext, PausesThatEverybodyHasAreNotWhyASlowGpuIsLate) {
  // Of 200 ms that it loses by its speed, beside pauses of 300 ms that all ranks have now and then.
  Scene scene;
  scene.report.ranks[2].budget.compute_ns = 1'000'000'000;
  scene.delays.speed[2] = {2, 10, 1.25, 1e-9, true};
  scene.delays.excess_work_ns = {300'000'000, 0, 0, 310'000'000, 500'000'000, 0, 290'000'000, 0};
  EXPECT_EQ(scene.cause_after(Cause::launch_starved), Cause::slow_kernel);
  // Its own pauses, longer than what it loses, are.
  scene.delays.excess_work_ns = {0, 0, 0, 10'000'000, 500'000'000, 0, 0, 0};
  EXPECT_EQ(scene.cause_after(Cause::launch_starved), Cause::launch_starved);
}

TEST(CauseContext, LargerKernelsAreTheCauseWhereTheyHoldMostOfTheRun) {
  // The same kernels take 700 ms instead of 600, all of them by larger ones.
  ComputeDifference compute;
  compute.of_run = true;
  compute.own_ns = 700e6;
  compute.peers_ns = 600e6;
  compute.larger_ns = 100e6;
  const auto cause = [&](Nanoseconds excess_ns, const ComputeDifference& difference,
                         Cause before = Cause::launch_starved) {
    Scene scene;
    scene.delays.excess_work_ns[4] = excess_ns;
    scene.straggler.cause = before;
    complete_cause(scene.report, scene.delays, &difference, scene.straggler);
    return scene.straggler.cause;
  };
  EXPECT_EQ(cause(190'000'000, compute), Cause::uneven_work);
  EXPECT_EQ(cause(210'000'000, compute), Cause::launch_starved) << "its pauses are longer";
  compute.of_run = false;
  EXPECT_EQ(cause(190'000'000, compute), Cause::launch_starved) << "of a few collectives only";
  compute.of_run = true;
  compute.own_ns = 602e6;
  compute.larger_ns = 2e6;
  EXPECT_EQ(cause(3'000'000, compute), Cause::launch_starved) << "a third of a percent is noise";
  EXPECT_EQ(cause(3'000'000, compute, Cause::slow_kernel), Cause::unknown) << "and tells of no slow GPU";
}

TEST(CauseContext, WhatEverybodySeemsToDoMoreIsNoExtraWork) {
  // Records were lost everywhere: each rank seems to take 210 to 260 ms longer than its peers. Of the 450 ms of the
  // late one 240 ms are its own, and its GPU loses 200 ms by its speed.
  Scene scene;
  scene.report.ranks[2].budget.compute_ns = 1'000'000'000;
  scene.delays.speed[2] = {2, 10, 1.25, 1e-9, true};
  scene.delays.excess_work_ns[4] = 450'000'000;
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::extra_work) << "the others do no more";
  scene.delays.excess_work_ns = {100'000'000, 110'000'000, 260'000'000, 0, 450'000'000, 0, 200'000'000, 60'000'000};
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::slow_kernel);
  // What others do less than their peers is nothing of the late one.
  scene.delays.excess_work_ns = {-100'000'000, 0, -90'000'000, 0, 390'000'000, 0, -80'000'000, 0};
  EXPECT_EQ(scene.cause_after(Cause::extra_work), Cause::slow_kernel);
}

TEST(CauseContext, ASlowLinkIsTheCauseWhereItsTransfersAreMostOfWhatTakesLonger) {
  Scene scene;
  scene.slow_link({1, 3});
  scene.slow_link({1, 2});
  EXPECT_EQ(scene.cause_after(Cause::unknown), Cause::unknown) << "a slow link that compute did not wait for";
  scene.delays.excess_work_ns[2 * 2] = 9'000'000;
  scene.delays.slow_transfer_ns[2 * 2] = 4'000'000;
  EXPECT_EQ(scene.cause_after(Cause::launch_starved), Cause::launch_starved) << "less than half of it";
  EXPECT_TRUE(scene.straggler.evidence.empty());
  scene.delays.slow_transfer_ns[2 * 2] = 6'000'000;
  scene.delays.speed[2] = {2, 10, 1.2, 1e-9, true};
  EXPECT_EQ(scene.cause_after(Cause::unknown), Cause::slow_link);
  ASSERT_EQ(scene.straggler.evidence.size(), 1U);
  EXPECT_EQ(
      scene.straggler.evidence[0],
      "transfers that compute waited for took 6.000 ms longer than its peers' over the run (from the latest enter on, mean of its ranks), all else 3.000 ms; transfers through the link between ranks 1 and 2 take 2.50 times as long as equal ones elsewhere (finding slow-link, table slow_links)");
}

TEST(CauseContext, WhoSharesTheSlowTransfersOfAnotherIsLateBySomethingElse) {
  Scene scene;
  scene.slow_link({1});
  scene.delays.excess_work_ns[2 * 2] = 9'000'000;
  scene.delays.slow_transfer_ns[2 * 2] = 6'000'000;
  scene.delays.slow_places = {{{1}, {1, 2, 3}}};
  EXPECT_EQ(scene.cause_after(Cause::sync_stall), Cause::sync_stall);
  scene.delays.slow_places.push_back({{2}, {2, 3}});
  EXPECT_EQ(scene.cause_after(Cause::sync_stall), Cause::slow_link) << "its own are slow, too";
}

TEST(CauseContext, ClocksAndPowerStandBesideThoseOfTheOtherGpus) {
  Scene scene;
  scene.samples();
  scene.cause_after(Cause::sync_stall);
  EXPECT_TRUE(scene.straggler.evidence.empty()) << "clocks do not bear on what the host does";
  scene.cause_after(Cause::slow_kernel);
  ASSERT_EQ(scene.straggler.evidence.size(), 1U);
  EXPECT_EQ(
      scene.straggler.evidence[0],
      "medians while it worked (gpu_samples): SM clock 1200 MHz (the other GPUs 1980), power 310 W (the other GPUs 691); throttled in 17 of 20 samples");
}

/// Three ranks of one role in three steps; in step b rank b is late by 10 and the others wait 20 for it.
JobDelays rotating(std::int64_t longer, std::int64_t larger) {
  JobDelays delays;
  delays.bins = 3;
  delays.role = {7, 7, 7};
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t b = 0; b < 3; ++b) {
      const bool late = r == b;
      delays.caused_wait_ns.push_back(late ? 20 : 0);
      delays.excess_work_ns.push_back(late ? 10 : 0);
      delays.kernels_ns.push_back(100 + (late ? longer : 0));
      delays.usual_kernels_ns.push_back(100 + (late ? larger : 0));
    }
  }
  return delays;
}

TEST(RotatingCause, LargerKernelsAreUnevenWork) {
  const RotatingCause why = rotating_cause(rotating(9, 8));
  EXPECT_EQ(why.cause, Cause::uneven_work);
  EXPECT_DOUBLE_EQ(why.share, 0.8);
}

TEST(RotatingCause, LongerKernelsOfEqualGridsMayBeEither) {
  const RotatingCause why = rotating_cause(rotating(9, 2));
  EXPECT_EQ(why.cause, Cause::slow_kernel);
  EXPECT_DOUBLE_EQ(why.share, 0.9);
}

TEST(RotatingCause, PausesOfHostsAreNoWorkOfGpus) {
  EXPECT_EQ(rotating_cause(rotating(4, 4)).cause, Cause::unknown);
  EXPECT_EQ(rotating_cause({}).cause, Cause::unknown);
}

TEST(RotatingCause, StagesAreComparedWithTheirOwn) {
  // The ranks of a longer stage compute 50 more in all steps, and nobody of them more than the other.
  JobDelays delays = rotating(0, 0);
  delays.role = {7, 8, 8};
  for (std::size_t i = 3; i < 9; ++i) delays.kernels_ns[i] = delays.usual_kernels_ns[i] = 150;
  EXPECT_EQ(rotating_cause(delays).cause, Cause::unknown);
}

}  // namespace

}  // namespace nsys_explain::analysis
