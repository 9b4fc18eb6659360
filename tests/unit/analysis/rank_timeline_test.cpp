#include "analysis/waits/rank_timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "analysis/trace/work_profile.hpp"

namespace nsys_explain::analysis {
namespace {

TraceArrival arrival(Nanoseconds enter, Nanoseconds exit, std::uint64_t communicator, bool blocking = true) {
  TraceArrival a;
  a.enter = TraceTime(enter);
  a.exit = TraceTime(exit);
  a.communicator = communicator;
  a.call_bytes = 8;
  a.blocking = blocking;
  a.trace_rank = 3;
  return a;
}

/// What is usual for all arrivals that can be compared.
void set_excess(RankTimeline& timeline, const UsualWork& usual) {
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i)
    if (work_sample(timeline, i)) take_usual(timeline, i, usual);
  finish_excess(timeline);
}

/// Compares the timelines with each other.
void set_excess(std::vector<RankTimeline>& timelines) {
  std::vector<std::pair<RankTimeline*, std::size_t>> asked;
  std::vector<WorkSample> samples;
  for (RankTimeline& timeline : timelines) {
    for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
      const std::optional<WorkSample> sample = work_sample(timeline, i);
      if (!sample) continue;
      asked.emplace_back(&timeline, i);
      samples.push_back(*sample);
    }
  }
  const std::vector<UsualWork> usual = usual_work(samples, false);
  for (std::size_t s = 0; s < asked.size(); ++s) take_usual(*asked[s].first, asked[s].second, usual[s]);
  for (RankTimeline& timeline : timelines) finish_excess(timeline);
}

std::vector<Nanoseconds> before_each(const RankTimeline& timeline, Nanoseconds Excess::*field) {
  std::vector<Nanoseconds> values;
  for (const Excess& before : timeline.before) values.push_back(before.*field);
  return values;
}

/// Communicators 1 and 11 have eight members, 2 and 12 four of them, 5 four others.
std::vector<TimelineCommunicator> communicators(std::int32_t size_of_two = 4) {
  static const std::vector<std::int32_t> all{0, 1, 2, 3, 4, 5, 6, 7}, half{0, 1, 2, 3}, other{3, 4, 5, 6};
  return {{1, 8, all}, {2, size_of_two, half}, {5, 4, other}, {11, 8, all}, {12, size_of_two, half}};
}

/// Profiles of arrivals that did not queue, and beside which nothing ran.
std::vector<WorkProfile> no_profiles(const RankTimeline& timeline) {
  return std::vector<WorkProfile>(timeline.arrivals.size());
}

RankTimeline timeline_of(const std::vector<TraceArrival>& arrivals, const Steps& steps = {},
                         std::int32_t size_of_two = 4, std::uint64_t kernel_names = 0) {
  RankTimeline timeline = make_timeline(arrivals, communicators(size_of_two), steps, kernel_names);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    Outcome& outcome = timeline.outcomes[i];
    outcome.matched = true;
    outcome.blocking = arrivals[i].blocking ? 1 : 0;
    outcome.complete = true;
    outcome.partners = static_cast<std::uint32_t>(arrivals[i].communicator);
  }
  measure(timeline, no_profiles(timeline));
  return timeline;
}

/// Times in milliseconds.
TraceArrival arrival_ms(double enter, double exit, std::uint64_t communicator, bool blocking = true) {
  return arrival(static_cast<Nanoseconds>(enter * 1e6), static_cast<Nanoseconds>(exit * 1e6), communicator, blocking);
}

TEST(RankTimeline, WorkIsTimeSinceTheLatestBlockingExitOrEnter) {
  // The second overlaps compute: nothing waits for it, and the third's work has gone on since it began.
  const RankTimeline timeline = timeline_of({arrival_ms(1, 2, 1), arrival_ms(3, 6, 2, false), arrival_ms(7, 8, 1)});
  EXPECT_EQ(timeline.arrivals[0].work_ns, no_time) << "nothing ended before it";
  EXPECT_EQ(timeline.arrivals[1].work_ns, 1'000'000);
  EXPECT_EQ(timeline.arrivals[2].work_ns, 4'000'000);
}

TEST(RankTimeline, NoWorkIsCountedTwiceWhereTwoAreUnderWay) {
  const RankTimeline timeline = timeline_of({arrival_ms(0, 1, 1), arrival_ms(10, 30, 1), arrival_ms(15, 40, 2)});
  EXPECT_EQ(timeline.arrivals[1].work_ns, 9'000'000);
  EXPECT_EQ(timeline.arrivals[2].work_ns, 5'000'000);
}

/// An arrival with what its instance and its profile tell. Times in microseconds.
struct Told {
  Nanoseconds enter_us, exit_us;
  std::uint64_t communicator = 1;
  bool waited = true;         ///< compute of this rank stood still when it ended
  bool others_waited = true;  ///< that of most members did
  std::uint32_t queued_us = 0, beside_us = 0;
};

