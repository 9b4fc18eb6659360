#include "analysis/replay/replay.hpp"

#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/replay/critical_path.hpp"
#include "analysis/replay/stage_times.hpp"
#include "unit/analysis/rank_fixture.hpp"
#include "work_fixture.hpp"

namespace nsys_explain::analysis {
namespace {

using testing::OneRank;
using testing::RankFixture;

constexpr Nanoseconds us = 1000;

Arrival arrival_at(Nanoseconds enter_ns, Nanoseconds exit_ns, std::int32_t index) {
  Arrival arrival;
  arrival.enter_ns = enter_ns;
  arrival.exit_ns = exit_ns;
  arrival.index = index;
  arrival.stream = 1;
  return arrival;
}

/// A step of one trace rank: a kernel, launched at 10 us, that ends at `work_ns`; an all-reduce that leaves at
/// `exit_ns`; a kernel of 50 us that had waited for it.
struct MadeRank {
  MadeRank(Nanoseconds work_ns, Nanoseconds exit_ns) {
    fixture.kernel("gemm", 10 * us, 20 * us, work_ns);
    fixture.kernel("ncclAllReduce", 12 * us, work_ns, exit_ns);
    fixture.kernel("adam", 14 * us, exit_ns, exit_ns + 50 * us);
    arrivals = {arrival_at(work_ns, exit_ns, 0)};
    pieces = fold_activity(fixture.events(), arrivals);
    ReplayArrival met;
    met.enter_ns = work_ns;
    met.exit_ns = exit_ns;
    met.instance = 0;
    met.place = 1;
    met.step = 0;
    of_replay = {met};
  }
  ReplayRank rank() const { return {pieces, of_replay}; }

  RankFixture fixture;
  std::vector<Arrival> arrivals;
  std::vector<ActivityPiece> pieces;
  std::vector<ReplayArrival> of_replay;
};

TEST(ActivityGraph, SlackIsHowMuchLaterWhatIsWaitedForCouldHaveBeen) {
  const MadeRank rank(520 * us, 600 * us);
  ASSERT_EQ(rank.pieces.size(), 3U);
  const ActivityPiece &gemm = rank.pieces[0], &reduce = rank.pieces[1], &adam = rank.pieces[2];
  EXPECT_EQ(gemm.kind, PieceKind::compute);
  EXPECT_EQ(gemm.after_host_ns, 0U);
  EXPECT_EQ(gemm.gpu_ns, 500U * us);
  EXPECT_EQ(reduce.kind, PieceKind::collective);
  EXPECT_EQ(reduce.waits[0].slack_ns, 0U);
  EXPECT_EQ(reduce.after_host_ns, 520U * us - 12'010U);  // its launch returned at 12.01 us
  EXPECT_EQ(adam.waits[1].piece, 1);
  EXPECT_EQ(adam.waits[1].slack_ns, 0U);
  EXPECT_EQ(adam.waits[0].slack_ns, 80U * us);
  EXPECT_EQ(adam.arrival, 1);  // behind the last
}

TEST(ActivityGraph, AHostThatWaitsForTheGpuGoesOnFromThere) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.call("cudaStreamSynchronize", 30 * us, 310 * us);
  fixture.kernel("gemm", 400 * us, 410 * us, 500 * us);
  const std::vector<ActivityPiece> pieces = fold_activity(fixture.events(), {});
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].kind, PieceKind::host_wait);
  EXPECT_EQ(pieces[1].waits[1].piece, 0);
  EXPECT_EQ(pieces[1].after_host_ns, 270U * us);  // 300 - 30
  EXPECT_EQ(pieces[1].after_ns, 10U * us);
  EXPECT_EQ(pieces[2].host_ns, 90U * us);  // 400 - 310
  EXPECT_EQ(pieces[2].after_host_ns, 0U);
}

