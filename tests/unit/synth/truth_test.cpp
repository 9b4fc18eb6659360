#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "test_support.hpp"

namespace nsys_explain::synth {
namespace {

using namespace test;
using Json = nlohmann::json;

Json truth_of(const JobPlan& plan, TruthDetail detail = TruthDetail::full) {
  return Json::parse(truth_json(simulate(plan), plan, detail));
}

TEST(Truth, IsTheSimulatedJob) {
  JobPlan plan = small_plan();
  plan.faults.push_back(parse_fault("late_host:rank=1,pause=2ms,period=2"));
  const SimulatedJob job = simulate(plan);
  const Json truth = truth_of(plan);
  ASSERT_EQ(truth["instances"].size(), job.instances.size());
  for (std::size_t i = 0; i < job.instances.size(); ++i) {
    const TrueInstance& instance = job.instances[i];
    const Json& entry = truth["instances"][i];
    EXPECT_EQ(entry["operation"], operation_name(instance.operation));
    EXPECT_EQ(entry["last_enter_ns"], instance.last_enter_ns);
    EXPECT_EQ(entry["last_rank"], instance.last_rank);
    ASSERT_EQ(entry["members"].size(), instance.arrivals);
    for (std::uint32_t k = 0; k < instance.arrivals; ++k) {
      const TrueArrival& arrival = job.arrivals[instance.first_arrival + k];
      EXPECT_EQ(entry["members"][k], Json({arrival.rank, arrival.enter_ns, arrival.exit_ns, arrival.wait_ns, true}));
    }
  }
  EXPECT_EQ(truth["faults"][0]["kind"], "late_host");
  EXPECT_EQ(truth["faults"][0]["cause"], "launch_starved");
  EXPECT_EQ(truth["faults"][0]["pattern"], "periodic");
  EXPECT_EQ(truth["faults"][0]["ranks"], Json({1}));
  EXPECT_EQ(truth["layout"]["data_parallel"], 4);
}

TEST(Truth, SummaryLeavesOutInstances) {
  const Json truth = truth_of(small_plan(), TruthDetail::summary);
  EXPECT_FALSE(truth.contains("instances"));
  EXPECT_EQ(truth["instance_count"], 14);
  EXPECT_EQ(truth["ranks"].size(), 4U);
}

TEST(Truth, HoldsNoSecret) {
  EXPECT_THAT(truth_json(simulate(small_plan()), small_plan(), TruthDetail::full),
              ::testing::Not(::testing::HasSubstr(secret_prefix)));
}

TEST(Truth, CountsWhatIsExported) {
  JobPlan plan = small_plan();
  plan.capture.drop_share = 0.2;
  const SimulatedJob job = simulate(plan);
  const Json truth = truth_of(plan);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    std::int64_t kernels = 0, exported = 0;
    for (std::uint32_t i = 0; i < job.ranks[rank].activities.size(); ++i) {
      if (job.ranks[rank].activities[i].kind != ActivityKind::kernel) continue;
      ++kernels;
      exported += is_exported(job, plan, static_cast<std::int32_t>(rank), i) ? 1 : 0;
    }
    EXPECT_EQ(truth["ranks"][rank]["kernels"], kernels);
    EXPECT_EQ(truth["ranks"][rank]["exported_kernels"], exported);
  }
}

/// docs/outputs.md, Times: job time = u - offset - drift_ppb * 1e-9 * (u - offset - pivot), with the reference's u as
/// job time.
TEST(Clock, RelativeClockMapsEverySessionOntoTheReference) {
  JobPlan plan = small_plan();
  plan.clocks.drift_max_ppm = 50;
  const SimulatedJob job = simulate(plan);
  const TrueSession& reference = job.sessions[0];
  const Nanoseconds epoch = reported_utc_start_ns(reference);
  const auto reported = [&](const TrueSession& session, Nanoseconds true_ns) {
    return static_cast<double>(reported_utc_start_ns(session) - epoch + trace_time_ns(session, true_ns));
  };
  const Nanoseconds middle = 700'000'000;
  const double pivot = reported(reference, middle);
  for (const TrueSession& session : job.sessions) {
    const RelativeClock clock = relative_clock(session, reference, middle);
    for (const Nanoseconds at : {600'000'000L, 700'000'000L, 5'000'000'000L, 60'000'000'000L}) {
      const double shifted = reported(session, at) - clock.offset_ns;
      const double job_time = shifted - clock.drift_ppb * 1e-9 * (shifted - pivot);
      EXPECT_NEAR(job_time, reported(reference, at), 3) << session.file_name;
    }
  }
}

TEST(Clock, SessionsAreWithinThePlanAndANodeHasOneOscillator) {
  JobPlan plan = small_plan();
  plan.clocks = {5'000'000, 50, 300'000'000, 32};
  const SimulatedJob job = simulate(plan);
  for (const TrueSession& session : job.sessions) {
    EXPECT_LE(std::abs(session.utc_offset_ns), 5'000'000);
    EXPECT_LE(std::abs(session.drift_ppb), 50'000);
    EXPECT_GE(session.start_ns, 0);
    EXPECT_LE(session.start_ns, 300'000'000);
  }
  EXPECT_EQ(job.sessions[0].drift_ppb, job.sessions[1].drift_ppb);
  EXPECT_NE(job.sessions[0].drift_ppb, job.sessions[2].drift_ppb);
  // Two sessions of a node on its monotonic clock: the same true instant gives the same reading.
  const auto monotonic = [&](const TrueSession& session) {
    return session.system_clock_ns + trace_time_ns(session, 2'000'000'000);
  };
  EXPECT_NEAR(static_cast<double>(monotonic(job.sessions[0]) - monotonic(job.sessions[1])), 0, 2);
}

TEST(Clock, WithoutErrorsTraceTimeIsTrueTime) {
  JobPlan plan = small_plan();
  plan.clocks = {0, 0, 0, 1};
  const SimulatedJob job = simulate(plan);
  for (const TrueSession& session : job.sessions) {
    EXPECT_EQ(reported_utc_start_ns(session), true_epoch_utc_ns);
    EXPECT_EQ(trace_time_ns(session, 123'456'789), 123'456'789);
  }
}

}  // namespace
}  // namespace nsys_explain::synth
