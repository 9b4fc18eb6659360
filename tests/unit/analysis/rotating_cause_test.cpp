#include "analysis/causes/causes.hpp"

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

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
