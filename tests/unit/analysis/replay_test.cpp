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

/// By a clock that needs no correction.
std::vector<JobPiece> folded(const RankEvents& events, std::span<const TraceArrival> arrivals) {
  std::vector<JobPiece> pieces;
  for (const TracePiece& piece : fold_activity(events, arrivals))
    pieces.push_back({piece, JobTime(piece.start.ns), JobTime(piece.end.ns)});
  return pieces;
}

TraceArrival arrival_at(Nanoseconds enter_ns, Nanoseconds exit_ns, std::int32_t index) {
  TraceArrival arrival;
  arrival.enter = TraceTime(enter_ns);
  arrival.exit = TraceTime(exit_ns);
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
    pieces = folded(fixture.events(), arrivals);
    ReplayArrival met;
    met.enter = JobTime(work_ns);
    met.exit = JobTime(exit_ns);
    met.instance = 0;
    met.position = 1;
    met.step = 0;
    of_replay = {met};
  }
  ReplayRank rank() const { return {pieces, of_replay}; }

  RankFixture fixture;
  std::vector<TraceArrival> arrivals;
  std::vector<JobPiece> pieces;
  std::vector<ReplayArrival> of_replay;
};

TEST(ActivityGraph, SlackIsHowMuchLaterWhatIsWaitedForCouldHaveBeen) {
  const MadeRank rank(520 * us, 600 * us);
  ASSERT_EQ(rank.pieces.size(), 3U);
  const JobPiece &gemm = rank.pieces[0], &reduce = rank.pieces[1], &adam = rank.pieces[2];
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

/// A rank whose gradients are reduced beside its backward pass, and which waits for others: gemm 1, reduce 2 from 100
/// us on, gemm 3, reduce 4, which is ready at 200 us and enters at 500, when reduce 2 leaves; gemm 5.
struct WaitingRank {
  explicit WaitingRank(bool in_graph) {
    const auto kernel = [&](const char* name, std::uint32_t id, Nanoseconds start_ns, Nanoseconds end_ns,
                            std::uint32_t stream) {
      KernelKind& kind = rank.kernel(name, start_ns, end_ns, in_graph ? 9 : id, stream);
      if (in_graph) kind.graph_node_id = (std::uint64_t{2} << 32U) + id;
    };
    if (in_graph) rank.call("cudaGraphLaunch", 0, 5 * us, 9);
    kernel("gemm", 1, 10 * us, 100 * us, 7);
    kernel("ncclAllReduce", 2, 100 * us, 500 * us, 20);
    kernel("gemm", 3, 102 * us, 200 * us, 7);
    kernel("gemm", 5, 202 * us, 300 * us, 7);
    kernel("ncclAllReduce", 4, 500 * us, 600 * us, 20);
    pieces = folded(rank.events(), std::vector{arrival_at(100 * us, 500 * us, 0), arrival_at(500 * us, 600 * us, 1)});
  }
  OneRank rank;
  std::vector<JobPiece> pieces;
};

TEST(JobGraph, WhatStartedDuringAWaitDidNotWaitForIt) {
  const auto piece = [](PieceKind kind, Nanoseconds start_ns) {
    JobPiece made;
    made.kind = kind;
    made.start = made.end = JobTime(start_ns);
    return made;
  };
  // In the order of launches; a wait has the time at which it returned.
  const std::vector<JobPiece> pieces = {piece(PieceKind::host_wait, 40), piece(PieceKind::host_wait, 100),
                                        piece(PieceKind::compute, 50), piece(PieceKind::compute, 150)};
  const JobGraph graph({ReplayRank{pieces, {}}});
  EXPECT_EQ(graph.host_wait_before, (std::vector<std::int32_t>{-1, 0, 0, 1}));
}

TEST(ActivityGraph, IdsTellWhatWasLaunchedBeforeWhatRanLater) {
  for (const bool in_graph : {true, false}) {  // by node, and without any call
    const WaitingRank waiting(in_graph);
    ASSERT_EQ(waiting.pieces.size(), 5U);
    const JobPiece& reduce = waiting.pieces[3];
    EXPECT_EQ(reduce.start.ns, 500 * us);
    EXPECT_EQ(reduce.waits[0].piece, 2);
    EXPECT_EQ(waiting.pieces[2].end.ns, 200 * us) << "gemm 3, and not gemm 5";
    EXPECT_EQ(reduce.waits[0].slack_ns, 300U * us);
    EXPECT_EQ(waiting.pieces[4].arrival, 2) << "gemm 5 comes after both";
  }
}

TEST(ActivityGraph, NodesThatRanInAnotherOrderOnOneStreamTellNothing) {
  OneRank rank;
  rank.call("cudaGraphLaunch", 0, 5 * us, 9);
  for (const std::uint32_t node : {3U, 1U})
    rank.kernel("gemm", (10 + 50 * (3 - node)) * us, (50 + 50 * (3 - node)) * us, 9).graph_node_id = node;
  const std::vector<JobPiece> pieces = folded(rank.events(), {});
  ASSERT_EQ(pieces.size(), 2U);
  EXPECT_EQ(pieces[0].start.ns, 10 * us);
  EXPECT_EQ(pieces[1].waits[0].piece, 0);
}

TEST(ActivityGraph, AHostThatWaitsForTheGpuGoesOnFromThere) {
  RankFixture fixture;
  fixture.kernel("gemm", 10 * us, 20 * us, 300 * us);
  fixture.call("cudaStreamSynchronize", 30 * us, 310 * us);
  fixture.kernel("gemm", 400 * us, 410 * us, 500 * us);
  const std::vector<JobPiece> pieces = folded(fixture.events(), {});
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[1].kind, PieceKind::host_wait);
  EXPECT_EQ(pieces[1].waits[1].piece, 0);
  EXPECT_EQ(pieces[1].after_host_ns, 270U * us);  // 300 - 30
  EXPECT_EQ(pieces[1].after_ns, 10U * us);
  EXPECT_EQ(pieces[2].host_ns, 90U * us);  // 400 - 310
  EXPECT_EQ(pieces[2].after_host_ns, 0U);
}

