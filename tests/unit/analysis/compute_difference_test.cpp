#include "analysis/causes/causes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "analysis/tables/tables.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using ::testing::HasSubstr;
using testing::join;
using testing::OneRank;
using testing::table_of;

constexpr Nanoseconds us = 1000;

/// How often one trace rank runs each kernel, and for how long.
struct Work {
  std::int64_t count = 10;
  Nanoseconds duration_ns = 100 * us;
};
using Program = std::map<std::string, Work>;

Table table_of_programs(const std::vector<Program>& programs) {
  std::vector<Table> tables;
  for (const Program& program : programs) {
    OneRank rank;
    Nanoseconds now_ns = 0;
    for (const auto& [name, work] : program) {
      for (std::int64_t i = 0; i < work.count; ++i) {
        rank.kernel(name, now_ns, now_ns + work.duration_ns);
        now_ns += work.duration_ns + us;
      }
    }
    tables.push_back(table_of(kernel_tables(rank.events()), "kernels_by_launch"));
  }
  return join(tables);
}

const Program usual{{"attention", {10, 100 * us}},
                    {"norm", {20, 10 * us}},
                    {"up", {10, 200 * us}},
                    {"down", {10, 200 * us}},
                    {"router", {10, 5 * us}}};

/// Trace rank 2 of four is the late one.
ComputeDifference difference_of(const Program& late) {
  const std::vector<std::int32_t> who{2}, peers{0, 1, 3};
  return compare_compute(table_of_programs({usual, usual, late, usual}), who, peers).value();
}

TEST(ComputeDifference, ASlowGpuIsSlowerInMostFamiliesThoughNotByOneFactor) {
  Program late = usual;
  late["attention"].duration_ns = 130 * us;
  late["norm"].duration_ns = 10 * us;  // a small grid
  late["up"].duration_ns = 296 * us;
  late["down"].duration_ns = 254 * us;
  late["router"].duration_ns = 6 * us;
  const ComputeDifference difference = difference_of(late);
  // Ratios 1.30, 1.00, 1.48, 1.27 and 1.20; the peers take 1 + 0.2 + 2 + 2 + 0.05 ms, of which the router holds less
  // than 1%, so that the (lower) median is that of four.
  EXPECT_EQ(difference.families, 4);
  EXPECT_NEAR(difference.speed, 1.27, 1e-9);
  EXPECT_EQ(difference.cause(), Cause::slow_kernel);
  EXPECT_NEAR(difference.own_ns - difference.peers_ns, (7060 - 5250) * 1e3, 1);
  EXPECT_NEAR(difference.slower_ns, 7'060'000 * (1 - 1 / 1.27), 1);
  EXPECT_NEAR(difference.slower_ns + difference.more_ns + difference.larger_ns, 1'810'000, 1);
}

TEST(ComputeDifference, ABusyExpertIsUnevenWorkHoweverMuchItHolds) {
  // Two families take three times as long on equal grids and hold nine tenths of the time; all others are as usual.
  Program late = usual;
  late["up"].duration_ns = late["down"].duration_ns = 600 * us;
  const ComputeDifference difference = difference_of(late);
  EXPECT_EQ(difference.cause(), Cause::uneven_work);
  EXPECT_NEAR(difference.larger_ns, 8'000'000, 1);
  ASSERT_FALSE(difference.largest.empty());
  EXPECT_EQ(difference.largest[0].name, "down");
  EXPECT_NEAR(difference.largest[0].ratio(), 3, 1e-9);
  EXPECT_THAT(
      describe(difference)[0],
      HasSubstr(
          "8.000 ms by more or larger ones; a typical kernel of equal grid takes 1.00 times as long (median of 4)"));
}

TEST(ComputeDifference, KernelsOfOtherNamesThatStandForAsManyAreNotMore) {
  // A library chooses another kernel for the larger matrix.
  Program late = usual;
  late.erase("up");
  late["up_large"] = {10, 700 * us};
  const ComputeDifference difference = difference_of(late);
  EXPECT_EQ(difference.cause(), Cause::uneven_work);
  EXPECT_NEAR(difference.more_ns, 0, 1);
  EXPECT_NEAR(difference.larger_ns, 5'000'000, 1);
  EXPECT_THAT(describe(difference)[1], HasSubstr("10 in 7.000 ms, peers none"));
}

TEST(ComputeDifference, LessIsToldAsLessAndNothingIsNot) {
  // Half as fast, with one kernel less: 10.1 ms beside 5.25, of which half is the GPU's; a kernel of a peer is 0.2 ms.
  Program late = usual;
  for (auto& [name, work] : late) work.duration_ns *= 2;
  late["up"].count = 9;
  EXPECT_THAT(
      describe(difference_of(late))[0],
      HasSubstr("those of its peers 5.250 ms: 5.050 ms by slower kernels, 0.200 ms less by fewer or smaller ones;"));
  EXPECT_THAT(describe(difference_of(usual))[0], HasSubstr("those of its peers 5.250 ms; a typical kernel"));
}

TEST(ComputeDifference, MoreKernelsAreExtraWork) {
  Program late = usual;
  late["up"].count = 25;
  const ComputeDifference difference = difference_of(late);
  EXPECT_EQ(difference.cause(), Cause::extra_work);
  EXPECT_NEAR(difference.more_ns, 15 * 200e3, 1);
  EXPECT_NEAR(difference.larger_ns, 0, 1);
}

TEST(ComputeDifference, NobodyIsBlamedForComputingLess) {
  Program late = usual;
  late["up"].duration_ns = 150 * us;
  EXPECT_EQ(difference_of(late).cause(), Cause::unknown);
  const std::vector<std::int32_t> who{0}, nobody;
  EXPECT_FALSE(compare_compute(table_of_programs({usual, usual}), who, nobody).has_value());
}

TEST(ComputeDifference, OfOneDelayIsReadFromItsDivergence) {
  Divergence divergence;
  const auto add = [&](const std::string& name, std::int64_t own, Nanoseconds own_ns, std::int64_t peer,
                       Nanoseconds peer_ns) {
    WorkDifference& difference = divergence.differences.emplace_back();
    difference.name = name;
    difference.straggler_count = own;
    difference.straggler_ns = own_ns;
    difference.peer_count = peer;
    difference.peer_ns = peer_ns;
  };
  EXPECT_FALSE(compare_compute(divergence).has_value());
  add("eval", 80, 1'600'000 * us, 0, 0);
  add("gemm", 4, 6000 * us, 4, 6000 * us);
  const ComputeDifference difference = compare_compute(divergence).value();
  EXPECT_EQ(difference.cause(), Cause::extra_work);
  EXPECT_NEAR(difference.more_ns, 1.6e9, 1);
}

}  // namespace
}  // namespace nsys_explain::analysis