TEST(ActivityGraph, AKernelWhoseCallWasLostComesAfterWhatHadStarted) {
  OneRank rank;
  for (const std::uint32_t id : {1U, 2U, 3U}) rank.call("cudaLaunchKernel", (10 + id) * us, (11 + id) * us, id);
  rank.kernel("a", 20 * us, 300 * us, 1);
  rank.kernel("lost", 300 * us, 400 * us);
  rank.kernel("ncclAllReduce", 400 * us, 600 * us, 2);
  rank.kernel("b", 600 * us, 700 * us, 3);
  const std::vector<Arrival> arrivals{arrival_at(400 * us, 600 * us, 0)};
  const std::vector<ActivityPiece> pieces = fold_activity(rank.events(), arrivals);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].gpu_ns, 380U * us);  // with the one that was lost
  EXPECT_EQ(pieces[1].waits[0].slack_ns, 0U);
  EXPECT_EQ(pieces[2].waits[1].piece, 1);
}

TEST(Replay, NothingChangedIsWhatWasMeasured) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const JobGraph graph({fast.rank(), slow.rank()});
  const Replay replay(graph, 1);
  EXPECT_EQ(replay.measured().end_ns, 770 * us);
  EXPECT_EQ(graph.end_ns, 770 * us);
  EXPECT_EQ(replay.measured().step_ends_ns, (std::vector<Nanoseconds>{720 * us}));
  EXPECT_EQ(graph.start_ns, 20 * us);
}

TEST(Replay, MendingTheSlowOneSavesWhatTheOtherWaited) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const JobGraph graph({fast.rank(), slow.rank()});
  const Replay replay(graph, 1);
  EXPECT_EQ(replay.run({{1}}).end_ns, 670 * us);  // 100 us less
  EXPECT_EQ(replay.run({{0}}).end_ns, 770 * us);  // it is as usual
}

TEST(Replay, BehindAThirdOneMendingSavesNoMoreThanToThere) {
  const MadeRank fast(520 * us, 720 * us), middle(580 * us, 720 * us), slow(620 * us, 720 * us);
  const MadeRank other(520 * us, 720 * us), another(520 * us, 720 * us);
  const JobGraph graph({fast.rank(), middle.rank(), slow.rank(), other.rank(), another.rank()});
  const Replay replay(graph, 1);
  EXPECT_EQ(replay.run({{2}}).end_ns, 730 * us);     // the middle one is 40 us earlier
  EXPECT_EQ(replay.run({{1, 2}}).end_ns, 670 * us);  // both: 100 us
}

/// Three rounds of 400 us: a kernel, then an all-reduce that leaves 350 us after the round began, then the next round.
/// The host is far ahead. Of one round the record of the all-reduce may be lost.
struct RankOfRounds {
  static constexpr int rounds = 3, none = -1;

  explicit RankOfRounds(Nanoseconds work_ns, int lost_round = none) {
    for (int round = 0; round < rounds; ++round) {
      const Nanoseconds start_ns = (100 + round * 350) * us, launch_ns = (10 + 3 * round) * us;
      fixture.kernel("gemm", launch_ns, start_ns, start_ns + work_ns);
      if (round == lost_round) continue;
      fixture.kernel("ncclAllReduce", launch_ns + us, start_ns + work_ns, start_ns + 350 * us);
      ReplayArrival met;
      met.enter_ns = start_ns + work_ns;
      met.exit_ns = start_ns + 350 * us;
      met.instance = round;
      met.place = static_cast<std::uint64_t>(round) + 1;
      met.step = round;
      arrivals.push_back(arrival_at(met.enter_ns, met.exit_ns, static_cast<std::int32_t>(arrivals.size())));
      of_replay.push_back(met);
    }
    fixture.kernel("adam", 30 * us, (100 + rounds * 350) * us, (150 + rounds * 350) * us);
    pieces = fold_activity(fixture.events(), arrivals);
  }
  ReplayRank rank() const { return {pieces, of_replay}; }

  RankFixture fixture;
  std::vector<Arrival> arrivals;
  std::vector<ActivityPiece> pieces;
  std::vector<ReplayArrival> of_replay;
};

