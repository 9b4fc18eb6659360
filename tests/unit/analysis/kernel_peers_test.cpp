#include "analysis/verdict/kernel_speed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "analysis/tables/tables.hpp"
#include "unit/analysis/rank_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::integers;
using testing::Integers;
using testing::join;
using testing::OneRank;
using testing::reals;
using testing::table_of;
using testing::texts;

struct Gpus {
  int ranks = 8;
  int kernels = 6;
  int executions = 60;
  double noise = 0.02;  ///< standard deviation of each execution, relative
  std::function<double(int rank, int kernel)> factor = [](int, int) { return 1.0; };
};

/// kernels_by_launch of GPUs that all run the same kernels, joined.
Table simulate(const Gpus& gpus, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1.0, gpus.noise);
  std::vector<Table> of_ranks;
  for (int r = 0; r < gpus.ranks; ++r) {
    OneRank rank;
    Nanoseconds now = 0;
    for (int e = 0; e < gpus.executions; ++e) {
      for (int k = 0; k < gpus.kernels; ++k) {
        const double usual_ns = 20'000.0 * (k + 1);
        const auto duration = static_cast<Nanoseconds>(usual_ns * gpus.factor(r, k) * std::max(0.5, noise(random)));
        rank.kernel("kernel_" + std::to_string(k), now, now + duration);
        now += duration + 1000;
      }
    }
    of_ranks.push_back(table_of(kernel_tables(rank.events()), "kernels_by_launch"));
  }
  return join(of_ranks);
}

std::vector<std::int64_t> slow_ranks(const Table& kernels_by_launch) {
  const std::vector<Table> tables = kernel_peer_tables(kernels_by_launch);
  const Table& speed = table_of(tables, "gpu_speed");
  std::vector<std::int64_t> slow;
  for (std::size_t i = 0; i < speed.row_count(); ++i) {
    if (integers(speed, "slow")[i] == 1) slow.push_back(integers(speed, "trace_rank")[i]);
  }
  return slow;
}

TEST(KernelPeers, RatiosByHand) {
  std::vector<Table> of_ranks;
  for (const Nanoseconds duration : {1000, 1000, 1040, 1500}) {
    OneRank rank;
    for (int i = 0; i < 5; ++i) rank.kernel("k", i * 10'000, i * 10'000 + duration);
    rank.kernel("twice", 50'000, 50'100);  // too rare to compare
    for (int i = 0; i < 5; ++i) rank.kernel("ncclX", 60'000 + i * 1000, 60'500 + i * 1000 + duration);
    of_ranks.push_back(table_of(kernel_tables(rank.events()), "kernels_by_launch"));
  }
  const std::vector<Table> tables = kernel_peer_tables(join(of_ranks));
  const Table& peers = table_of(tables, "kernel_peers");
  ASSERT_EQ(peers.row_count(), 4) << "communication waits for others, and one execution says nothing";
  EXPECT_EQ(reals(peers, "peers_median_ns"), (testing::Reals{1040, 1040, 1000, 1000}));
  EXPECT_DOUBLE_EQ(reals(peers, "ratio")[3], 1.5);
  EXPECT_EQ(integers(table_of(tables, "gpu_speed"), "slower_kernels"), (Integers{0, 0, 1, 1}));
}

TEST(KernelPeers, MediansAreThoseOfAllOthers) {
  for (const int ranks : {2, 3, 10, 41}) {
    Gpus gpus;
    gpus.ranks = ranks;
    gpus.kernels = 2;
    gpus.executions = 5;
    const std::vector<Table> tables = kernel_peer_tables(simulate(gpus, 1));
    const Table& peers = table_of(tables, "kernel_peers");
    const auto trace_ranks = integers(peers, "trace_rank");
    const auto names = texts(peers, "name");
    const auto medians = reals(peers, "median_ns"), of_peers = reals(peers, "peers_median_ns");
    ASSERT_EQ(peers.row_count(), static_cast<std::size_t>(2 * ranks));
    for (std::size_t own = 0; own < peers.row_count(); ++own) {
      std::vector<double> others;
      for (std::size_t i = 0; i < peers.row_count(); ++i) {
        if (names[i] == names[own] && trace_ranks[i] != trace_ranks[own]) others.push_back(medians[i]);
      }
      std::sort(others.begin(), others.end());
      EXPECT_DOUBLE_EQ(of_peers[own], (others[(others.size() - 1) / 2] + others[others.size() / 2]) / 2) << ranks;
    }
  }
}

