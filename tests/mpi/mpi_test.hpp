#pragma once

#include "exchange/communicator.hpp"

/// For tests run by tests/mpi/main.cpp, which starts every test on all ranks at once. A test fails where any rank
/// fails, and rank 0 prints the failures of all.
///
/// An ASSERT between two collective calls that fails on some ranks only leaves the others waiting until ctest's
/// timeout: use EXPECT there.
namespace nsys_explain::mpi_test {

/// All ranks of this test run; the number of ranks stands on the test (name.np3).
const exchange::Communicator& world();

}  // namespace nsys_explain::mpi_test
