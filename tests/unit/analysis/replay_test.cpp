#include "analysis/replay/replay.hpp"

#include <vector>

#include <gtest/gtest.h>

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
  EXPECT_EQ(reduce.after_compute_ns, 0U);
  EXPECT_EQ(reduce.after_host_ns, 520U * us - 12'010U);  // its launch returned at 12.01 us
  EXPECT_EQ(adam.waits_for, 1);
  EXPECT_EQ(adam.after_other_ns, 0U);
  EXPECT_EQ(adam.after_compute_ns, 80U * us);
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
  EXPECT_EQ(pieces[1].waits_for, 0);
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
  EXPECT_EQ(pieces[1].after_compute_ns, 0U);
  EXPECT_EQ(pieces[2].waits_for, 1);
}

TEST(Replay, NothingChangedIsWhatWasMeasured) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const Replay replay({fast.rank(), slow.rank()}, 1);
  EXPECT_EQ(replay.measured().end_ns, 770 * us);
  EXPECT_EQ(replay.end_ns(), 770 * us);
  EXPECT_EQ(replay.measured().step_ends_ns, (std::vector<Nanoseconds>{720 * us}));
  EXPECT_EQ(replay.start_ns(), 20 * us);
}

TEST(Replay, MendingTheSlowOneSavesWhatTheOtherWaited) {
  const MadeRank fast(520 * us, 720 * us), slow(620 * us, 720 * us);
  const Replay replay({fast.rank(), slow.rank()}, 1);
  EXPECT_EQ(replay.run({{1}}).end_ns, 670 * us);  // 100 us less
  EXPECT_EQ(replay.run({{0}}).end_ns, 770 * us);  // it is as usual
}

TEST(Replay, BehindAThirdOneMendingSavesNoMoreThanToThere) {
  const MadeRank fast(520 * us, 720 * us), middle(580 * us, 720 * us), slow(620 * us, 720 * us);
  const MadeRank other(520 * us, 720 * us), another(520 * us, 720 * us);
  const Replay replay({fast.rank(), middle.rank(), slow.rank(), other.rank(), another.rank()}, 1);
  EXPECT_EQ(replay.run({{2}}).end_ns, 730 * us);     // the middle one is 40 us earlier
  EXPECT_EQ(replay.run({{1, 2}}).end_ns, 670 * us);  // both: 100 us
}

}  // namespace
}  // namespace nsys_explain::analysis