TEST(KernelPeers, SlowGpuIsFoundAndOnlyThat) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Gpus gpus;
    gpus.factor = [](int rank, int) { return rank == 5 ? 1.04 : 1.0; };
    EXPECT_EQ(slow_ranks(simulate(gpus, seed)), (std::vector<std::int64_t>{5})) << seed;
  }
}

TEST(KernelPeers, AlikeGpusAreNotSlow) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Gpus gpus;
    gpus.noise = 0.05;
    EXPECT_TRUE(slow_ranks(simulate(gpus, seed)).empty()) << seed;
    gpus.ranks = 2;
    EXPECT_TRUE(slow_ranks(simulate(gpus, seed)).empty()) << seed;
    // Healthy GPUs differ a little, all of the time.
    gpus.ranks = 16;
    gpus.factor = [](int rank, int) { return 1.0 + 0.002 * (rank % 5); };
    EXPECT_TRUE(slow_ranks(simulate(gpus, seed)).empty()) << seed;
  }
}

TEST(KernelPeers, OneKernelThatDependsOnTheDataDoesNotMakeAGpuSlow) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    Gpus gpus;
    gpus.factor = [](int rank, int kernel) { return rank == 2 && kernel == 0 ? 1.5 : 1.0; };
    EXPECT_TRUE(slow_ranks(simulate(gpus, seed)).empty()) << seed;
  }
}

TEST(KernelPeers, OfTwoTheSlowerOneIsNamedWhereItIsFarOff) {
  Gpus gpus;
  gpus.ranks = 2;
  gpus.factor = [](int rank, int) { return rank == 1 ? 1.2 : 1.0; };
  EXPECT_EQ(slow_ranks(simulate(gpus, 1)), (std::vector<std::int64_t>{1}));
}

TEST(KernelPeers, OneKernelAloneDoesNotTellSlowFromOther) {
  Gpus gpus;
  gpus.kernels = 1;
  gpus.factor = [](int rank, int) { return rank == 1 ? 1.5 : 1.0; };
  EXPECT_TRUE(slow_ranks(simulate(gpus, 1)).empty());
}

TEST(KernelPeers, SameNameWithAnotherGridIsOtherWork) {
  std::vector<Table> of_ranks;
  for (const std::int32_t grid : {1, 2}) {
    OneRank rank;
    for (int i = 0; i < 5; ++i) rank.kernel("k", i * 10'000, i * 10'000 + grid * 1000).grid_x = grid;
    of_ranks.push_back(table_of(kernel_tables(rank.events()), "kernels_by_launch"));
  }
  EXPECT_EQ(table_of(kernel_peer_tables(join(of_ranks)), "kernel_peers").row_count(), 0);
}

TEST(KernelImbalance, LargestOverMean) {
  std::vector<Table> of_ranks;
  for (const Nanoseconds duration : {100, 200, 600}) {
    OneRank rank;
    rank.kernel("k", 0, duration);
    if (duration == 200) rank.kernel("alone", 1000, 9000);
    of_ranks.push_back(table_of(kernel_tables(rank.events()), "kernels"));
  }
  const Table table = kernel_imbalance_table(join(of_ranks));
  ASSERT_EQ(texts(table, "name"), (testing::Texts{"k"}));
  EXPECT_EQ(integers(table, "largest_trace_rank"), (Integers{2}));
  EXPECT_DOUBLE_EQ(reals(table, "imbalance")[0], 2);  // 600 over 300
}

}  // namespace
}  // namespace nsys_explain::analysis