RankTimeline timeline_as_told(const std::vector<Told>& told) {
  std::vector<TraceArrival> arrivals;
  std::vector<WorkProfile> profiles;
  for (const Told& t : told) {
    arrivals.push_back(arrival(1000 * t.enter_us, 1000 * t.exit_us, t.communicator, t.waited));
    WorkProfile& profile = profiles.emplace_back();
    profile.queued_ns = 1000 * t.queued_us;
    profile.compute_beside_ns = 1000 * t.beside_us;
  }
  RankTimeline timeline = make_timeline(arrivals, communicators(), {}, 0);
  for (std::size_t i = 0; i < told.size(); ++i) {
    Outcome& outcome = timeline.outcomes[i];
    outcome.matched = true;
    outcome.blocking = told[i].others_waited ? 1 : 0;
    outcome.complete = true;
  }
  measure(timeline, profiles);
  return timeline;
}

std::vector<Nanoseconds> work_us(const RankTimeline& timeline) {
  std::vector<Nanoseconds> work;
  for (const TimelineArrival& arrival : timeline.arrivals)
    work.push_back(arrival.work_ns == no_time ? no_time : arrival.work_ns / 1000);
  return work;
}

TEST(RankTimeline, OneThatQueuedBehindAnotherWasReadyWhenTheKernelsBeforeItWereDone) {
  // The third was ready at 5 ms; compute ran for 3 ms after that, then stood still for it.
  const RankTimeline timeline = timeline_as_told(
      {{0, 1000}, {3000, 9000, 2, false, false}, {9005, 10000, 2, true, true, 4005, 3000}, {12000, 13000}});
  EXPECT_EQ(work_us(timeline), (std::vector<Nanoseconds>{no_time, 2000, 2000, 5000}));
}

TEST(RankTimeline, QueuesAreFollowedToTheirHead) {
  // The second waits for a late member from 3 ms on, with compute beside it until 7 ms. The third was ready at 5 ms and
  // queued behind it, the fourth at 7 ms and queued behind both: the third never had compute beside it once it began.
  const RankTimeline early = timeline_as_told({{0, 1000},
                                               {3000, 9000, 2, true, true, 0, 4000},
                                               {9001, 10000, 2, true, true, 4001, 2000},
                                               {10001, 11000, 2, true, true, 3001, 0},
                                               {12000, 13000}});
  EXPECT_EQ(work_us(early), (std::vector<Nanoseconds>{no_time, 2000, 2000, 2000, 1000}));
}

TEST(RankTimeline, WorkIsTheSameWhetherItsCollectiveQueuedOrThoseBeforeItWereOver) {
  // Backward of `first` and `second`, a gradient all-reduce after each, the optimizer after `tail`. One rank is early:
  // compute goes on beside the first all-reduce, then waits for the late one, and the second queues behind it. The late
  // one finds everybody there. The two have worked alike.
  for (Nanoseconds seed = 0; seed < 12; ++seed) {
    const Nanoseconds first = 1500 + 170 * seed, second = 700 + 310 * (seed % 5), tail = 123, late = 4000 + 97 * seed;
    const Nanoseconds begin = 1000, all_reduce = 250;
    const Nanoseconds early_enter = begin + first, late_enter = early_enter + late;
    const Nanoseconds first_over = late_enter + all_reduce, second_over = late_enter + second + all_reduce;
    const auto queued = static_cast<std::uint32_t>(first_over + 1 - (early_enter + second));
    const RankTimeline early =
        timeline_as_told({{0, begin, 11},
                          {early_enter, first_over, 2, true, true, 0, static_cast<std::uint32_t>(second)},
                          {first_over + 1, second_over, 2, true, true, queued, 0},
                          {second_over + tail, second_over + tail + 50, 11}});
    const RankTimeline last = timeline_as_told({{0, begin + late, 11},
                                                {late_enter, first_over, 2, false, true, 0, all_reduce},
                                                {late_enter + second, second_over, 2},
                                                {second_over + tail, second_over + tail + 50, 11}});
    const std::vector<Nanoseconds> expected{no_time, first, second, tail};
    EXPECT_EQ(work_us(early), expected) << seed;
    EXPECT_EQ(work_us(last), expected) << seed;
  }
}

TEST(RankTimeline, WaitingOfOneThatQueuedBeganWhenItWasReady) {
  // Two members: one of them waits in the first (1.2 ms longer than it computes), so most do not.
  const RankTimeline timeline = timeline_as_told(
      {{0, 1000}, {3000, 6200, 2, true, false, 0, 2000}, {6201, 8200, 2, true, true, 1201, 0}, {8323, 9000}});
  EXPECT_EQ(work_us(timeline), (std::vector<Nanoseconds>{no_time, 2000, 2000, 123}));
}

