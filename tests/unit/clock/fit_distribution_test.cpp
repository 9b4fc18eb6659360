#include "clock/fit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "fit_truth.hpp"
#include "seeds.hpp"
#include "simulated_clocks.hpp"

/// One result for any distribution and order of observations, and what travels for it.
namespace nsys_explain::clock {
namespace {

using testing::Coverage;
using testing::Errors;
using testing::errors_of;
using testing::fit_serially;
using testing::offset_floor_ns;
using testing::SimulatedClocks;

/// Runs one fit as `ranks` tool ranks in lock step, with threads and a barrier for the reductions.
class LockStep {
 public:
  explicit LockStep(int ranks) : parts_(ranks), barrier_(ranks) {}

  Reduction reduction(int rank) {
    return {[this, rank](auto mine) { return combine(rank, mine, false); },
            [this, rank](auto mine) { return combine(rank, mine, true); }};
  }

 private:
  std::vector<std::int64_t> combine(int rank, std::span<const std::int64_t> mine, bool maximum) {
    parts_[rank].assign(mine.begin(), mine.end());
    barrier_.arrive_and_wait();
    std::vector<std::int64_t> result = parts_[0];
    for (std::size_t r = 1; r < parts_.size(); ++r) {
      for (std::size_t i = 0; i < result.size(); ++i) {
        result[i] = maximum ? std::max(result[i], parts_[r][i]) : result[i] + parts_[r][i];
      }
    }
    barrier_.arrive_and_wait();
    return result;
  }

