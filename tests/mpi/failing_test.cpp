// Fails on rank 1 only. Not a test by itself: tests/mpi/endings.py checks that rank 0 reports the failure.
#include <gtest/gtest.h>

#include "mpi/mpi_test.hpp"

namespace nsys_explain {
namespace {

TEST(Failing, OnRankOneOnly) {
  EXPECT_NE(mpi_test::world().rank(), 1) << "a planted failure";
}

TEST(Failing, Nowhere) {}

}  // namespace
}  // namespace nsys_explain