TEST(LostMembers, WhoseRecordWasLostWaitsAllTheSame) {
  // Without the lost member trace rank 1 would go on as it did after the second round, and hold up the third.
  const RankOfRounds usual(100 * us), lossy(100 * us, 1), slow(300 * us), other(100 * us);
  const JobGraph graph({usual.rank(), lossy.rank(), slow.rank(), other.rank()});
  ASSERT_EQ(graph.lost.size(), 1U);
  EXPECT_EQ(graph.rank_of[graph.lost[0].after], 1U);
  EXPECT_EQ(graph.piece(graph.lost[0].after).start_ns, 800 * us);
  const Replay replay(graph, RankOfRounds::rounds);
  EXPECT_EQ(replay.measured().end_ns, graph.end_ns);
  EXPECT_EQ(replay.run({{2}}).end_ns, graph.end_ns - 3 * 200 * us);
}

TEST(LostMembers, WhoCameLastIsWaitedForThoughItsRecordWasLost) {
  const RankOfRounds usual(100 * us), slow(300 * us, 1), other(100 * us);
  const JobGraph graph({usual.rank(), slow.rank(), other.rank()});
  ASSERT_EQ(graph.lost.size(), 1U);
  const Replay replay(graph, RankOfRounds::rounds);
  EXPECT_EQ(replay.measured().end_ns, graph.end_ns);
  // Its work of 300 us in the second round counts for the third: 600 where 100 are usual. So each of the two rows of
  // kernels is 250 us shorter, and the others, who work 100 us, are the last in every round: 200 us less each.
  EXPECT_EQ(replay.run({{1}}).end_ns, graph.end_ns - 3 * 200 * us);
}

TEST(LostMembers, ThereAreNoneWhereTheGpuWentOnBesideTheCollective) {
  RankOfRounds beside(345 * us, 1);  // it had work nearly until the others left
  const RankOfRounds usual(100 * us), other(100 * us);
  EXPECT_TRUE(JobGraph({usual.rank(), beside.rank(), other.rank()}).lost.empty());
}

TEST(Replay, WithoutLaunchGapsTheGpuGoesOnAtOnce) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.call("cudaStreamSynchronize", 30 * us, 310 * us);
  fixture.kernel("gemm", 400 * us, 410 * us, 500 * us);
  fixture.kernel("adam", 401 * us, 512 * us, 600 * us);  // in one row, 12 us later
  const std::vector<ActivityPiece> pieces = fold_activity(fixture.events(), {});
  const JobGraph graph({{pieces, {}}});
  Scenario scenario;
  scenario.has_launch_gaps = false;
  EXPECT_EQ(Replay(graph, 0).run(scenario).end_ns, 478 * us);  // 20 + 280 + 90 + 88
}

TEST(Replay, HiddenCommunicationEndsWithTheLastEnter) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const JobGraph graph({fast.rank(), slow.rank()});
  Scenario scenario;
  scenario.transfers = TransferTime::none;
  EXPECT_EQ(Replay(graph, 1).run(scenario).end_ns, 670 * us);
}

TEST(Replay, TransfersAsOfTheBestGroup) {
  MadeRank good(520 * us, 620 * us), other(520 * us, 620 * us), bad(520 * us, 820 * us), late(520 * us, 820 * us);
  for (MadeRank* const rank : {&bad, &late}) rank->of_replay[0].instance = std::int64_t{1} << 32;
  for (MadeRank* const rank : {&good, &other, &bad, &late}) rank->of_replay[0].kind = 7;
  const JobGraph graph({good.rank(), other.rank(), bad.rank(), late.rank()});
  const Replay replay(graph, 1);
  EXPECT_TRUE(replay.has_groups_alike());
  Scenario scenario;
  scenario.transfers = TransferTime::best_group;
  EXPECT_EQ(replay.run({}).end_ns, 870 * us);
  EXPECT_EQ(replay.run(scenario).end_ns, 670 * us);
}

TEST(Replay, BalancedStagesComputeAsLong) {
  const MadeRank first(220 * us, 720 * us), last(620 * us, 720 * us);  // 250 and 650 us
  const JobGraph graph({first.rank(), last.rank()});
  const std::vector<std::string> stages{"0", "1"};
  const StageTimes times = measure_stages(graph, stages);
  EXPECT_EQ(times.longest, "1");
  ASSERT_EQ(times.gpu_factors.size(), 2U);
  EXPECT_DOUBLE_EQ(times.gpu_factors[0], 450.0 / 250);
  EXPECT_DOUBLE_EQ(times.gpu_factors[1], 450.0 / 650);
  Scenario scenario;
  scenario.gpu_factors = {1, 0.5};
  EXPECT_EQ(Replay(graph, 1).run(scenario).end_ns, 470 * us);  // 320 of work, 100 of transfer, 50
}