  std::vector<std::vector<std::int64_t>> parts_;
  std::barrier<> barrier_;
};

/// The observations dealt to tool ranks at random, instances and members in random order.
std::vector<Observations> deal(const Observations& all, int ranks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::size_t> order(all.instances.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Observations> parts(ranks);
  for (Observations& part : parts) part.communicators = all.communicators;
  for (const std::size_t i : order) {
    Observations& part = parts[random() % parts.size()];
    ObservedInstance instance = all.instances[i];
    const auto first = all.members.begin() + instance.first_member;
    std::vector<ObservedMember> members(first, first + instance.members);
    std::shuffle(members.begin(), members.end(), random);
    instance.first_member = static_cast<std::int64_t>(part.members.size());
    part.instances.push_back(instance);
    part.members.insert(part.members.end(), members.begin(), members.end());
  }
  return parts;
}

void expect_same(const ClockFit& a, const ClockFit& b) {
  ASSERT_EQ(a.report.sessions.size(), b.report.sessions.size());
  for (std::size_t s = 0; s < a.report.sessions.size(); ++s) {
    const SessionClock &x = a.report.sessions[s], &y = b.report.sessions[s];
    EXPECT_EQ(x.path, y.path);
    EXPECT_EQ(x.method, y.method);
    EXPECT_EQ(x.offset_ns, y.offset_ns);
    EXPECT_EQ(x.drift_ppb, y.drift_ppb);  // bit for bit
    EXPECT_EQ(x.uncertainty_ns, y.uncertainty_ns);
    EXPECT_EQ(x.component, y.component);
    ASSERT_EQ(x.bends.size(), y.bends.size());
    for (std::size_t k = 0; k < x.bends.size(); ++k) EXPECT_EQ(x.bends[k].correction_ns, y.bends[k].correction_ns);
  }
  EXPECT_EQ(a.report.pivot_ns, b.report.pivot_ns);
  EXPECT_EQ(a.report.residual.held_out_p50_ns, b.report.residual.held_out_p50_ns);
  EXPECT_EQ(a.report.residual.held_out_p90_ns, b.report.residual.held_out_p90_ns);
  EXPECT_EQ(a.report.residual.held_out_max_ns, b.report.residual.held_out_max_ns);
  EXPECT_EQ(a.report.residual.samples, b.report.residual.samples);
  EXPECT_EQ(a.warnings, b.warnings);
}

SimulatedClocks varied_job() {
  SimulatedClocks job(23, 9, 10);
  job.sessions[4].host = job.sessions[5].host = "one host";
  job.sessions[4].system_clock_ns = job.sessions[5].system_clock_ns = 10'000'000'000;
  job.clocks[5] = job.clocks[4];
  job.add(Operation::all_reduce, {0, 1, 2, 3}, 60);
  job.add(Operation::all_gather, {0, 1, 2, 3}, 60);
  job.add(Operation::reduce_scatter, {3, 4}, 50);
  job.add(Operation::all_reduce, {5, 6, 6}, 40);
  job.add(Operation::send_recv, {6, 7}, 30);  // 8 is alone
  return job;
}

void expect_same_for_any_ranks(const SimulatedClocks& job, const ClockFit& expected) {
  for (const int ranks : {1, 2, 7}) {
    const std::vector<Observations> parts = deal(job.observations, ranks, 50 + static_cast<std::uint64_t>(ranks));
    LockStep lock_step(ranks);
    std::vector<ClockFit> fits(ranks);
    std::vector<std::thread> threads;
    threads.reserve(ranks);
    for (int r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] { fits[r] = fit_clocks(job.sessions, parts[r], lock_step.reduction(r)); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const ClockFit& fit : fits) {
      expect_same(fit, expected);
      EXPECT_EQ(fit.errors.error_ns, expected.errors.error_ns);
    }
  }
}

TEST(FitDistribution, ToolRanksDoNotChangeABit) {
  const SimulatedClocks job = varied_job();
  const ClockFit expected = fit_serially(job);
  EXPECT_GT(expected.report.residual.samples, 0);
  expect_same_for_any_ranks(job, expected);
}

TEST(FitDistribution, ToolRanksDoNotChangeABitOfBentClocks) {
  // So many samples that a part of them stands for all.
  SimulatedClocks job(29, 16, 610);
  job.disturb(5'000, 2'000);
  job.add(Operation::all_reduce, job.everybody(), 4'000);
  for (int s = 0; s + 1 < 16; ++s) job.add(Operation::all_gather, {s, s + 1}, 100);
  const ClockFit expected = fit_serially(job);
  EXPECT_EQ(expected.report.sessions[1].bends.size(), 11U);
  expect_same_for_any_ranks(job, expected);
}

TEST(FitDistribution, TheOrderOfSessionsDoesNotMatter) {
  SimulatedClocks job = varied_job();
  const ClockFit expected = fit_serially(job);
  std::reverse(job.sessions.begin(), job.sessions.end());
  const auto last = static_cast<std::int32_t>(job.sessions.size()) - 1;
  for (ObservedMember& member : job.observations.members) member.session = last - member.session;
  for (std::vector<std::int32_t>& sessions : job.observations.communicators) {
    for (std::int32_t& session : sessions) session = last - session;
  }
  ClockFit reversed = fit_serially(job);
  std::reverse(reversed.report.sessions.begin(), reversed.report.sessions.end());
  expect_same(reversed, expected);
}

TEST(Fit, AFewInstancesBridgeTwoLargeGroups) {
  // So many samples that the fit begins with a part of the instances, which need not hold any of the bridge.
  constexpr int half = 64, instances = 1'100, bridges = 6;
  SimulatedClocks job(26, 2 * half, 10);
  std::vector<int> left(half), right(half);
  std::iota(left.begin(), left.end(), 0);
  std::iota(right.begin(), right.end(), half);
  job.add(Operation::all_reduce, left, instances);
  job.add(Operation::all_reduce, right, instances);
  for (ObservedMember& member : job.observations.members) {
    if (job.uniform(0, 1) < 0.01) member.exit_ns += static_cast<Nanoseconds>(job.uniform(1e6, 50e6));
  }
  job.add(Operation::all_reduce, {0, half}, bridges);
  const ClockFit fit = fit_serially(job);
  const Errors errors = errors_of(job, fit, job.everybody());
  for (const int first : {0, half}) {
    const auto begin = errors.offset_ns.begin() + first;
    const auto [low, high] = std::minmax_element(begin, begin + half);
    EXPECT_LT(*high - *low, 5 * offset_floor_ns(instances));
  }
  const Errors across = errors_of(job, fit, {0, half});
  EXPECT_LT(across.worst_offset_pair(), 3 * offset_floor_ns(bridges));
  EXPECT_LT(across.worst_offset_pair(), 3 * across.uncertainty_ns[1]);
}

/// Remembers the longest vector that travelled.
struct Recorder {
  std::size_t longest = 0;

  Reduction reduction() {
    const auto same = [this](std::span<const std::int64_t> mine) {
      longest = std::max(longest, mine.size());
      return std::vector<std::int64_t>(mine.begin(), mine.end());
    };
    return {same, same};
  }
};

TEST(FitDistribution, WhatTravelsDoesNotGrowWithObservations) {
  std::vector<std::size_t> longest;
  for (const int instances : {400, 1'600}) {
    SimulatedClocks job(25, 300, 10);
    job.add(Operation::all_reduce, job.everybody(), instances / 10);
    job.add(Operation::reduce_scatter, {0, 1, 2}, instances);
    Recorder recorder;
    fit_clocks(job.sessions, job.observations, recorder.reduction());
    longest.push_back(recorder.longest);
  }
  EXPECT_EQ(longest[0], longest[1]);
}

TEST(FitDistribution, ThousandsOfSessionsAreFitted) {
  // As many as one core fits in seconds; ten times as many, in the tier `thorough`, take it a minute.
  const int nodes = nsys_explain::tiers::is_thorough() ? 10'000 : 1'000;
  constexpr int group = 8, instances = 12;
  SimulatedClocks job(24, nodes, 20);
  job.add(Operation::all_reduce, job.everybody(), instances);
  for (int first = 0; first < nodes; first += group) {
    std::vector<int> members(group);
    std::iota(members.begin(), members.end(), first);
    job.add(Operation::all_gather, members, 2);
  }
  Recorder recorder;
  const ClockFit fit = fit_clocks(job.sessions, job.observations, recorder.reduction());
  // Offset, drift and the biases of two classes, for each of up to 64 random right-hand sides at once.
  EXPECT_LE(recorder.longest, static_cast<std::size_t>(nodes) * 4 * 64);
  const Errors errors = errors_of(job, fit, job.everybody());
  Coverage coverage;
  coverage.add(errors);
  EXPECT_GE(coverage.share(), 0.95);
  EXPECT_LT(coverage.width(), 3);
  EXPECT_LT(errors.worst_offset_pair(), 6 * offset_floor_ns(instances));  // of 5e7 pairs
}

}  // namespace
}  // namespace nsys_explain::clock
