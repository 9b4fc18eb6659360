#include "analysis/replay/sampled_steps.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "analysis/replay/replay.hpp"
#include "analysis/replay/saving.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds us = 1000;

std::vector<std::int32_t> numbers_of(const std::vector<bool>& steps) {
  std::vector<std::int32_t> numbers;
  for (std::size_t step = 0; step < steps.size(); ++step)
    if (steps[step]) numbers.push_back(static_cast<std::int32_t>(step));
  return numbers;
}

TEST(SampledSteps, AreAllOfAJobThatIsSmallEnough) {
  EXPECT_EQ(numbers_of(sampled_steps(std::vector<std::int64_t>{4, 4, 4}, 12)), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(SampledSteps, AreRunsSpreadEvenly) {
  const auto chosen = numbers_of(sampled_steps(std::vector<std::int64_t>(1000, 100'000), 2'000'000));
  EXPECT_EQ(chosen, (std::vector<std::int32_t>{151, 152, 153, 154, 155, 307, 308, 309, 310, 311,
                                               709, 710, 711, 712, 713, 865, 866, 867, 868, 869}));
  // Of eleven steps in two runs six would predict the next: one run.
  const auto one = numbers_of(sampled_steps(std::vector<std::int64_t>(99, 10), 115));
  EXPECT_EQ(one, (std::vector<std::int32_t>{54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64}));
}

TEST(SampledSteps, AreNotAlwaysAtTheSamePlaceOfWhatRecurs) {
  // 30 runs of five, 100 steps apart on average: at equal distances all of them would hold every tenth step, or none.
  const auto chosen = numbers_of(sampled_steps(std::vector<std::int64_t>(3000, 10), 1500));
  ASSERT_EQ(chosen.size(), 150U);
  for (std::int32_t place = 0; place < 10; ++place) {
    const auto held =
        std::count_if(chosen.begin(), chosen.end(), [&](std::int32_t step) { return step % 10 == place; });
    EXPECT_NEAR(static_cast<double>(held), 15, 5) << place;
  }
}

TEST(SampledSteps, HoldNoMoreThanIsReplayed) {
  std::vector<std::int64_t> arrivals(100, 10);
  std::fill(arrivals.begin() + 40, arrivals.begin() + 60, 100);  // 2,800 in all
  const std::vector<bool> steps = sampled_steps(arrivals, 1500);
  std::int64_t held = 0;
  for (const std::int32_t step : numbers_of(steps)) held += arrivals[static_cast<std::size_t>(step)];
  EXPECT_LE(held, 1500);
  EXPECT_GE(numbers_of(steps).size(), 11U);
}

TEST(SampledSteps, AreNoneWhereTooFewFit) {
  EXPECT_TRUE(numbers_of(sampled_steps(std::vector<std::int64_t>(100, 10), 109)).empty());
  EXPECT_EQ(numbers_of(sampled_steps(std::vector<std::int64_t>(100, 10), 110)).size(), 11U);
  EXPECT_TRUE(numbers_of(sampled_steps({}, 0)).empty());
}

/// Compute, then an all-reduce in which all wait for the last one, in each step; the host is far ahead.
struct MadeJob {
  /// `work_ns` of each rank; in each step all but the first take 1% more in turn.
  explicit MadeJob(std::vector<Nanoseconds> work_ns, std::size_t steps)
      : arrivals(work_ns.size()), pieces(work_ns.size()) {
    Nanoseconds start_ns = 0;
    for (std::size_t step = 0; step < steps; ++step) {
      std::vector<Nanoseconds> enter_ns;
      for (std::size_t r = 0; r < work_ns.size(); ++r)
        enter_ns.push_back(start_ns + work_ns[r] + (r > 0 && step % (work_ns.size() - 1) == r - 1 ? us : 0));
      const Nanoseconds exit_ns = *std::max_element(enter_ns.begin(), enter_ns.end()) + 20 * us;
      for (std::size_t r = 0; r < work_ns.size(); ++r) add_step(r, step, start_ns, enter_ns[r], exit_ns);
      start_ns = exit_ns;
    }
  }

  void add_step(std::size_t r, std::size_t step, Nanoseconds start_ns, Nanoseconds enter_ns, Nanoseconds exit_ns) {
    const auto number = static_cast<std::int32_t>(step), first_piece = 2 * number;
    JobPiece work, reduce;
    work.start = JobTime(start_ns);
    work.end = reduce.start = JobTime(enter_ns);
    reduce.end = JobTime(exit_ns);
    work.gpu_ns = static_cast<std::uint32_t>(enter_ns - start_ns);
    work.arrival = reduce.arrival = number;
    if (step > 0) work.waits[1] = {first_piece - 1, 0};
    reduce.kind = PieceKind::collective;
    reduce.waits[0] = {first_piece, 0};
    pieces[r].insert(pieces[r].end(), {work, reduce});
    ReplayArrival arrival;
    arrival.enter = JobTime(enter_ns);
    arrival.exit = JobTime(exit_ns);
    arrival.instance = number;
    arrival.position = step + 1;
    arrival.own_position = 1;
    arrival.step = number;
    arrivals[r].push_back(arrival);
  }

  /// Of what the work of rank 0 takes longer than that of its peers.
  Saving saving(const std::vector<std::int32_t>& steps_apart) const {
    std::vector<ReplayRank> ranks;
    for (std::size_t r = 0; r < pieces.size(); ++r) ranks.push_back({pieces[r], arrivals[r]});
    const JobGraph graph(ranks);
    const Replay replay(graph, 60);
    const auto measured = replay.measured(), mended = replay.run({.ranks = {0}});
    const StepLengths before = step_lengths(measured, graph.start_ns, steps_apart);
    const StepLengths after = step_lengths(mended, graph.start_ns, steps_apart);
    const Nanoseconds before_ns = measured.end_ns - graph.start_ns - before.apart_ns;
    const Nanoseconds after_ns = mended.end_ns - graph.start_ns - after.apart_ns;
    return measure_saving(before.lengths_ns, after.lengths_ns, before_ns - after_ns, before_ns, 0, 0);
  }

  std::vector<std::vector<ReplayArrival>> arrivals;
  std::vector<std::vector<JobPiece>> pieces;
};

TEST(SampledSteps, SaveAsMuchAsTheWholeJob) {
  // 130 us of work and 20 of transfer; mended it works 100 as they do, and the slowest of the others takes 101.
  MadeJob job({130 * us, 100 * us, 100 * us, 100 * us}, 60);
  EXPECT_NEAR(job.saving({}).share, 29.0 / 150, 1e-3);
  const std::vector<bool> steps = sampled_steps(std::vector<std::int64_t>(60, 4), 80);
  std::vector<std::int32_t> apart;
  for (std::int32_t step = 0; step < 60; ++step)
    if (!steps[static_cast<std::size_t>(step)]) apart.push_back(step);
  for (std::size_t r = 0; r < 4; ++r) keep_steps(steps, job.arrivals[r], job.pieces[r]);
  EXPECT_EQ(job.arrivals[0].size(), 20U);
  EXPECT_EQ(job.pieces[0].size(), 40U);
  EXPECT_EQ(job.pieces[0][20].waits[1].piece, -1) << "what it waited for is left out";
  EXPECT_EQ(job.pieces[0][21].waits[0].piece, 20);
  EXPECT_EQ(job.pieces[0][22].waits[1].piece, 21);
  EXPECT_EQ(job.pieces[0][39].arrival, 19);
  EXPECT_NEAR(job.saving(apart).share, 29.0 / 150, 1e-3);
}

TEST(SampledSteps, LeaveOutWhatLiesBehindTheLastOfThem) {
  MadeJob job({100 * us, 100 * us}, 12);
  JobPiece behind;
  behind.arrival = 12;  // of none
  behind.waits[1] = {23, 0};
  job.pieces[0].push_back(behind);
  keep_steps(std::vector<bool>(12, true), job.arrivals[0], job.pieces[0]);
  EXPECT_EQ(job.pieces[0].size(), 24U);
  keep_steps(std::vector<bool>(12, false), job.arrivals[0], job.pieces[0]);
  EXPECT_TRUE(job.arrivals[0].empty());
  EXPECT_TRUE(job.pieces[0].empty());
}

}  // namespace
}  // namespace nsys_explain::analysis
