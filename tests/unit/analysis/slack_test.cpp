#include "analysis/replay/slack.hpp"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "analysis/waits/collectives_in_step.hpp"

namespace nsys_explain::analysis {
namespace {

/// Pieces of one trace rank, made by hand; times in ns.
struct HandMadeRank {
  JobPiece& add(PieceKind kind, Nanoseconds start_ns, Nanoseconds end_ns) {
    JobPiece piece;
    piece.kind = kind;
    piece.start = JobTime(start_ns);
    piece.end = JobTime(end_ns);
    pieces.push_back(piece);
    return pieces.back();
  }
  void compute(Nanoseconds start_ns, Nanoseconds end_ns, std::int32_t waits_for = -1, std::uint32_t after_ns = 0) {
    JobPiece& piece = add(PieceKind::compute, start_ns, end_ns);
    if (waits_for >= 0) piece.waits[1] = {waits_for, after_ns};
  }
  void collective(std::int64_t instance, Nanoseconds enter_ns, Nanoseconds exit_ns, std::int32_t step,
                  std::int32_t waits_for = -1, std::uint32_t after_ns = 0) {
    JobPiece& piece = add(PieceKind::collective, enter_ns, exit_ns);
    piece.arrival = static_cast<std::int32_t>(arrivals.size());
    if (waits_for >= 0) piece.waits[1] = {waits_for, after_ns};
    ReplayArrival arrival;
    arrival.enter = JobTime(enter_ns);
    arrival.exit = JobTime(exit_ns);
    arrival.instance = instance;
    arrival.step = step;
    arrivals.push_back(arrival);
  }
  void host_wait(Nanoseconds end_ns, std::int32_t waits_for) {
    JobPiece& piece = add(PieceKind::host_wait, end_ns, end_ns);
    piece.waits[1] = {waits_for, 0};
  }

