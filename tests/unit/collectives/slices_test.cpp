#include "collectives/slices.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace nsys_explain::collectives {
namespace {

/// Blocks of members that something holds in step, and what the members of each of `communicators` wait for.
struct Job {
  std::size_t blocks = 2, block_size = 2;
  bool is_one_communicator = false;
  std::size_t operations = 64;
  double in_step_ns = 1'000;  ///< how far members of a block enter apart
  double leave_ns = 500;      ///< how far members of a communicator leave apart
  double clock_ns = 0;        ///< how far clocks of blocks wander
  double lost = 0;            ///< of all records
  double transfer_ns = 0;     ///< how far transfers of one communicator differ
};

/// Member m is the (m % block_size)th of block m / block_size.
MemberOperations run(const Job& job, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::bernoulli_distribution is_lost(job.lost);
  const std::size_t members = job.blocks * job.block_size;
  MemberOperations operations(members);
  double start_ns = 0;
  for (std::size_t o = 0; o < job.operations; ++o) {
    start_ns += 2'000'000;
    std::vector<double> enters, clocks;
    for (std::size_t b = 0; b < job.blocks; ++b) {
      const double of_block = start_ns + 30'000 * normal(random);
      clocks.push_back(job.clock_ns * std::sin(static_cast<double>(o) / 9 + static_cast<double>(b)));
      for (std::size_t m = 0; m < job.block_size; ++m) enters.push_back(of_block + job.in_step_ns * normal(random));
    }
    std::vector<double> transfers;
    for (std::size_t slice = 0; slice < job.block_size; ++slice)
      transfers.push_back(100'000 + (job.transfer_ns > 0 ? job.transfer_ns * normal(random) : 0));
    for (std::size_t m = 0; m < members; ++m) {
      double last = enters[m];
      for (std::size_t other = 0; other < members; ++other) {
        if (job.is_one_communicator || other % job.block_size == m % job.block_size)
          last = std::max(last, enters[other]);
      }
      const double transfer = transfers[job.is_one_communicator ? 0 : m % job.block_size];
      const double exit = last + transfer + job.leave_ns * std::abs(normal(random));
      const double clock = clocks[m / job.block_size];
      if (!is_lost(random)) operations[m].push_back({std::llround(enters[m] + clock), std::llround(exit + clock)});
    }
  }
  return operations;
}

std::vector<Members> blocks_of(const Job& job) {
  std::vector<Members> blocks(job.blocks);
  for (std::size_t m = 0; m < job.blocks * job.block_size; ++m) blocks[m / job.block_size].push_back(m);
  return blocks;
}

std::vector<Members> slices_of(const Job& job) {
  std::vector<Members> slices(job.block_size);
  for (std::size_t m = 0; m < job.blocks * job.block_size; ++m) slices[m % job.block_size].push_back(m);
  return slices;
}

PartingResult part(const Job& job, unsigned seed) {
  return part_slices({{run(job, seed)}}, blocks_of(job));
}

constexpr unsigned seeds = 40;

TEST(Slices, CommunicatorsThatAreHeldInStepAreFoundByWhomTheyWaitFor) {
  const Job jobs[] = {{}, {.blocks = 4}, {.block_size = 4}, {.blocks = 8, .operations = 128, .lost = 0.01}};
  for (const Job& job : jobs) {
    for (unsigned seed = 0; seed < seeds; ++seed) {
      const PartingResult result = part(job, seed);
      EXPECT_EQ(result.parting, Parting::slices) << seed;
      EXPECT_EQ(result.slices, slices_of(job)) << seed;
    }
  }
}

TEST(Slices, OneCommunicatorStaysOne) {
  const Job jobs[] = {{.is_one_communicator = true},
                      {.blocks = 4, .is_one_communicator = true},
                      {.block_size = 4, .is_one_communicator = true},
                      {.blocks = 8, .is_one_communicator = true, .operations = 128, .lost = 0.01}};
  for (const Job& job : jobs) {
    for (unsigned seed = 0; seed < seeds; ++seed) EXPECT_EQ(part(job, seed).parting, Parting::one) << seed;
  }
}

TEST(Slices, WhatTheDataDoNotTellIsUnknownRatherThanWrong) {
  // Enters differ by far less than exits do, or operations are few.
  int unknown = 0;
  for (const bool is_one : {false, true}) {
    const Job jobs[] = {{.is_one_communicator = is_one, .operations = 24, .in_step_ns = 200, .leave_ns = 1'500},
                        {.is_one_communicator = is_one, .operations = 6, .leave_ns = 1'500}};
    for (const Job& job : jobs) {
      for (unsigned seed = 0; seed < seeds; ++seed) {
        const Parting parting = part(job, seed).parting;
        EXPECT_NE(parting, is_one ? Parting::slices : Parting::one) << seed;
        unknown += parting == Parting::unknown ? 1 : 0;
      }
    }
  }
  EXPECT_GT(unknown, 80);  // of 160
}

TEST(Slices, ClocksOfBlocksMayBeOff) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const Job job{.blocks = 4, .operations = 128, .clock_ns = 5'000};
    EXPECT_EQ(part(job, seed).slices, slices_of(job)) << seed;
    EXPECT_EQ(part({.blocks = 4, .is_one_communicator = true, .operations = 128, .clock_ns = 5'000}, seed).parting,
              Parting::one)
        << seed;
  }
}

TEST(Slices, WithoutAnythingThatHoldsInStepThereIsOne) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const Job job{.in_step_ns = 20'000, .leave_ns = 300};
    EXPECT_EQ(part_slices({{run(job, seed)}}, {}).parting, Parting::one);
    EXPECT_EQ(part({.is_one_communicator = true, .in_step_ns = 20'000, .leave_ns = 300}, seed).parting, Parting::one);
  }
  EXPECT_EQ(part_slices({}, {}).parting, Parting::one);
  EXPECT_EQ(part_slices({{MemberOperations(4)}}, blocks_of({})).parting, Parting::one);
}

TEST(Slices, BlocksThatAreNotWholeCannotBeCutAcross) {
  for (unsigned seed = 0; seed < seeds; ++seed) {
    const Job job{.blocks = 2, .block_size = 3, .operations = 64, .in_step_ns = 200, .leave_ns = 1'000};
    MemberOperations operations = run(job, seed);
    operations.erase(operations.begin() + 1);  // a member that is not known to be of the set
    const std::vector<Members> blocks{{0, 1}, {2, 3, 4}};
    EXPECT_EQ(part_slices({{operations}}, blocks).parting, Parting::unknown) << seed;
  }
}

TEST(Slices, GroupsInStepWhoseTransfersVaryDoNotWaitForEachOther) {
  // Some transfers end together by chance, as many as would show groups that seldom wait for each other.
  const Job two{.blocks = 4, .operations = 96, .in_step_ns = 30'000, .transfer_ns = 25'000};
  Job one = two;
  one.is_one_communicator = true;
  const std::vector<Members> slices = slices_of(two);
  for (unsigned seed = 0; seed < seeds; ++seed) {
    EXPECT_FALSE(wait_for_each_other(run(two, seed), slices[0], slices[1])) << seed;
    EXPECT_TRUE(wait_for_each_other(run(one, seed), slices[0], slices[1])) << seed;
  }
}

}  // namespace
}  // namespace nsys_explain::collectives