TEST(RankTimeline, OneThatQueuedHasTheWorkOfTheMomentInWhichItWasReady) {
  // Its kernels done, a rank launches an all-reduce, which queues, and a send, which does not. A peer enters both at
  // once; and a third one's all-reduce was ready long before another exchange that it let pass.
  const std::vector<Told> begin{{0, 1000}, {3000, 6200, 2, true, false, 0, 2000}};
  std::vector<Told> queued = begin, at_once{{0, 1000}, {3000, 3200, 2, false, false, 0, 200}}, overtaken = begin;
  queued.push_back({5012, 5100, 5});
  queued.push_back({6201, 8200, 2, true, true, 1201, 0});
  at_once.push_back({5000, 5200, 2});
  at_once.push_back({5012, 5100, 5});
  overtaken.push_back({5500, 5600, 5});
  overtaken.push_back({6201, 8200, 2, true, true, 1201, 0});
  const RankTimeline first = timeline_as_told(queued), second = timeline_as_told(at_once),
                     third = timeline_as_told(overtaken);
  EXPECT_EQ(work_us(first), (std::vector<Nanoseconds>{no_time, 2000, 2012, 2012}));
  EXPECT_EQ(work_us(second), (std::vector<Nanoseconds>{no_time, 2000, 2000, 2012}));
  EXPECT_EQ(work_us(third), (std::vector<Nanoseconds>{no_time, 2000, 500, 2000})) << "not 2500, and 0";
  EXPECT_EQ(third.by_readiness, (std::vector<std::uint32_t>{0, 1, 3, 2}));
}

TEST(RankTimeline, ComputeBesideACollectiveIsWorkEvenWhereItWaitsForItsEnd) {
  const RankTimeline timeline = timeline_as_told({{0, 1000}, {3000, 9000, 2, true, true, 0, 4000}, {11000, 12000}});
  EXPECT_EQ(work_us(timeline), (std::vector<Nanoseconds>{no_time, 2000, 6000}));
}

TEST(RankTimeline, StandingStillIsNoWorkThoughTheOthersWentOn) {
  // The second ends late on this rank alone: compute of the others is not there yet, its own stops after 1 ms.
  const RankTimeline timeline = timeline_as_told({{0, 1000}, {2000, 5000, 2, true, false, 0, 1000}, {6000, 7000}});
  EXPECT_EQ(work_us(timeline), (std::vector<Nanoseconds>{no_time, 1000, 2000}));
}

/// The excess over what is usual, which is given for the work of each arrival.
RankTimeline with_usual(RankTimeline timeline, const std::vector<Nanoseconds>& usual_work) {
  for (std::size_t i = 0; i < usual_work.size(); ++i) take_usual(timeline, i, {usual_work[i], 0, 0});
  finish_excess(timeline);
  return timeline;
}

TEST(RankTimeline, TwoThatEnterAtOneMomentHaveOneWork) {
  // A peer may enter them in the other order: each is compared for itself, and the sum holds the work once.
  const RankTimeline timeline = with_usual(timeline_of({arrival_ms(0, 1, 1), arrival_ms(5, 6, 2, false),
                                                        arrival_ms(5.01, 6, 5, false), arrival_ms(8, 9, 1)}),
                                           {no_time, 3'000'000, 3'000'000, 2'000'000});
  EXPECT_EQ(timeline.arrivals[1].work_ns, 4'000'000);
  EXPECT_EQ(timeline.arrivals[2].work_ns, 4'010'000);
  EXPECT_EQ(before_each(timeline, &Excess::work_ns), (std::vector<Nanoseconds>{0, 0, 0, 1'010'000, 2'000'000}));
}

TEST(RankTimeline, PeersThatWaitedElsewhereDoNotMakeARankLate) {
  // This rank went on computing during the first exchange (2 ms, then 3 ms of work); its peers had to wait in it.
  const RankTimeline timeline =
      with_usual(timeline_of({arrival_ms(0, 1, 1), arrival_ms(3, 4, 2, false), arrival_ms(6, 7, 1)}),
                 {no_time, 2'000'000, 3'000'000});
  EXPECT_EQ(own_lateness_of(timeline, 2), 0);
  EXPECT_EQ(timeline.before.back().work_ns, 0);
}

TEST(RankTimeline, IsTiedToOthersByTheSameCommunicatorOrOneThatHoldsItsMembers) {
  const RankTimeline timeline =
      timeline_of({arrival(0, 10, 1), arrival(20, 30, 5), arrival(40, 50, 2), arrival(60, 70, 5), arrival(80, 90, 2)});
  EXPECT_EQ(timeline.arrivals[1].synchronised, 0);
  EXPECT_EQ(timeline.arrivals[2].synchronised, 0) << "one of equal size need not hold the same members";
  EXPECT_EQ(timeline.arrivals[3].synchronised, 1);
  EXPECT_EQ(timeline.arrivals[4].synchronised, 2);
}