using Segment = std::tuple<std::int32_t, CriticalKind, Nanoseconds, Nanoseconds>;

std::vector<Segment> segments_of(const std::vector<CriticalSegment>& path) {
  std::vector<Segment> segments;
  for (const CriticalSegment& segment : path)
    segments.emplace_back(segment.trace_rank, segment.kind, segment.start_ns, segment.end_ns);
  return segments;
}

TEST(CriticalPath, GoesBackFromACollectiveToItsLastMember) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const JobGraph graph({fast.rank(), slow.rank()});
  EXPECT_EQ(segments_of(find_critical_path(graph)),
            (std::vector<Segment>{{1, CriticalKind::compute, 20 * us, 620 * us},
                                  {0, CriticalKind::transfer, 620 * us, 720 * us},
                                  {0, CriticalKind::compute, 720 * us, 770 * us}}));
}

TEST(CriticalPath, GoesBackThroughTheHostToWhatItWaitedFor) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.call("cudaStreamSynchronize", 30 * us, 310 * us);
  fixture.kernel("gemm", 400 * us, 410 * us, 500 * us);
  const std::vector<ActivityPiece> pieces = fold_activity(fixture.events(), {});
  const JobGraph graph({{pieces, {}}});
  EXPECT_EQ(segments_of(find_critical_path(graph)),
            (std::vector<Segment>{{0, CriticalKind::compute, 20 * us, 300 * us},
                                  {0, CriticalKind::host, 300 * us, 400 * us},
                                  {0, CriticalKind::launch, 400 * us, 410 * us},
                                  {0, CriticalKind::compute, 410 * us, 500 * us}}));
}

TEST(CriticalPath, AKernelBesideAnotherCountsFromTheOthersEnd) {
  RankFixture fixture;
  fixture.kernel("a", 10 * us, 20 * us, 300 * us);
  fixture.call("cudaStreamSynchronize", 15 * us, 16 * us);  // nothing was over: no wait
  fixture.kernel("b", 18 * us, 100 * us, 400 * us);
  fixture.kernel("c", 19 * us, 403 * us, 500 * us);
  const std::vector<ActivityPiece> pieces = fold_activity(fixture.events(), {});
  const JobGraph graph({{pieces, {}}});
  const std::vector<CriticalShare> shares = share_by_step(find_critical_path(graph), {});
  ASSERT_EQ(shares.size(), 1U);
  EXPECT_EQ(shares[0].step, -1);
  EXPECT_EQ(shares[0].of(CriticalKind::compute), 477 * us);
  EXPECT_EQ(shares[0].of(CriticalKind::launch), 3 * us);
}

TEST(CriticalPath, IsCutAtTheEndsOfSteps) {
  const std::vector<CriticalSegment> path{{0, 100, 0, CriticalKind::compute}, {100, 250, 1, CriticalKind::transfer}};
  const std::vector<Nanoseconds> step_ends{60, no_time, 200};
  const std::vector<CriticalShare> shares = share_by_step(path, step_ends);
  ASSERT_EQ(shares.size(), 4U);
  const auto expect = [&](std::size_t i, std::int64_t step, std::int32_t rank, CriticalKind kind, Nanoseconds ns) {
    EXPECT_EQ(shares[i].step, step);
    EXPECT_EQ(shares[i].trace_rank, rank);
    EXPECT_EQ(shares[i].of(kind), ns);
  };
  expect(0, 0, 0, CriticalKind::compute, 60);
  expect(1, 2, 0, CriticalKind::compute, 40);
  expect(2, 2, 1, CriticalKind::transfer, 100);
  expect(3, -1, 1, CriticalKind::transfer, 50);
}

}  // namespace
}  // namespace nsys_explain::analysis