TEST(ActivityGraph, AThreadCannotLaunchWhileItWaits) {
  const auto is_contradicted = [](std::uint32_t thread, Nanoseconds second_launch_ns) {
    OneRank rank;
    rank.call("cudaLaunchKernel", 10 * us, 12 * us, 1);
    rank.kernel("gemm", 20 * us, 300 * us, 1);
    rank.call("cudaStreamSynchronize", 30 * us, 310 * us, 2);
    rank.call("cudaLaunchKernel", second_launch_ns, second_launch_ns + 2 * us, 3, thread);
    rank.kernel("gemm", 400 * us, 500 * us, 3);
    const std::vector<JobPiece> pieces = folded(rank.events(), {});
    return std::any_of(pieces.begin(), pieces.end(), [](const JobPiece& piece) { return piece.contradicted; });
  };
  EXPECT_TRUE(is_contradicted(1, 290 * us));
  EXPECT_FALSE(is_contradicted(1, 310 * us)) << "once it has returned";
  EXPECT_FALSE(is_contradicted(5, 290 * us)) << "another thread can";
}

TEST(ActivityGraph, AKernelWhoseCallWasLostComesAfterWhatHadStarted) {
  OneRank rank;
  for (const std::uint32_t id : {1U, 2U, 3U}) rank.call("cudaLaunchKernel", (10 + id) * us, (11 + id) * us, id);
  rank.kernel("a", 20 * us, 300 * us, 1);
  rank.kernel("lost", 300 * us, 400 * us);
  rank.kernel("ncclAllReduce", 400 * us, 600 * us, 2);
  rank.kernel("b", 600 * us, 700 * us, 3);
  const std::vector<TraceArrival> arrivals{arrival_at(400 * us, 600 * us, 0)};
  const std::vector<JobPiece> pieces = folded(rank.events(), arrivals);
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0].gpu_ns, 380U * us);  // with the one that was lost
  EXPECT_EQ(pieces[1].waits[0].slack_ns, 0U);
  EXPECT_EQ(pieces[2].waits[1].piece, 1);
}

