#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/exit_clusters.hpp"

namespace nsys_explain::collectives {
namespace {

/// Operations of four members: the first of each group enters within 3 us of a moment, the others within `apart_ns` of
/// it. All leave soon after the last of their group has come and its transfer, which varies by 400 ns, has ended.
ExitTable table_of(unsigned seed, std::size_t operations, double apart_ns,
                   const std::vector<std::vector<std::size_t>>& groups) {
  constexpr std::size_t members = 4;
  std::mt19937 random(seed);
  const auto below = [&](double end) { return end * static_cast<double>(random()) / 4294967296.0; };
  const auto late = [&] { return 450 * std::sqrt(-2 * std::log(1 - below(1))) * std::abs(std::cos(below(6.2831853))); };
  ExitTable table{members, std::vector<double>(operations * members), std::vector<double>(operations * members)};
  for (std::size_t first = 0; first < table.exits.size(); first += members) {
    for (const std::vector<std::size_t>& group : groups) {
      const double came = below(3'000), took = 20'000 + below(400);
      double last = 0;
      for (const std::size_t m : group) last = std::max(last, table.enters[first + m] = came + below(apart_ns));
      for (const std::size_t m : group) table.exits[first + m] = last + took + late();
    }
  }
  return table;
}

TEST(ExitClusters, AFewExitsDoNotPartMembersThatWaitForEachOther) {
  for (unsigned seed = 0; seed < 300; ++seed)
    EXPECT_EQ(leave_as_one(table_of(seed, 14, 10'000, {{0, 1, 2, 3}}), 0), (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(ExitClusters, GroupsInStepThatDoNotWaitForEachOtherAreParted) {
  for (unsigned seed = 0; seed < 300; ++seed)
    EXPECT_EQ(leave_as_one(table_of(seed, 40, 500, {{0, 1}, {2, 3}}), 0), (std::vector<std::size_t>{0, 1}));
}

}  // namespace
}  // namespace nsys_explain::collectives
