#include "clock/fit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "clock/job_clock.hpp"
#include "fit_truth.hpp"
#include "simulated_clocks.hpp"

namespace nsys_explain::clock {
namespace {

using testing::fit_serially;
using testing::offset_floor_ns;
using testing::SimulatedClocks;

constexpr int seeds = 10;

ClockFit fit_of(const std::vector<SessionClock>& clocks, const ClockErrors& errors) {
  ClockFit fit;
  fit.report.sessions = clocks;
  fit.errors = errors;
  return fit;
}

double uncertainty(const ClockFit& fit, std::size_t a, std::size_t b, Nanoseconds at_ns) {
  return static_cast<double>(difference_uncertainty_ns(fit.report.sessions, fit.errors, a, b, at_ns));
}

TEST(DifferenceUncertainty, WorkedExample) {
  std::vector<SessionClock> clocks(3);
  clocks[1].uncertainty_ns = 3'000;
  clocks[2].uncertainty_ns = 4'000;
  // Two draws at two times. Sessions 1 and 2 err alike but for 30 ns at the beginning, 70 ns at the end.
  const ClockErrors errors{.at_ns = {1'000, 2'000},
                           .draws = 2,
                           .error_ns = {0, 0, 0, 0, 3'000, -3'000, 2'000, -2'000, 3'030, -3'030, 2'070, -2'070},
                           .tie_ns = {},
                           .fitted_graph = {0, 0, 0}};
  EXPECT_EQ(uncertainty(fit_of(clocks, errors), 1, 2, 1'000), 30);
  EXPECT_EQ(uncertainty(fit_of(clocks, errors), 1, 2, 1'500), 50);
  EXPECT_EQ(uncertainty(fit_of(clocks, errors), 1, 2, 2'500), 90) << "goes on in a straight line";
  EXPECT_EQ(uncertainty(fit_of(clocks, errors), 0, 1, 2'000), 2'000);
  ClockErrors other_graph = errors;
  other_graph.fitted_graph[2] = 2;  // related by UTC, say: independent
  EXPECT_EQ(uncertainty(fit_of(clocks, other_graph), 1, 2, 1'500), 5'000);
  EXPECT_EQ(uncertainty(fit_of(clocks, {}), 1, 2, 1'500), 5'000) << "nothing was fitted";
}

/// Differences of job time of two sessions at one moment, held against what is said to be known of them.
struct DifferenceCoverage {
  int covered = 0, all = 0;
  double stated = 0, squares = 0;

  void add(const SimulatedClocks& job, const ClockFit& fit, int a, int b, double moment) {
    const auto job_time = [&](int s) {
      return JobClock(fit.report.sessions[s], fit.report.pivot_ns)(SessionTime(std::llround(job.shows(s, moment)))).ns;
    };
    const auto error = static_cast<double>(job_time(a) - job_time(b));
    const double u = uncertainty(fit, a, b, job_time(a));
    covered += std::abs(error) <= 3 * u ? 1 : 0;
    stated += u * u;
    squares += error * error;
    ++all;
  }
  void expect_honest() const {
    EXPECT_GE(static_cast<double>(covered) / all, 0.95);
    EXPECT_LT(std::sqrt(stated / squares), 3);
    EXPECT_GT(std::sqrt(stated / squares), 0.5);
  }
};

TEST(DifferenceUncertainty, CoversEveryPairAtAnyTimeOfTheRun) {
  DifferenceCoverage begin, middle, end;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(700 + seed, 8, 20);
    job.add(Operation::all_reduce, job.everybody(), 200);
    const ClockFit fit = fit_serially(job);
    for (int a = 0; a < 8; ++a) {
      for (int b = 0; b < a; ++b) {
        begin.add(job, fit, a, b, job.begin_ns());
        middle.add(job, fit, a, b, job.mid_run_ns());
        end.add(job, fit, a, b, job.end_ns());
      }
    }
  }
  begin.expect_honest();
  middle.expect_honest();
  end.expect_honest();
  EXPECT_GT(end.stated, middle.stated) << "the drift adds to it";
}

TEST(DifferenceUncertainty, NeighboursFarFromTheReferenceKnowEachOtherWell) {
  // A chain of pairs, as pipeline stages form. What lasts is a session's own, and does not add up along the chain.
  constexpr int nodes = 16, instances = 100;
  DifferenceCoverage neighbours;
  for (int seed = 0; seed < seeds; ++seed) {
    SimulatedClocks job(800 + seed, nodes, 10);
    for (int n = 0; n + 1 < nodes; ++n) job.add(Operation::all_reduce, {n, n + 1}, instances);
    const ClockFit fit = fit_serially(job);
    for (int n = 1; n + 1 < nodes; ++n) neighbours.add(job, fit, n, n + 1, job.mid_run_ns());
    const double of_one_link = uncertainty(fit, nodes - 2, nodes - 1, fit.report.pivot_ns);
    EXPECT_LT(of_one_link, 1.5 * offset_floor_ns(instances)) << seed;
  }
  neighbours.expect_honest();
}

}  // namespace
}  // namespace nsys_explain::clock