/// Compute on stream 7, collectives on stream 16, which waits for an event after the first kernel. The second goes on
/// beside the collective; the third waits for an event behind it.
///
///     stream 7    [first.][second.......]      [third.]
///     stream 16           [all-reduce.........]
struct RecordedRank {
  RecordedRank() {
    rank.call("cudaLaunchKernel", 10 * us, 11 * us, 1);
    record(12, 1, 7);
    rank.call("cudaLaunchKernel", 14 * us, 15 * us, 2);
    wait(16, 1, 16);
    rank.call("cudaLaunchKernel", 18 * us, 19 * us, 3);
    record(20, 2, 16);
    wait(22, 2, 7);
    rank.call("cudaLaunchKernel", 24 * us, 25 * us, 4);
    rank.kernel("first", 100 * us, 200 * us, 1);
    rank.kernel("second", 201 * us, 400 * us, 2);
    rank.kernel("ncclAllReduce", 203 * us, 600 * us, 3, 16);
    rank.kernel("third", 604 * us, 700 * us, 4);
    arrivals = {arrival_at(203 * us, 600 * us, 0)};
  }
  void record(Nanoseconds at_us, std::uint32_t sync_id, std::uint32_t stream) {
    rank.call("cudaEventRecord", at_us * us, (at_us + 1) * us, ++next);
    rank.process().event_records.push_back({next, 0, stream, 5, sync_id});
  }
  void wait(Nanoseconds at_us, std::uint32_t sync_id, std::uint32_t stream) {
    rank.call("cudaStreamWaitEvent", at_us * us, (at_us + 1) * us, ++next);
    rank.process().synchronizations.push_back(
        {at_us * us, (at_us + 1) * us, next, 0, stream, 5, sync_id, SyncKind::stream_wait_event});
  }

  OneRank rank;
  std::vector<TraceArrival> arrivals;
  std::uint32_t next = 100;
};

TEST(ActivityGraph, StreamsWaitForWhatTheirEventsRecord) {
  RecordedRank made;
  const std::vector<JobPiece> pieces = folded(made.rank.events(), made.arrivals);
  ASSERT_EQ(pieces.size(), 4U);
  const JobPiece &first = pieces[0], &second = pieces[1], &reduce = pieces[2], &third = pieces[3];
  EXPECT_EQ(first.end.ns, 200 * us);
  EXPECT_EQ(second.waits[0].piece, 0);
  EXPECT_EQ(second.waits[0].slack_ns, 0U);
  EXPECT_EQ(reduce.kind, PieceKind::collective);
  EXPECT_EQ(reduce.waits[0].piece, -1);  // nothing before it on its stream
  EXPECT_EQ(reduce.waits[1].piece, 0);   // not for the second kernel, which was launched before it, too
  EXPECT_EQ(reduce.waits[1].slack_ns, 0U);
  EXPECT_EQ(third.waits[0].piece, 1);
  EXPECT_EQ(third.waits[0].slack_ns, 200U * us);
  EXPECT_EQ(third.waits[1].piece, 2);
  EXPECT_EQ(third.waits[1].slack_ns, 0U);
  for (const JobPiece& piece : pieces) EXPECT_FALSE(piece.inferred);
  const std::vector<ReplayArrival> arrivals(1);
  EXPECT_EQ(JobGraph({{pieces, arrivals}}).inferred_share(), 0);
}

TEST(ActivityGraph, WithoutIdsOfRecordsTheLatestOfTheEventCounts) {
  RecordedRank made;
  for (EventRecord& record : made.rank.process().event_records) record.event_sync_id = 0;
  for (Synchronization& wait : made.rank.process().synchronizations) wait.event_sync_id = 0;
  const std::vector<JobPiece> pieces = folded(made.rank.events(), made.arrivals);
  ASSERT_EQ(pieces.size(), 4U);
  EXPECT_EQ(pieces[2].waits[1].piece, 0);
  EXPECT_EQ(pieces[3].waits[1].piece, 2);
}