TEST(RankTimeline, IsNotTiedToOthersByWhatItsOwnComputeRanBeside) {
  // The others have nothing left to do and wait in the second for this rank, whose own compute goes on: what it lacks
  // of their wait is no head start, and its lateness at the third goes back to the first.
  RankTimeline timeline =
      make_timeline(std::vector<TraceArrival>{arrival(0, 10, 1), arrival(20, 30, 1, false), arrival(40, 50, 1)},
                    communicators(), {}, 0);
  for (std::int32_t i = 0; i < 3; ++i) {
    Outcome& outcome = timeline.outcomes[static_cast<std::size_t>(i)];
    outcome.matched = true;
    outcome.complete = true;
  }
  measure(timeline, no_profiles(timeline));
  EXPECT_EQ(timeline.arrivals[2].synchronised, 0);
  for (const std::size_t i : {1, 2}) take_usual(timeline, i, {4, 6, 0});
  finish_excess(timeline);
  EXPECT_EQ(before_each(timeline, &Excess::waiting_ns), (std::vector<Nanoseconds>{0, 0, 0, -6}));
}

/// Steps of two operations on communicator `c` and one on `d`, in either order.
std::vector<TraceArrival> steps_of(std::uint64_t c, std::uint64_t d, bool other_order, int steps) {
  std::vector<TraceArrival> arrivals;
  for (int s = 0; s < steps; ++s) {
    const Nanoseconds t = 1000 * s;
    arrivals.push_back(arrival(t, t + 10, c));
    arrivals.push_back(arrival(t + 100, t + 110, other_order ? d : c));
    arrivals.push_back(arrival(t + 200, t + 210, other_order ? c : d));
  }
  return arrivals;
}

std::uint64_t role(const std::vector<TraceArrival>& arrivals, std::int32_t size_of_two = 4) {
  return timeline_of(arrivals, {StepSource::nvtx, {0, 1000, 2000, 3000}, 4000}, size_of_two).role;
}

TEST(RankTimeline, IsNotTiedToOthersByWhatTheyLeftBeforeItCame) {
  // 6 ms too much before a broadcast that the others have left by then: it is late by them at the all-reduce behind it.
  RankTimeline timeline =
      make_timeline(std::vector<TraceArrival>{arrival_ms(0, 1, 1), arrival_ms(9, 10, 1), arrival_ms(12, 14, 1)},
                    communicators(), {}, 0);
  for (const bool left_behind : {false, true}) {
    for (std::int32_t i = 0; i < 3; ++i) {
      Outcome& outcome = timeline.outcomes[static_cast<std::size_t>(i)];
      outcome.matched = true;
      outcome.complete = true;
      outcome.tied = !(left_behind && i == 1);
    }
    measure(timeline, no_profiles(timeline));
    timeline = with_usual(timeline, {no_time, 2'000'000, 2'000'000});
    EXPECT_EQ(own_lateness_of(timeline, 1), 6'000'000);
    EXPECT_EQ(timeline.arrivals[2].synchronised, left_behind ? 0 : 1);
    EXPECT_EQ(own_lateness_of(timeline, 2), left_behind ? 6'000'000 : 0);
  }
}

TEST(RankTimeline, IsAsLateForOthersAsForThoseItMetFirst) {
  // 6 ms too much before an exchange with half of the others, who wait. The other half have not met this rank since the
  // first collective: for them it is as late, though it has waited for nobody in between.
  RankTimeline timeline = timeline_of({arrival_ms(0, 1, 1), arrival_ms(9, 10, 2), arrival_ms(12, 14, 5)});
  timeline = with_usual(std::move(timeline), {no_time, 2'000'000, 2'000'000});
  EXPECT_EQ(own_lateness_of(timeline, 1), 6'000'000);
  EXPECT_EQ(own_lateness_of(timeline, 2), 6'000'000);
  EXPECT_EQ(delay_of(timeline, 2).inherited_ns, 0);
}

