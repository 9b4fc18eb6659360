#include "analysis/replay/lanes.hpp"

#include <array>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds us = 1000;

/// Compute from 0 to `enter_ns`, busy for `busy_ns` of it, then a collective that all leave at 960 us.
struct LaneRank {
  LaneRank(Nanoseconds enter_ns, Nanoseconds busy_ns) {
    pieces[0].end = JobTime(enter_ns);
    pieces[0].gpu_ns = static_cast<std::uint32_t>(busy_ns);
    pieces[1].kind = PieceKind::collective;
    pieces[1].start = arrivals[0].enter = JobTime(enter_ns);
    pieces[1].end = arrivals[0].exit = JobTime(960 * us);
    pieces[1].arrival = 0;
    arrivals[0].instance = 7;
  }
  ReplayRank rank() const { return {pieces, arrivals}; }

  std::array<JobPiece, 2> pieces;
  std::array<ReplayArrival, 1> arrivals;
};

using Cells = std::vector<std::uint8_t>;

Cells repeated(std::initializer_list<std::pair<std::size_t, int>> runs) {
  Cells cells;
  for (const auto& [count, cell] : runs) cells.insert(cells.end(), count, static_cast<std::uint8_t>(cell));
  return cells;
}

TEST(Lanes, WaitingLastsUpToTheLatestEnterAndComputeHidesIt) {
  const LaneRank early(480 * us, 480 * us), late(720 * us, 360 * us);
  const JobGraph graph({early.rank(), late.rank()});
  const RankLanes lanes = lanes_of(graph, std::array{3, 5}, {2, {0}, 960 * us}, 0);
  ASSERT_EQ(lanes.bins, 960);  // a microsecond each
  EXPECT_EQ(lanes.trace_ranks, (std::vector<std::int32_t>{3, 5}));
  ASSERT_EQ(lanes.spans.size(), 1U);
  EXPECT_EQ(lanes.spans[0].step, 2);
  // Busy half of the time is one and a half thirds, rounded up.
  EXPECT_EQ(lanes.spans[0].cells, repeated({{480, 3 * 16}, {240, 3 * 4}, {240, 3}, {720, 2 * 16}, {240, 3}}));
}

TEST(Lanes, AComputingRankIsNotSeenToWait) {
  LaneRank early(480 * us, 480 * us);
  const LaneRank late(720 * us, 720 * us);
  early.pieces[0].end = JobTime(600 * us);  // beside its own collective, busy for 4 of 5 us
  const JobGraph graph({early.rank(), late.rank()});
  const RankLanes lanes = lanes_of(graph, std::array{0, 1}, {}, 0);
  EXPECT_EQ(lanes.spans[0].step, -1);  // no steps are known
  const Cells& cells = lanes.spans[0].cells;
  EXPECT_EQ(cells[479], 2 * 16);          // 0.8 of it: 2.4 thirds
  EXPECT_EQ(cells[480], 2 * 16 + 1 * 4);  // the rest of it waits
  EXPECT_EQ(cells[600], 3 * 4);
  EXPECT_EQ(cells[720], 3);
}

TEST(Lanes, StepsAroundTheMomentAreShown) {
  const LaneRank rank(480 * us, 480 * us);
  const JobGraph graph({rank.rank()});
  StepStarts steps{100, {}, 40'000};
  for (int step = 0; step < 40; ++step) steps.start_ns.push_back(1'000 * step);
  // 30 of 40: 15 before the moment's step, as far as there are so many.
  for (const auto& [moment_ns, first, at] : {std::tuple(39'005, 110, 29), {20'000, 105, 15}, {-3, 100, 0}}) {
    const RankLanes lanes = lanes_of(graph, std::array{0}, steps, moment_ns);
    ASSERT_EQ(lanes.spans.size(), 30U);
    EXPECT_EQ(lanes.spans.front().step, first);
    EXPECT_EQ(lanes.spans.back().step, first + 29);
    EXPECT_EQ(lanes.shown_first, static_cast<std::size_t>(at));
  }
}

TEST(Lanes, AThousandRanksTakeFewerBinsAndSteps) {
  const LaneRank rank(480 * us, 480 * us);
  const JobGraph graph(std::vector<ReplayRank>(1024, rank.rank()));
  StepStarts steps{0, {}, 20'000};
  for (int step = 0; step < 20; ++step) steps.start_ns.push_back(1'000 * step);
  const RankLanes lanes = lanes_of(graph, std::vector<std::int32_t>(1024), steps, 0);
  EXPECT_EQ(lanes.bins, 240);
  EXPECT_EQ(lanes.spans.size(), 8U);  // 2,000,000 cells
}

}  // namespace
}  // namespace nsys_explain::analysis