  std::vector<JobPiece> pieces;
  std::vector<ReplayArrival> arrivals;
};

Nanoseconds slack_of(const JobGraph& graph, std::int64_t instance) {
  const std::vector<Nanoseconds> slack = slack_of_instances(graph);
  for (std::uint32_t i = 0; i < graph.instances(); ++i)
    if (graph.arrival_of(graph.members_of(i).front().piece).instance == instance) return slack[i];
  return no_time;
}

/// The example of slack.hpp: the reduce is instance 0, the gather, which has one member here, instance 1.
JobGraph example(HandMadeRank& first, HandMadeRank& second, std::uint32_t adam_after_ns) {
  first.compute(0, 100);
  first.collective(0, 100, 200, -1);
  first.compute(220, 400, 1, adam_after_ns);
  second.compute(0, 150);
  second.collective(0, 150, 200, -1);
  second.collective(1, 230, 260, -1, 1, 30);
  second.compute(260, 300, 2);
  return JobGraph({{first.pieces, first.arrivals}, {second.pieces, second.arrivals}});
}

TEST(Slack, IsTheLeastOfAllMembers) {
  HandMadeRank first, second, third, fourth;
  const JobGraph waits = example(first, second, 0);
  EXPECT_EQ(slack_of(waits, 1), 0);
  EXPECT_EQ(slack_of(waits, 0), 0);  // adam waits for it on the first
  const JobGraph has_time = example(third, fourth, 50);
  EXPECT_EQ(slack_of(has_time, 0), 30);  // the gather follows it on the second
}

TEST(Slack, OfOneThatEntersBeforeOthersIsLonger) {
  HandMadeRank first, second;
  first.collective(0, 0, 50, -1);
  first.collective(1, 60, 150, -1, 0, 10);  // 40 before the other member
  first.compute(150, 300, 1);
  second.compute(0, 100);
  second.collective(1, 100, 150, -1);
  EXPECT_EQ(slack_of(JobGraph({{first.pieces, first.arrivals}, {second.pieces, second.arrivals}}), 0), 50);
}

TEST(Slack, GoesThroughAHostThatWaits) {
  HandMadeRank rank;
  rank.compute(0, 100);
  rank.collective(0, 100, 200, -1);
  rank.host_wait(210, 1);
  rank.compute(300, 400);
  rank.pieces.back().after_host_ns = 40;
  EXPECT_EQ(slack_of(JobGraph({{rank.pieces, rank.arrivals}}), 0), 40);
}

TEST(Slack, EndsWithTheStepWhereNothingWaited) {
  HandMadeRank known, unknown;
  for (HandMadeRank* const rank : {&known, &unknown}) {
    const std::int32_t step = rank == &known ? 0 : -1;
    rank->compute(0, 250);
    rank->collective(0, 100, 200, step);
    rank->compute(260, 400);
  }
  EXPECT_EQ(slack_of(JobGraph({{known.pieces, known.arrivals}}), 0), 60);       // compute begins at 260
  EXPECT_EQ(slack_of(JobGraph({{unknown.pieces, unknown.arrivals}}), 0), 200);  // the run ends at 400
}

TEST(Slack, BandwidthThatItAsksFor) {
  HandMadeRank first, second;
  const JobGraph graph = example(first, second, 50);
  const std::vector<CollectiveSize> sizes{{0, 1000, Operation::all_reduce}};
  const Table table = slack_table(graph, sizes, std::vector<std::string>{"world"});
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(column<std::int64_t>(table, "from_bytes")[0], 512);
  EXPECT_EQ(column<std::int64_t>(table, "without_slack")[0], 0);
  EXPECT_EQ(column<std::int64_t>(table, "transfer_p50_ns")[0], 50);  // 200 - 150
  EXPECT_EQ(column<std::int64_t>(table, "slack_p50_ns")[0], 30);
  EXPECT_DOUBLE_EQ(column<double>(table, "measured_gbs")[0], 1000.0 / 50);  // 2 (n - 1) / n is 1 of two members
  EXPECT_DOUBLE_EQ(column<double>(table, "required_gbs")[0], 1000.0 / 80);
}

TEST(Slack, WithoutSizesThereIsNoBandwidth) {
  HandMadeRank first, second;
  const JobGraph graph = example(first, second, 0);
  const std::vector<CollectiveSize> sizes{{0, -1, Operation::unknown}, {7, 10, Operation::unknown}};
  const Table table = slack_table(graph, sizes, std::vector<std::string>{"world"});
  ASSERT_EQ(table.row_count(), 1U);
  EXPECT_EQ(column<std::int64_t>(table, "from_bytes")[0], -1);
  EXPECT_EQ(column<std::int64_t>(table, "without_slack")[0], 1);
  EXPECT_TRUE(std::isnan(column<double>(table, "required_gbs")[0]));
}

/// Arrivals of a trace rank: {step, operation, enter, exit, wait; below 0: not told}.
RankTimeline timeline_of(
    const std::vector<std::tuple<std::int32_t, Operation, Nanoseconds, Nanoseconds, Nanoseconds>>& arrivals) {
  RankTimeline timeline;
  for (const auto& [step, operation, enter_ns, exit_ns, wait_ns] : arrivals) {
    TimelineArrival arrival;
    arrival.step = step;
    arrival.operation = operation;
    arrival.enter = TraceTime(enter_ns);
    arrival.exit = TraceTime(exit_ns);
    Outcome outcome;
    outcome.matched = outcome.split_told = wait_ns >= 0;
    outcome.wait_ns = std::max<Nanoseconds>(wait_ns, 0);
    timeline.arrivals.push_back(arrival);
    timeline.outcomes.push_back(outcome);
  }
  return timeline;
}

TEST(CollectivesInStep, TheNthOfEveryStepAreOnePosition) {
  using enum Operation;
  const RankTimeline one = timeline_of({{-1, all_reduce, 0, 9, 1},
                                        {0, all_reduce, 10, 20, 4},
                                        {0, all_gather, 20, 25, 0},
                                        {0, all_reduce, 30, 50, 5},
                                        {1, all_reduce, 110, 130, 8},
                                        {1, all_reduce, 140, 150, -1}});
  const RankTimeline other =
      timeline_of({{0, all_reduce, 10, 20, 1}, {0, all_reduce, 30, 50, 2}, {1, all_reduce, 110, 120, 3}});
  std::vector<PositionInSteps> positions = positions_in_steps(one);
  const std::vector<PositionInSteps> more = positions_in_steps(other);
  positions.insert(positions.end(), more.begin(), more.end());
  const Table table = collectives_in_step_table(merge_positions(positions));
  ASSERT_EQ(table.row_count(), 3U);  // one step of the other rank has a single all-reduce and is left out
  const auto integers = [&](const char* name) { return column<std::int64_t>(table, name); };
  EXPECT_EQ(integers("place"), (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(integers("in_step"), (std::vector<std::int64_t>{2, 2, 1}));
  EXPECT_EQ(integers("arrivals"), (std::vector<std::int64_t>{3, 3, 1}));
  EXPECT_EQ(integers("inconclusive"), (std::vector<std::int64_t>{0, 1, 0}));
  EXPECT_EQ(integers("duration_ns"), (std::vector<std::int64_t>{40, 50, 5}));
  EXPECT_EQ(integers("skew_ns"), (std::vector<std::int64_t>{13, 7, 0}));
  EXPECT_EQ(integers("transfer_ns"), (std::vector<std::int64_t>{27, 33, 5}));
  EXPECT_EQ(integers("most_skew_ns"), (std::vector<std::int64_t>{8, 5, 0}));
}

}  // namespace
}  // namespace nsys_explain::analysis