/// Steps of two operations by the rank's own count, from 0.
RankTimeline counted_timeline(const std::vector<std::int32_t>& told, const CountedSteps& counted) {
  std::vector<TraceArrival> arrivals;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const auto enter = static_cast<Nanoseconds>(50 * i);
    arrivals.push_back(arrival(enter, enter + 5, 1));
  }
  std::vector<Nanoseconds> starts;
  for (std::size_t step = 0; step < counted.own; ++step) starts.push_back(static_cast<Nanoseconds>(100 * step));
  RankTimeline timeline = make_timeline(arrivals, communicators(), {StepSource::periodicity, starts, 10'000}, 0);
  for (std::size_t i = 0; i < told.size(); ++i) {
    timeline.outcomes[i].matched = told[i] >= 0;
    timeline.outcomes[i].step = told[i];
  }
  count_by_job(timeline, counted);
  measure(timeline, no_profiles(timeline));
  return timeline;
}

std::vector<std::int32_t> counts_of(const RankTimeline& timeline) {
  std::vector<std::int32_t> steps;
  for (const TimelineArrival& arrival : timeline.arrivals) steps.push_back(arrival.step);
  return steps;
}

TEST(RankTimeline, ItsStepsAreThoseThatItsInstancesAreIn) {
  const RankTimeline timeline = counted_timeline({4, 4, 5, 5, 6, 6}, {3, 4});
  EXPECT_EQ(counts_of(timeline), (std::vector<std::int32_t>{4, 4, 5, 5, 6, 6}));
  EXPECT_EQ(timeline.job_steps, (std::vector<std::int32_t>{4, 5, 6}));
  EXPECT_EQ(timeline.arrivals[3].occurrence, 1);
  EXPECT_EQ(timeline.arrivals[3].occurrences, 2);
}

TEST(RankTimeline, WhatNoInstanceTellsLiesBetweenThoseThatDo) {
  EXPECT_EQ(counts_of(counted_timeline({-1, 4, -1, 5, 6, -1}, {3, 4})), (std::vector<std::int32_t>{4, 4, 5, 5, 6, 6}));
  // The beginning of the rank's second step was not recorded, so its own count is one short from there on.
  EXPECT_EQ(counts_of(counted_timeline({0, 0, 1, 1, 2, -1}, {1, 0})), (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(counts_of(counted_timeline({-1, -1, -1}, {2, 7})), (std::vector<std::int32_t>{7, 7, 8}));
  EXPECT_EQ(counts_of(counted_timeline({-1, -1, -1}, {2, not_counted})), (std::vector<std::int32_t>{-1, -1, -1}));
}

TEST(RankTimeline, StepsOfInstancesNeedNotAscend) {
  // One of the next step entered before the last of this one.
  const RankTimeline timeline = counted_timeline({0, 1, 0, 1, 2, 2}, {3, 0});
  EXPECT_EQ(timeline.by_step, (std::vector<std::uint32_t>{0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(timeline.arrivals[2].occurrence, 1);
  EXPECT_EQ(timeline.arrivals[3].occurrence, 1);
  EXPECT_EQ(timeline.arrivals[3].occurrences, 2);
}

TEST(RankTimeline, RoleIsWhatAStepConsistsOf) {
  const std::uint64_t usual = role(steps_of(1, 2, false, 4));
  EXPECT_EQ(role(steps_of(11, 12, false, 4)), usual) << "whatever the communicators are called";
  EXPECT_EQ(role(steps_of(1, 2, true, 4)), usual) << "communicators may overtake each other";
  EXPECT_NE(role(steps_of(1, 2, false, 4), 5), usual) << "other sizes, other role";
  std::vector<TraceArrival> uneven = steps_of(1, 2, false, 4);
  for (TraceArrival& exchange : uneven) exchange.call_bytes = 64;
  EXPECT_NE(role(uneven), usual);
  for (TraceArrival& exchange : uneven) exchange.peer_or_root = several_peers;
  const std::uint64_t of_exchanges = role(uneven);
  for (TraceArrival& exchange : uneven) exchange.call_bytes *= 3;
  EXPECT_EQ(role(uneven), of_exchanges) << "an expert gets as many tokens as it gets";
  std::vector<TraceArrival> ragged = steps_of(1, 2, false, 4);
  ragged.erase(ragged.begin());
  EXPECT_EQ(role(ragged), usual) << "captured from within the first step on";
}

WorkSample sample(Nanoseconds work, std::uint64_t position = 0) {
  WorkSample s;
  s.position = position;
  s.work_ns = work;
  s.wait_ns = 1000 - work;
  return s;
}

TEST(UsualWork, IsTheMedianOfPeersAtOnePosition) {
  const auto usual = usual_work(
      std::vector<WorkSample>{sample(300), sample(100), sample(110, 1), sample(120), sample(130), sample(999, 2)},
      false);
  for (const std::size_t i : {0, 1, 3, 4}) EXPECT_EQ(usual[i].work_ns, 120) << "the lower of the middle two";
  EXPECT_EQ(usual[0].wait_ns, 870);
  EXPECT_EQ(usual[2].work_ns, no_time) << "alone at its place";
  EXPECT_EQ(usual[5].work_ns, no_time);
}

TEST(UsualWork, IsWithoutWhatAllPeersAreKnownToHaveTooMuch) {
  // Both GPUs of a stage are slow: 30 of 120 and 31 of 125 are known to be too much.
  std::vector<RankTimeline> timelines;
  for (const Nanoseconds work : {120, 125})
    timelines.push_back(timeline_of({arrival(0, 10, 1), arrival(10 + work, 200, 1)}, {StepSource::nvtx, {0}, 1000}));
  timelines[0].arrivals[1].surplus_ns = 30;
  timelines[1].arrivals[1].surplus_ns = 31;
  set_excess(timelines);
  EXPECT_EQ(timelines[0].arrivals[1].excess_work_ns, 30) << "over the lower of 90 and 94";
  EXPECT_EQ(timelines[1].arrivals[1].excess_work_ns, 35);
}

TEST(WorkSample, PeersMeetAtOnePositionInOneStep) {
  const auto positions_of = [](const RankTimeline& timeline) {
    std::vector<std::uint64_t> positions;
    for (std::size_t i = 0; i < timeline.arrivals.size(); ++i)
      positions.push_back(work_sample(timeline, i).value().position);
    return positions;
  };
  // Two steps of two operations of one kind, the third of three.
  std::vector<TraceArrival> arrivals;
  for (const Nanoseconds enter : {10, 20, 110, 120, 210, 220, 230}) arrivals.push_back(arrival(enter, enter + 1, 1));
  const Steps steps{StepSource::nvtx, {0, 100, 200}, 300};
  RankTimeline timeline = timeline_of(arrivals, steps);
  const std::vector<std::uint64_t> positions = positions_of(timeline);
  EXPECT_EQ(std::set(positions.begin(), positions.end()).size(), 7U);
  for (TraceArrival& later : arrivals) later.exit = later.exit + 1;
  EXPECT_EQ(positions_of(timeline_of(arrivals, steps)), positions) << "whatever it took";
  timeline.role += 1;
  for (std::size_t i = 0; i < positions.size(); ++i) EXPECT_NE(positions_of(timeline)[i], positions[i]);
}

TEST(UsualWork, WaitsAreThoseOfArrivalsThatAreMatched) {
  std::vector<WorkSample> samples{sample(120), sample(130), sample(140), sample(150), sample(70, 1), sample(80, 1)};
  for (const std::size_t i : {0, 2, 3, 4, 5}) samples[i].wait_ns = no_time;
  const auto usual = usual_work(samples, false);
  EXPECT_EQ(usual[0].work_ns, 130);
  EXPECT_EQ(usual[0].wait_ns, 870) << "of the second alone";
  EXPECT_EQ(usual[4].work_ns, 70);
}

TEST(Excess, WorkIsNotLostBetweenArrivalsThatAreNotMatched) {
  // In the first collective two ranks wait for the third; the second, which nothing matches, queues behind it. Work
  // goes on all the time: for the two most of it lies before the second, for the third before the last.
  const auto rank_of = [](std::int32_t rank, double first, double second) {
    std::vector<TraceArrival> arrivals{arrival_ms(1, 2, 1), arrival_ms(first, 5, 1, false),
                                       arrival_ms(second, 6, 5, false), arrival_ms(first + 5, 10, 1)};
    for (TraceArrival& one : arrivals) one.trace_rank = rank;
    RankTimeline timeline = make_timeline(arrivals, communicators(), {StepSource::nvtx, {0}, 20'000'000}, 0);
    for (const std::int32_t i : {0, 1, 3}) {
      Outcome& outcome = timeline.outcomes[static_cast<std::size_t>(i)];
      outcome.matched = true;
      outcome.blocking = arrivals[static_cast<std::size_t>(i)].blocking ? 1 : 0;
      outcome.complete = true;
    }
    measure(timeline, no_profiles(timeline));
    return timeline;
  };
  std::vector<RankTimeline> timelines{rank_of(0, 3.5, 5.001), rank_of(1, 3.5, 5.001), rank_of(2, 4.5, 5.001)};
  set_excess(timelines);
  const Nanoseconds ms = 1'000'000;
  EXPECT_EQ(timelines[2].arrivals[1].excess_work_ns, ms);
  EXPECT_EQ(timelines[2].arrivals[2].excess_work_ns, -ms);
  EXPECT_EQ(timelines[2].arrivals[3].excess_work_ns, ms);
  EXPECT_EQ(timelines[2].before.back().work_ns, ms) << "what it was late by in the first, once";
  EXPECT_EQ(timelines[0].before.back().work_ns, 0);
}

TEST(Excess, OfARankWithoutPeersIsAgainstItsOtherSteps) {
  std::vector<TraceArrival> arrivals;
  for (int s = 0; s < 6; ++s) {
    const Nanoseconds late = s == 4 ? 70 : 0;
    arrivals.push_back(arrival(1000 * s, 1000 * s + 10, 1));
    arrivals.push_back(arrival(1000 * s + 100 + late, 1000 * s + 200, 1));
  }
  RankTimeline timeline = timeline_of(arrivals, {StepSource::nvtx, {0, 1000, 2000, 3000, 4000, 5000}, 6000});
  set_excess(timeline, {});
  EXPECT_EQ(timeline.arrivals[9].excess_work_ns, 70);
  EXPECT_EQ(timeline.arrivals[7].excess_work_ns, 0);
  EXPECT_EQ(timeline.before.back().work_ns, 70);
}

TEST(RankTimeline, WhoseLaunchWasLostIsAsLargeAsWhatLiesAtItsPositionInOtherSteps) {
  // Steps of an operation of 100 bytes and two of 200.
  std::vector<TraceArrival> arrivals;
  for (int step = 0; step < 3; ++step) {
    for (int position = 0; position < 3; ++position) {
      arrivals.push_back(arrival(100 * step + 10 * position, 100 * step + 10 * position + 5, 1));
      arrivals.back().call_bytes = position == 0 ? 100 : 200;
    }
  }
  const Steps steps{StepSource::nvtx, {0, 100, 200}, 300};
  const RankTimeline whole = timeline_of(arrivals, steps);
  arrivals[4].call_bytes = -1;
  const RankTimeline one_lost = timeline_of(arrivals, steps);
  EXPECT_EQ(one_lost.arrivals[4].symbol, whole.arrivals[4].symbol);
  EXPECT_EQ(position_in_step(one_lost.arrivals[5]), position_in_step(whole.arrivals[5]));
  // Other steps disagree: nothing tells.
  arrivals[1].call_bytes = 300;
  EXPECT_NE(timeline_of(arrivals, steps).arrivals[4].symbol, whole.arrivals[4].symbol);
}

TEST(Excess, WhoHasNoPeersIsNotComparedWithItselfWhereRecordsWereLost) {
  // Ten steps of three all-reduces after 10, 50 and 90 of work. In four of them one was lost, each time another: what
  // is the first or the second of two there has any of these before it, or what was before the lost one, too.
  std::vector<TraceArrival> arrivals;
  const auto is_lost = [](int step, int position) { return step >= 3 && step < 7 && position == step % 3; };
  for (int step = 0; step < 10; ++step) {
    const std::vector<Nanoseconds> enters{10, 61, 152};
    for (int position = 0; position < 3; ++position) {
      const Nanoseconds enter = 1'000'000 * (200 * step + enters[static_cast<std::size_t>(position)]);
      if (!is_lost(step, position)) arrivals.push_back(arrival(enter, enter + 1'000'000, 1));
    }
  }
  std::vector<Nanoseconds> starts;
  for (int step = 0; step < 10; ++step) starts.push_back(Nanoseconds{200'000'000} * step);
  RankTimeline timeline = timeline_of(arrivals, {StepSource::nvtx, starts, 2'000'000'000});
  finish_excess(timeline);
  for (const TimelineArrival& one : timeline.arrivals) {
    EXPECT_EQ(one.compared, one.occurrences == 3 && !one.since_step && one.work_ns != no_time) << one.step;
    EXPECT_FALSE(one.has_peers) << "other steps are none";
    EXPECT_EQ(one.step < 3 ? one.excess_work_ns : 0, 0) << one.step;
  }
}

TEST(Excess, NobodyIsLateForARecordThatWasLost) {
  // Four steps of four all-reduces, after 10, 20, 30 and 40 of work. The second rank's trace lost the second one of
  // step 2: what was its third looks like the second, after 51 instead of 20.
  std::vector<RankTimeline> timelines;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<TraceArrival> arrivals;
    for (int step = 0; step < 4; ++step)
      for (const Nanoseconds enter : {10, 31, 62, 103})
        if (rank != 1 || step != 2 || enter != 31)
          arrivals.push_back(arrival(200 * step + enter, 200 * step + enter + 1, 1));
    timelines.push_back(timeline_of(arrivals, {StepSource::nvtx, {0, 200, 400, 600}, 800}));
    timelines.back().trace_rank = rank;
  }
  set_excess(timelines);
  for (const RankTimeline& timeline : timelines)
    for (const TimelineArrival& one : timeline.arrivals) EXPECT_EQ(one.excess_work_ns, 0) << timeline.trace_rank;
  EXPECT_TRUE(timelines[1].arrivals[7].compared && timelines[1].arrivals[7].has_peers) << "step 1";
  EXPECT_FALSE(timelines[1].arrivals[9].compared) << "step 2: where it lies is not known";
  EXPECT_TRUE(timelines[0].arrivals[9].compared) << "the others' still have each other";
  EXPECT_TRUE(timelines[1].arrivals[11].compared) << "step 3";
}

TEST(Excess, OfARankWithoutPeersHoldsWhatItsKernelsTakeLongerThanElsewhere) {
  std::vector<TraceArrival> arrivals;
  for (int s = 0; s < 6; ++s) {
    arrivals.push_back(arrival_ms(100 * s, 100 * s + 1, 1));
    arrivals.push_back(arrival_ms(100 * s + 31, 100 * s + 32, 1));
  }
  const Nanoseconds ms = 1'000'000;
  RankTimeline timeline =
      timeline_of(arrivals, {StepSource::nvtx, {0, 100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms}, 600 * ms});
  for (std::size_t i = 1; i < arrivals.size(); i += 2) timeline.arrivals[i].surplus_ns = 5 * ms;
  RankTimeline compared = timeline;
  set_excess(timeline, {});
  EXPECT_EQ(timeline.arrivals[7].excess_work_ns, 5 * ms) << "30 ms like every time, 5 of them too many";
  EXPECT_EQ(timeline.before.back().work_ns, 6 * 5 * ms);
  EXPECT_EQ(timeline.arrivals[7].excess_wait_ns, 0) << "it was the last";
  set_excess(compared, {28 * ms, 0, 0});
  EXPECT_EQ(compared.arrivals[7].excess_work_ns, 2 * ms) << "peers know better";
}

TEST(Excess, OfTransfersCountsOnSlowLinksOnlyUntilTheRankMeetsTheOthersAgain) {
  // Everybody, then twice half of them over a slow link, everybody, half of them. No work differs, nobody waits.
  std::vector<TraceArrival> arrivals{arrival_ms(0, 1, 1), arrival_ms(3, 7, 2), arrival_ms(9, 14, 2),
                                     arrival_ms(16, 17, 1), arrival_ms(19, 23, 2)};
  RankTimeline timeline = timeline_of(arrivals);
  for (const std::size_t i : {1, 2, 4}) timeline.outcomes[i].slow_link = true;
  const Nanoseconds ms = 1'000'000;
  for (std::size_t i = 1; i < 5; ++i) take_usual(timeline, i, {2 * ms, 0, ms / 2});
  finish_excess(timeline);
  EXPECT_EQ(timeline.excess_transfers_ns[1], 3'500'000);
  EXPECT_EQ(timeline.excess_transfers_ns[3], 0) << "its link is not known to be slow: ends differ by chance";
  EXPECT_EQ(timeline.transfers_before_ns,
            (std::vector<Nanoseconds>{0, 0, 3'500'000, 8'000'000, 8'000'000, 11'500'000}));
  EXPECT_EQ(own_lateness_of(timeline, 2), 0) << "who shares the slow transfer does not wait for it again";
  EXPECT_EQ(own_lateness_of(timeline, 3), 8'000'000);
  EXPECT_EQ(own_lateness_of(timeline, 4), 0);
}

TEST(Blocking, ComputeThatGoesOnDoesNotWait) {
  Trace trace;
  ProcessTrace process;
  DeviceTrace device;
  for (const Nanoseconds start : {0, 110'000, 330'000}) {
    device.kernels.push_back({start, start + 100'000, 0, 0});
  }
  const LaunchIndex launches(process.api_calls);
  std::vector<TraceArrival> arrivals{arrival(50'000, 180'000, 1), arrival(150'000, 320'000, 1),
                                     arrival(215'000, 216'000, 1)};
  mark_blocking({trace, process, device, launches, {false}}, arrivals);
  EXPECT_FALSE(arrivals[0].blocking) << "compute ran for 50 of the last 50 us";
  EXPECT_TRUE(arrivals[1].blocking) << "it had waited since 210 us";
  EXPECT_TRUE(arrivals[2].blocking) << "a short one in a gap";
}

TEST(RankTimeline, WithoutMessageSizesARoleDoesNotRestOnInferredCommunicators) {
  std::vector<TraceArrival> arrivals = steps_of(1, 2, false, 4), more = arrivals;
  more.push_back(arrival(3500, 3510, 2));
  for (TraceArrival& a : arrivals) a.call_bytes = -1;
  for (TraceArrival& a : more) a.call_bytes = -1;
  EXPECT_EQ(role(arrivals, 5), role(arrivals)) << "their sizes may be wrong";
  EXPECT_EQ(role(more), role(arrivals)) << "what a lane carries in most steps";
  std::vector<TraceArrival> one_lane = arrivals;
  for (TraceArrival& a : one_lane) a.communicator = 1;
  EXPECT_NE(role(one_lane), role(arrivals));
}

TEST(RankTimeline, WithoutMessageSizesTheKernelsTellRolesApart) {
  std::vector<TraceArrival> arrivals{arrival(0, 10, 1), arrival(20, 30, 2), arrival(40, 50, 1)};
  EXPECT_EQ(timeline_of(arrivals, {}, 4, 17).role, timeline_of(arrivals, {}, 4, 18).role) << "sizes are known";
  for (TraceArrival& a : arrivals) a.call_bytes = -1;
  EXPECT_EQ(timeline_of(arrivals, {}, 4, 17).role, timeline_of(arrivals, {}, 4, 17).role);
  EXPECT_NE(timeline_of(arrivals, {}, 4, 17).role, timeline_of(arrivals, {}, 4, 18).role);
  arrivals.front().call_bytes = 8;
  EXPECT_NE(timeline_of(arrivals, {}, 4, 17).role, timeline_of(arrivals, {}, 4, 18).role) << "of one among many";
}

}  // namespace
}  // namespace nsys_explain::analysis
