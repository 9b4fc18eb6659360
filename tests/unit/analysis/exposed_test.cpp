#include "analysis/trace/work_profile.hpp"

#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "unit/analysis/rank_fixture.hpp"
#include "work_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::RankFixture;

constexpr Nanoseconds us = 1000;

TraceArrival reduction(Nanoseconds enter_ns, Nanoseconds exit_ns, std::int32_t index) {
  TraceArrival arrival;
  arrival.enter = TraceTime(enter_ns);
  arrival.exit = TraceTime(exit_ns);
  arrival.index = index;
  arrival.operation = Operation::all_reduce;
  return arrival;
}

using Told = std::tuple<std::int32_t, StandstillReason, Nanoseconds>;

std::vector<Told> told(const std::vector<ExposedStretch>& stretches) {
  std::vector<Told> told;
  for (const ExposedStretch& stretch : stretches)
    told.emplace_back(stretch.arrival, stretch.reason, stretch.exposed_ns);
  return told;
}

TEST(Exposed, ComputeThatGoesOnAtTheExitHadWaited) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.kernel("ncclAllReduce", 12 * us, 250 * us, 400 * us);  // 50 us beside the kernel
  fixture.kernel("adam", 14 * us, 402 * us, 500 * us);
  EXPECT_EQ(told(exposed_stretches(fixture.events(), std::vector{reduction(250 * us, 400 * us, 0)})),
            (std::vector<Told>{{0, StandstillReason::blocking, 100 * us}}));
}

TEST(Exposed, UntilTheLaunchOfWhatRunsNextTheHostIsLate) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.kernel("ncclAllReduce", 12 * us, 300 * us, 400 * us);
  fixture.kernel("adam", 350 * us, 402 * us, 500 * us);  // its launch returns 10 ns later
  EXPECT_EQ(told(exposed_stretches(fixture.events(), std::vector{reduction(300 * us, 400 * us, 0)})),
            (std::vector<Told>{{0, StandstillReason::launch_paced, 50'010}, {0, StandstillReason::blocking, 49'990}}));
}

TEST(Exposed, AHostThatWaitsForTheGpuIsNotLate) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.kernel("ncclAllReduce", 12 * us, 300 * us, 400 * us);
  fixture.call("cudaStreamSynchronize", 100 * us, 380 * us);
  fixture.kernel("adam", 420 * us, 430 * us, 500 * us);
  EXPECT_EQ(
      told(exposed_stretches(fixture.events(), std::vector{reduction(300 * us, 400 * us, 0)})),
      (std::vector<Told>{{0, StandstillReason::blocking, 80 * us}, {0, StandstillReason::launch_paced, 20 * us}}));
}

TEST(Exposed, NothingIsToldOfTheEndOrOfGapsBetweenKernels) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.kernel("ncclAllReduce", 11 * us, 100 * us, 700 * us);
  fixture.kernel("gemm", 12 * us, 302 * us, 500 * us);  // 2 us later, while the collective goes on
  EXPECT_EQ(told(exposed_stretches(fixture.events(), std::vector{reduction(100 * us, 700 * us, 0)})),
            (std::vector<Told>{{0, StandstillReason::not_told, 2 * us}, {0, StandstillReason::not_told, 200 * us}}));
  EXPECT_EQ(told(exposed_stretches(fixture.events(), {})),
            (std::vector<Told>{{-1, StandstillReason::not_told, 2 * us}, {-1, StandstillReason::not_told, 200 * us}}));
}

}  // namespace
}  // namespace nsys_explain::analysis
