#include <gtest/gtest.h>

#include <cmath>

#include "fit_truth.hpp"

/// So many samples that the fit goes by a part of the instances (samples.cpp, choose_part), which leaves out what some
/// of these jobs rest on.
namespace nsys_explain::clock::testing {
namespace {

constexpr double one_exit_ns = 300 / 0.6745 * 0.6028;  // standard deviation of |normal| is 0.6028 of the normal's

TEST(ChosenPart, AFewInstancesFarAwayHoldTheDrift) {
  constexpr int sessions = 96, near = 1'000, far = 3;
  constexpr double seconds = 10;
  Coverage coverage;
  for (const int seed : {1, 2, 3, 4}) {
    SimulatedClocks job(static_cast<std::uint64_t>(seed), sessions, seconds);
    job.add(Operation::all_reduce, job.everybody(), near, 0, 0.01);
    job.add(Operation::all_reduce, job.everybody(), far, 0.99, 1);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    // The difference of two sessions at the far end, over the run; the worst of 96 sessions is five deviations wide.
    const double drift_floor = one_exit_ns * std::sqrt(2.0 / far) / (seconds * 1e9);
    EXPECT_LT(errors.worst_drift_pair(), 5 * drift_floor) << "seed " << seed;
    EXPECT_LT(errors.worst_offset_pair(),
              5 * std::hypot(drift_floor * seconds / 2 * 1e9, std::sqrt(2) * lasting_share * one_exit_ns))
        << "seed " << seed;
    coverage.add(errors);
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

TEST(ChosenPart, IsAsGoodAsAllWhereInstancesAreAlike) {
  constexpr int sessions = 96, instances = 2'000;
  Coverage coverage;
  for (const int seed : {5, 6, 7}) {
    SimulatedClocks job(static_cast<std::uint64_t>(seed), sessions, 20);
    job.add(Operation::all_reduce, job.everybody(), instances);
    const Errors errors = errors_of(job, fit_serially(job), job.everybody());
    // A fit of the chosen part alone (about a sixteenth) would be four times as wide.
    const double floor = one_exit_ns * std::sqrt(2.0 / instances + 2 * lasting_share * lasting_share);
    EXPECT_LT(errors.worst_offset_pair(), 5 * floor) << "seed " << seed;
    coverage.add(errors);
  }
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
}

}  // namespace
}  // namespace nsys_explain::clock::testing