TEST(ActivityGraph, AHostWaitsForWhatItsCallNames) {
  RecordedRank made;
  made.rank.call("cudaStreamSynchronize", 30 * us, 705 * us, 200);  // of stream 7
  made.rank.process().synchronizations.insert(
      made.rank.process().synchronizations.begin(),
      Synchronization{30 * us, 705 * us, 200, 0, 7, 0, 0, SyncKind::stream_wait_event});  // as nsys 2025.3 has it
  made.rank.process().api_calls.sort([](const ApiCall& a, const ApiCall& b) { return a.start_ns < b.start_ns; });
  const std::vector<JobPiece> pieces = folded(made.rank.events(), made.arrivals);
  ASSERT_EQ(pieces.size(), 5U);
  const JobPiece& wait = pieces[4];
  EXPECT_EQ(wait.kind, PieceKind::host_wait);
  EXPECT_FALSE(wait.inferred);
  EXPECT_EQ(wait.waits[1].piece, 3);
  EXPECT_EQ(wait.after_host_ns, 670U * us);
  EXPECT_EQ(wait.after_ns, 5U * us);
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

TEST(Replay, ScenariosReplayedTogetherAreAsByThemselves) {
  const MadeRank fast(520 * us, 720 * us), middle(580 * us, 720 * us), slow(620 * us, 720 * us);
  const MadeRank other(520 * us, 720 * us), another(520 * us, 720 * us);
  const JobGraph graph({fast.rank(), middle.rank(), slow.rank(), other.rank(), another.rank()});
  const Replay replay(graph, 1);
  const std::vector<Scenario> scenarios = {{},
                                           {{2}},
                                           {.transfers = TransferTime::none},
                                           {{1, 2}},
                                           {.usual = Usual::mean},
                                           {.gpu_factors = {1, 1, 0.5, 1, 1}},
                                           {.has_launch_gaps = false}};
  // Measured; without 40 us to the middle one; without the transfer of 100 us; without 100 us of both; with a mean of
  // 532 us; with half of 600 us, so the middle one is last; none of its launches held up the last one.
  const std::vector<Nanoseconds> ends_ns = {
      770 * us, 730 * us, 670 * us, 670 * us, 702 * us, 730 * us, replay.run(scenarios.back()).end_ns};
  for (const std::size_t together : {1U, 2U, 3U, 7U, 100U}) {
    const std::vector<ReplayedTime> replayed = replay.run(scenarios, together, one_after_another);
    for (std::size_t k = 0; k < scenarios.size(); ++k)
      EXPECT_EQ(replayed[k].end_ns, ends_ns[k]) << k << ' ' << together;
  }
}

TEST(Replay, ComputeBesideACollectiveIsOverEarlierWhereThatIs) {
  // Rank 0 enters at 100 us, computes 500 us beside the collective, of which a fifth is lost, and then waits for it;
  // rank 1 enters 400 us late.
  const auto made = [](Nanoseconds enter_ns, std::vector<JobPiece>& pieces, std::vector<ReplayArrival>& arrivals) {
    JobPiece work{{}, JobTime(0), JobTime(enter_ns)};
    work.gpu_ns = static_cast<std::uint32_t>(enter_ns);
    work.after_host_ns = 0;
    work.arrival = 0;
    JobPiece reduce{{}, JobTime(enter_ns), JobTime(610 * us)};
    reduce.kind = PieceKind::collective;
    reduce.waits[0] = {0, 0};
    reduce.arrival = 0;
    pieces = {work, reduce};
    ReplayArrival met;
    met.enter = JobTime(enter_ns);
    met.exit = JobTime(610 * us);
    met.instance = 0;
    met.position = 1;
    arrivals = {met};
  };
  std::vector<JobPiece> fast, slow;
  std::vector<ReplayArrival> fast_arrivals, slow_arrivals;
  made(100 * us, fast, fast_arrivals);
  made(500 * us, slow, slow_arrivals);
  JobPiece beside{{}, JobTime(110 * us), JobTime(710 * us)};
  beside.waits[0] = {0, 0};
  beside.gpu_ns = 600 * us;
  beside.contention_ns = 100 * us;  // a fifth of the 500 us beside the collective
  beside.arrival = 1;
  fast.push_back(beside);
  const JobGraph graph({{fast, fast_arrivals}, {slow, slow_arrivals}});
  const Replay replay(graph, 0);
  EXPECT_EQ(replay.measured().end_ns, 710 * us);
  // All leave at 210 us instead of 610: 100 us beside instead of 500, so 20 are lost instead of 100.
  EXPECT_EQ(replay.run({{1}}).end_ns, 630 * us);
}

TEST(Replay, AStepIsPredictedFromTheOneBefore) {
  // Rounds of 350 us, in the second of which rank 0 works 50 us longer: its all-reduce leaves 50 us later.
  const auto made = [](Nanoseconds of_second_ns, std::vector<JobPiece>& pieces, std::vector<ReplayArrival>& arrivals) {
    Nanoseconds start_ns = 0, end_ns = 0;
    for (int step = 0; step < 3; ++step) {
      const Nanoseconds work_ns = step == 1 ? of_second_ns : 200 * us;
      end_ns = start_ns + (step == 1 ? 400 : 350) * us;
      JobPiece work{{}, JobTime(start_ns), JobTime(start_ns + work_ns)};
      work.gpu_ns = static_cast<std::uint32_t>(work_ns);
      if (step > 0) work.waits[1] = {static_cast<std::int32_t>(pieces.size()) - 1, 0};
      if (step == 0) work.after_host_ns = 0;
      work.arrival = step;
      JobPiece reduce{{}, JobTime(start_ns + work_ns), JobTime(end_ns)};
      reduce.kind = PieceKind::collective;
      reduce.waits[0] = {static_cast<std::int32_t>(pieces.size()), 0};
      reduce.arrival = step;
      pieces.push_back(work);
      pieces.push_back(reduce);
      ReplayArrival met;
      met.enter = JobTime(start_ns + work_ns);
      met.exit = JobTime(end_ns);
      met.instance = step;
      met.own_position = 1;
      met.step = step;
      arrivals.push_back(met);
      start_ns = end_ns;
    }
  };
  std::vector<JobPiece> first, second;
  std::vector<ReplayArrival> first_arrivals, second_arrivals;
  made(250 * us, first, first_arrivals);
  made(200 * us, second, second_arrivals);
  for (ReplayArrival& arrival : second_arrivals) arrival.own_position = 2;
  const JobGraph graph({{first, first_arrivals}, {second, second_arrivals}});
  const Replay replay(graph, 3);
  EXPECT_EQ(replay.measured().step_ends_ns, (std::vector<Nanoseconds>{350 * us, 750 * us, 1100 * us}));
  // The first as the second took, the second as the third; the third has none after it.
  EXPECT_EQ(replay.run({.usual = Usual::next_step}).step_ends_ns,
            (std::vector<Nanoseconds>{400 * us, 750 * us, 1100 * us}));
}

TEST(Replay, SharedOutEvenlyKernelsOfPeersTakeTheirMean) {
  // Rank 0 computes 500 us and rank 1 600 us; both leave at 720 us, 100 us after the last enter.
  const MadeRank early(520 * us, 720 * us), late(620 * us, 720 * us);
  const JobGraph graph({early.rank(), late.rank()});
  const Replay replay(graph, 1);
  EXPECT_EQ(replay.measured().end_ns, 770 * us);
  EXPECT_EQ(replay.run({.usual = Usual::mean}).end_ns, 720 * us);  // both compute 550 us
  EXPECT_EQ(replay.run({{1}}).end_ns, 670 * us);                   // both 500
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
      met.enter = JobTime(start_ns + work_ns);
      met.exit = JobTime(start_ns + 350 * us);
      met.instance = round;
      met.position = static_cast<std::uint64_t>(round) + 1;
      met.step = round;
      arrivals.push_back(arrival_at(met.enter.ns, met.exit.ns, static_cast<std::int32_t>(arrivals.size())));
      of_replay.push_back(met);
    }
    fixture.kernel("adam", 30 * us, (100 + rounds * 350) * us, (150 + rounds * 350) * us);
    pieces = folded(fixture.events(), arrivals);
  }
  ReplayRank rank() const { return {pieces, of_replay}; }

  RankFixture fixture;
  std::vector<TraceArrival> arrivals;
  std::vector<JobPiece> pieces;
  std::vector<ReplayArrival> of_replay;
};

TEST(LostMembers, WhoseRecordWasLostWaitsAllTheSame) {
  // Without the lost member trace rank 1 would go on as it did after the second round, and hold up the third.
  const RankOfRounds usual(100 * us), lossy(100 * us, 1), slow(300 * us), other(100 * us);
  const JobGraph graph({usual.rank(), lossy.rank(), slow.rank(), other.rank()});
  ASSERT_EQ(graph.lost.size(), 1U);
  EXPECT_EQ(graph.rank_of[graph.lost[0].after], 1U);
  EXPECT_EQ(graph.piece(graph.lost[0].after).start.ns, 800 * us);
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
  const std::vector<JobPiece> pieces = folded(fixture.events(), {});
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
  const std::vector<JobPiece> pieces = folded(fixture.events(), {});
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
  const std::vector<JobPiece> pieces = folded(fixture.events(), {});
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
