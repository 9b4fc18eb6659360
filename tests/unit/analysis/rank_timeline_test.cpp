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

Arrival arrival(Nanoseconds enter, Nanoseconds exit, std::uint64_t communicator, bool blocking = true) {
  Arrival a;
  a.enter_ns = enter;
  a.exit_ns = exit;
  a.communicator = communicator;
  a.call_bytes = 8;
  a.blocking = blocking;
  a.trace_rank = 3;
  return a;
}

/// What is usual for all arrivals that can be compared.
void set_excess(RankTimeline& path, const UsualWork& usual) {
  for (std::size_t i = 0; i < path.arrivals.size(); ++i)
    if (work_sample(path, i)) take_usual(path, i, usual);
  finish_excess(path);
}

/// Compares the paths with each other.
void set_excess(std::vector<RankTimeline>& paths) {
  std::vector<std::pair<RankTimeline*, std::size_t>> asked;
  std::vector<WorkSample> samples;
  for (RankTimeline& path : paths) {
    for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
      const std::optional<WorkSample> sample = work_sample(path, i);
      if (!sample) continue;
      asked.emplace_back(&path, i);
      samples.push_back(*sample);
    }
  }
  const std::vector<UsualWork> usual = usual_work(samples, false);
  for (std::size_t s = 0; s < asked.size(); ++s) take_usual(*asked[s].first, asked[s].second, usual[s]);
  for (RankTimeline& path : paths) finish_excess(path);
}

std::vector<Nanoseconds> before_each(const RankTimeline& path, Nanoseconds Excess::*field) {
  std::vector<Nanoseconds> values;
  for (const Excess& before : path.before) values.push_back(before.*field);
  return values;
}

/// Communicators 1 and 11 have eight members, 2 and 12 four of them, 5 four others.
std::vector<PathCommunicator> communicators(std::int32_t size_of_two = 4) {
  static const std::vector<std::int32_t> all{0, 1, 2, 3, 4, 5, 6, 7}, half{0, 1, 2, 3}, other{3, 4, 5, 6};
  return {{1, 8, all}, {2, size_of_two, half}, {5, 4, other}, {11, 8, all}, {12, size_of_two, half}};
}

/// Profiles of arrivals that did not queue, and beside which nothing ran.
std::vector<WorkProfile> no_profiles(const RankTimeline& path) {
  return std::vector<WorkProfile>(path.arrivals.size());
}

RankTimeline path_of(const std::vector<Arrival>& arrivals, const Steps& steps = {}, std::int32_t size_of_two = 4,
                     std::uint64_t kernel_names = 0) {
  RankTimeline path = make_path(arrivals, communicators(size_of_two), steps, kernel_names);
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    RoutedOutcome routed;
    routed.outcome.matched = true;
    routed.index = static_cast<std::int32_t>(i);
    routed.outcome.blocking = arrivals[i].blocking ? 1 : 0;
    routed.outcome.complete = true;
    routed.outcome.partners = static_cast<std::uint32_t>(arrivals[i].communicator);
    take_outcome(path, routed);
  }
  measure(path, no_profiles(path));
  return path;
}

/// Times in milliseconds.
Arrival arrival_ms(double enter, double exit, std::uint64_t communicator, bool blocking = true) {
  return arrival(static_cast<Nanoseconds>(enter * 1e6), static_cast<Nanoseconds>(exit * 1e6), communicator, blocking);
}

TEST(RankTimeline, WorkIsTimeSinceTheLatestBlockingExitOrEnter) {
  // The second overlaps compute: nothing waits for it, and the third's work has gone on since it began.
  const RankTimeline path = path_of({arrival_ms(1, 2, 1), arrival_ms(3, 6, 2, false), arrival_ms(7, 8, 1)});
  EXPECT_EQ(path.arrivals[0].work_ns, no_time) << "nothing ended before it";
  EXPECT_EQ(path.arrivals[1].work_ns, 1'000'000);
  EXPECT_EQ(path.arrivals[2].work_ns, 4'000'000);
}

TEST(RankTimeline, NoWorkIsCountedTwiceWhereTwoAreUnderWay) {
  const RankTimeline path = path_of({arrival_ms(0, 1, 1), arrival_ms(10, 30, 1), arrival_ms(15, 40, 2)});
  EXPECT_EQ(path.arrivals[1].work_ns, 9'000'000);
  EXPECT_EQ(path.arrivals[2].work_ns, 5'000'000);
}

/// An arrival with what its instance and its profile tell. Times in microseconds.
struct Told {
  Nanoseconds enter_us, exit_us;
  std::uint64_t communicator = 1;
  bool waited = true;         ///< compute of this rank stood still when it ended
  bool others_waited = true;  ///< that of most members did
  std::uint32_t queued_us = 0, beside_us = 0;
};

RankTimeline path_of_told(const std::vector<Told>& told) {
  std::vector<Arrival> arrivals;
  std::vector<WorkProfile> profiles;
  for (const Told& t : told) {
    arrivals.push_back(arrival(1000 * t.enter_us, 1000 * t.exit_us, t.communicator, t.waited));
    WorkProfile& profile = profiles.emplace_back();
    profile.queued_ns = 1000 * t.queued_us;
    profile.compute_beside_ns = 1000 * t.beside_us;
  }
  RankTimeline path = make_path(arrivals, communicators(), {}, 0);
  for (std::size_t i = 0; i < told.size(); ++i) {
    RoutedOutcome routed;
    routed.outcome.matched = true;
    routed.index = static_cast<std::int32_t>(i);
    routed.outcome.blocking = told[i].others_waited ? 1 : 0;
    routed.outcome.complete = true;
    take_outcome(path, routed);
  }
  measure(path, profiles);
  return path;
}

std::vector<Nanoseconds> work_us(const RankTimeline& path) {
  std::vector<Nanoseconds> work;
  for (const PathArrival& arrival : path.arrivals)
    work.push_back(arrival.work_ns == no_time ? no_time : arrival.work_ns / 1000);
  return work;
}

TEST(RankTimeline, OneThatQueuedBehindAnotherWasReadyWhenTheKernelsBeforeItWereDone) {
  // The third was ready at 5 ms; compute ran for 3 ms after that, then stood still for it.
  const RankTimeline path = path_of_told(
      {{0, 1000}, {3000, 9000, 2, false, false}, {9005, 10000, 2, true, true, 4005, 3000}, {12000, 13000}});
  EXPECT_EQ(work_us(path), (std::vector<Nanoseconds>{no_time, 2000, 2000, 5000}));
}

TEST(RankTimeline, QueuesAreFollowedToTheirHead) {
  // The second waits for a late member from 3 ms on, with compute beside it until 7 ms. The third was ready at 5 ms and
  // queued behind it, the fourth at 7 ms and queued behind both: the third never had compute beside it once it began.
  const RankTimeline early = path_of_told({{0, 1000},
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
        path_of_told({{0, begin, 11},
                      {early_enter, first_over, 2, true, true, 0, static_cast<std::uint32_t>(second)},
                      {first_over + 1, second_over, 2, true, true, queued, 0},
                      {second_over + tail, second_over + tail + 50, 11}});
    const RankTimeline last = path_of_told({{0, begin + late, 11},
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
  const RankTimeline path = path_of_told(
      {{0, 1000}, {3000, 6200, 2, true, false, 0, 2000}, {6201, 8200, 2, true, true, 1201, 0}, {8323, 9000}});
  EXPECT_EQ(work_us(path), (std::vector<Nanoseconds>{no_time, 2000, 2000, 123}));
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
  const RankTimeline first = path_of_told(queued), second = path_of_told(at_once), third = path_of_told(overtaken);
  EXPECT_EQ(work_us(first), (std::vector<Nanoseconds>{no_time, 2000, 2012, 2012}));
  EXPECT_EQ(work_us(second), (std::vector<Nanoseconds>{no_time, 2000, 2000, 2012}));
  EXPECT_EQ(work_us(third), (std::vector<Nanoseconds>{no_time, 2000, 500, 2000})) << "not 2500, and 0";
  EXPECT_EQ(third.by_readiness, (std::vector<std::uint32_t>{0, 1, 3, 2}));
}

TEST(RankTimeline, ComputeBesideACollectiveIsWorkEvenWhereItWaitsForItsEnd) {
  const RankTimeline path = path_of_told({{0, 1000}, {3000, 9000, 2, true, true, 0, 4000}, {11000, 12000}});
  EXPECT_EQ(work_us(path), (std::vector<Nanoseconds>{no_time, 2000, 6000}));
}

TEST(RankTimeline, StandingStillIsNoWorkThoughTheOthersWentOn) {
  // The second ends late on this rank alone: compute of the others is not there yet, its own stops after 1 ms.
  const RankTimeline path = path_of_told({{0, 1000}, {2000, 5000, 2, true, false, 0, 1000}, {6000, 7000}});
  EXPECT_EQ(work_us(path), (std::vector<Nanoseconds>{no_time, 1000, 2000}));
}

/// The excess over what is usual, which is given for the work of each arrival.
RankTimeline with_usual(RankTimeline path, const std::vector<Nanoseconds>& usual_work) {
  for (std::size_t i = 0; i < usual_work.size(); ++i) take_usual(path, i, {usual_work[i], 0, 0});
  finish_excess(path);
  return path;
}

TEST(RankTimeline, TwoThatEnterAtOneMomentHaveOneWork) {
  // A peer may enter them in the other order: each is compared for itself, and the sum holds the work once.
  const RankTimeline path = with_usual(
      path_of({arrival_ms(0, 1, 1), arrival_ms(5, 6, 2, false), arrival_ms(5.01, 6, 5, false), arrival_ms(8, 9, 1)}),
      {no_time, 3'000'000, 3'000'000, 2'000'000});
  EXPECT_EQ(path.arrivals[1].work_ns, 4'000'000);
  EXPECT_EQ(path.arrivals[2].work_ns, 4'010'000);
  EXPECT_EQ(before_each(path, &Excess::work_ns), (std::vector<Nanoseconds>{0, 0, 0, 1'010'000, 2'000'000}));
}

TEST(RankTimeline, PeersThatWaitedElsewhereDoNotMakeARankLate) {
  // This rank went on computing during the first exchange (2 ms, then 3 ms of work); its peers had to wait in it.
  const RankTimeline path = with_usual(path_of({arrival_ms(0, 1, 1), arrival_ms(3, 4, 2, false), arrival_ms(6, 7, 1)}),
                                       {no_time, 2'000'000, 3'000'000});
  EXPECT_EQ(own_lateness_of(path, 2), 0);
  EXPECT_EQ(path.before.back().work_ns, 0);
}

TEST(RankTimeline, IsTiedToOthersByTheSameCommunicatorOrOneThatHoldsItsMembers) {
  const RankTimeline path =
      path_of({arrival(0, 10, 1), arrival(20, 30, 5), arrival(40, 50, 2), arrival(60, 70, 5), arrival(80, 90, 2)});
  EXPECT_EQ(path.arrivals[1].synchronised, 0);
  EXPECT_EQ(path.arrivals[2].synchronised, 0) << "one of equal size need not hold the same members";
  EXPECT_EQ(path.arrivals[3].synchronised, 1);
  EXPECT_EQ(path.arrivals[4].synchronised, 2);
}

TEST(RankTimeline, IsNotTiedToOthersByWhatItsOwnComputeRanBeside) {
  // The others have nothing left to do and wait in the second for this rank, whose own compute goes on: what it lacks
  // of their wait is no head start, and its lateness at the third goes back to the first.
  RankTimeline path = make_path(std::vector<Arrival>{arrival(0, 10, 1), arrival(20, 30, 1, false), arrival(40, 50, 1)},
                                communicators(), {}, 0);
  for (std::int32_t i = 0; i < 3; ++i) {
    RoutedOutcome routed;
    routed.outcome.matched = true;
    routed.index = i;
    routed.outcome.complete = true;
    take_outcome(path, routed);
  }
  measure(path, no_profiles(path));
  EXPECT_EQ(path.arrivals[2].synchronised, 0);
  for (const std::size_t i : {1, 2}) take_usual(path, i, {4, 6, 0});
  finish_excess(path);
  EXPECT_EQ(before_each(path, &Excess::waiting_ns), (std::vector<Nanoseconds>{0, 0, 0, -6}));
}

/// Steps of two operations on communicator `c` and one on `d`, in either order.
std::vector<Arrival> steps_of(std::uint64_t c, std::uint64_t d, bool other_order, int steps) {
  std::vector<Arrival> arrivals;
  for (int s = 0; s < steps; ++s) {
    const Nanoseconds t = 1000 * s;
    arrivals.push_back(arrival(t, t + 10, c));
    arrivals.push_back(arrival(t + 100, t + 110, other_order ? d : c));
    arrivals.push_back(arrival(t + 200, t + 210, other_order ? c : d));
  }
  return arrivals;
}

std::uint64_t role(const std::vector<Arrival>& arrivals, std::int32_t size_of_two = 4) {
  return path_of(arrivals, {StepSource::nvtx, {0, 1000, 2000, 3000}, 4000}, size_of_two).role;
}

TEST(RankTimeline, IsNotTiedToOthersByWhatTheyLeftBeforeItCame) {
  // 6 ms too much before a broadcast that the others have left by then: it is late by them at the all-reduce behind it.
  RankTimeline path = make_path(std::vector<Arrival>{arrival_ms(0, 1, 1), arrival_ms(9, 10, 1), arrival_ms(12, 14, 1)},
                                communicators(), {}, 0);
  for (const bool left_behind : {false, true}) {
    for (std::int32_t i = 0; i < 3; ++i) {
      RoutedOutcome routed;
      routed.outcome.matched = true;
      routed.index = i;
      routed.outcome.complete = true;
      routed.outcome.tied = !(left_behind && i == 1);
      take_outcome(path, routed);
    }
    measure(path, no_profiles(path));
    path = with_usual(path, {no_time, 2'000'000, 2'000'000});
    EXPECT_EQ(own_lateness_of(path, 1), 6'000'000);
    EXPECT_EQ(path.arrivals[2].synchronised, left_behind ? 0 : 1);
    EXPECT_EQ(own_lateness_of(path, 2), left_behind ? 6'000'000 : 0);
  }
}

TEST(RankTimeline, IsAsLateForOthersAsForThoseItMetFirst) {
  // 6 ms too much before an exchange with half of the others, who wait. The other half have not met this rank since the
  // first collective: for them it is as late, though it has waited for nobody in between.
  RankTimeline path = path_of({arrival_ms(0, 1, 1), arrival_ms(9, 10, 2), arrival_ms(12, 14, 5)});
  path = with_usual(std::move(path), {no_time, 2'000'000, 2'000'000});
  EXPECT_EQ(own_lateness_of(path, 1), 6'000'000);
  EXPECT_EQ(own_lateness_of(path, 2), 6'000'000);
  EXPECT_EQ(delay_of(path, 2).inherited_ns, 0);
}

/// Steps of two operations by the rank's own count, from 0.
RankTimeline counted_path(const std::vector<std::int32_t>& told, const CountedSteps& counted) {
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < told.size(); ++i) {
    const auto enter = static_cast<Nanoseconds>(50 * i);
    arrivals.push_back(arrival(enter, enter + 5, 1));
  }
  std::vector<Nanoseconds> starts;
  for (std::size_t step = 0; step < counted.own; ++step) starts.push_back(static_cast<Nanoseconds>(100 * step));
  RankTimeline path = make_path(arrivals, communicators(), {StepSource::periodicity, starts, 10'000}, 0);
  for (std::size_t i = 0; i < told.size(); ++i) {
    path.outcomes[i].matched = told[i] >= 0;
    path.outcomes[i].step = told[i];
  }
  count_by_job(path, counted);
  measure(path, no_profiles(path));
  return path;
}

std::vector<std::int32_t> counts_of(const RankTimeline& path) {
  std::vector<std::int32_t> steps;
  for (const PathArrival& arrival : path.arrivals) steps.push_back(arrival.step);
  return steps;
}

TEST(RankTimeline, ItsStepsAreThoseThatItsInstancesAreIn) {
  const RankTimeline path = counted_path({4, 4, 5, 5, 6, 6}, {3, 4});
  EXPECT_EQ(counts_of(path), (std::vector<std::int32_t>{4, 4, 5, 5, 6, 6}));
  EXPECT_EQ(path.job_steps, (std::vector<std::int32_t>{4, 5, 6}));
  EXPECT_EQ(path.arrivals[3].occurrence, 1);
  EXPECT_EQ(path.arrivals[3].occurrences, 2);
}

TEST(RankTimeline, WhatNoInstanceTellsLiesBetweenThoseThatDo) {
  EXPECT_EQ(counts_of(counted_path({-1, 4, -1, 5, 6, -1}, {3, 4})), (std::vector<std::int32_t>{4, 4, 5, 5, 6, 6}));
  // The beginning of the rank's second step was not recorded, so its own count is one short from there on.
  EXPECT_EQ(counts_of(counted_path({0, 0, 1, 1, 2, -1}, {1, 0})), (std::vector<std::int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(counts_of(counted_path({-1, -1, -1}, {2, 7})), (std::vector<std::int32_t>{7, 7, 8}));
  EXPECT_EQ(counts_of(counted_path({-1, -1, -1}, {2, not_counted})), (std::vector<std::int32_t>{-1, -1, -1}));
}

TEST(RankTimeline, StepsOfInstancesNeedNotAscend) {
  // One of the next step entered before the last of this one.
  const RankTimeline path = counted_path({0, 1, 0, 1, 2, 2}, {3, 0});
  EXPECT_EQ(path.by_step, (std::vector<std::uint32_t>{0, 2, 1, 3, 4, 5}));
  EXPECT_EQ(path.arrivals[2].occurrence, 1);
  EXPECT_EQ(path.arrivals[3].occurrence, 1);
  EXPECT_EQ(path.arrivals[3].occurrences, 2);
}

TEST(RankTimeline, RoleIsWhatAStepConsistsOf) {
  const std::uint64_t usual = role(steps_of(1, 2, false, 4));
  EXPECT_EQ(role(steps_of(11, 12, false, 4)), usual) << "whatever the communicators are called";
  EXPECT_EQ(role(steps_of(1, 2, true, 4)), usual) << "communicators may overtake each other";
  EXPECT_NE(role(steps_of(1, 2, false, 4), 5), usual) << "other sizes, other role";
  std::vector<Arrival> uneven = steps_of(1, 2, false, 4);
  for (Arrival& exchange : uneven) exchange.call_bytes = 64;
  EXPECT_NE(role(uneven), usual);
  for (Arrival& exchange : uneven) exchange.peer_or_root = several_peers;
  const std::uint64_t of_exchanges = role(uneven);
  for (Arrival& exchange : uneven) exchange.call_bytes *= 3;
  EXPECT_EQ(role(uneven), of_exchanges) << "an expert gets as many tokens as it gets";
  std::vector<Arrival> ragged = steps_of(1, 2, false, 4);
  ragged.erase(ragged.begin());
  EXPECT_EQ(role(ragged), usual) << "captured from within the first step on";
}

WorkSample sample(Nanoseconds work, std::uint64_t place = 0) {
  WorkSample s;
  s.place = place;
  s.work_ns = work;
  s.wait_ns = 1000 - work;
  return s;
}

TEST(UsualWork, IsTheMedianOfPeersAtOnePlace) {
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
  std::vector<RankTimeline> paths;
  for (const Nanoseconds work : {120, 125})
    paths.push_back(path_of({arrival(0, 10, 1), arrival(10 + work, 200, 1)}, {StepSource::nvtx, {0}, 1000}));
  paths[0].arrivals[1].surplus_ns = 30;
  paths[1].arrivals[1].surplus_ns = 31;
  set_excess(paths);
  EXPECT_EQ(paths[0].arrivals[1].excess_work_ns, 30) << "over the lower of 90 and 94";
  EXPECT_EQ(paths[1].arrivals[1].excess_work_ns, 35);
}

TEST(WorkSample, PeersMeetAtOnePlaceInOneStep) {
  const auto places_of = [](const RankTimeline& path) {
    std::vector<std::uint64_t> places;
    for (std::size_t i = 0; i < path.arrivals.size(); ++i) places.push_back(work_sample(path, i).value().place);
    return places;
  };
  // Two steps of two operations of one kind, the third of three.
  std::vector<Arrival> arrivals;
  for (const Nanoseconds enter : {10, 20, 110, 120, 210, 220, 230}) arrivals.push_back(arrival(enter, enter + 1, 1));
  const Steps steps{StepSource::nvtx, {0, 100, 200}, 300};
  RankTimeline path = path_of(arrivals, steps);
  const std::vector<std::uint64_t> places = places_of(path);
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), 7U);
  for (Arrival& later : arrivals) ++later.exit_ns;
  EXPECT_EQ(places_of(path_of(arrivals, steps)), places) << "whatever it took";
  path.role += 1;
  for (std::size_t i = 0; i < places.size(); ++i) EXPECT_NE(places_of(path)[i], places[i]);
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
    std::vector<Arrival> arrivals{arrival_ms(1, 2, 1), arrival_ms(first, 5, 1, false), arrival_ms(second, 6, 5, false),
                                  arrival_ms(first + 5, 10, 1)};
    for (Arrival& one : arrivals) one.trace_rank = rank;
    RankTimeline path = make_path(arrivals, communicators(), {StepSource::nvtx, {0}, 20'000'000}, 0);
    for (const std::int32_t i : {0, 1, 3}) {
      RoutedOutcome routed;
      routed.outcome.matched = true;
      routed.index = i;
      routed.outcome.blocking = arrivals[static_cast<std::size_t>(i)].blocking ? 1 : 0;
      routed.outcome.complete = true;
      take_outcome(path, routed);
    }
    measure(path, no_profiles(path));
    return path;
  };
  std::vector<RankTimeline> paths{rank_of(0, 3.5, 5.001), rank_of(1, 3.5, 5.001), rank_of(2, 4.5, 5.001)};
  set_excess(paths);
  const Nanoseconds ms = 1'000'000;
  EXPECT_EQ(paths[2].arrivals[1].excess_work_ns, ms);
  EXPECT_EQ(paths[2].arrivals[2].excess_work_ns, -ms);
  EXPECT_EQ(paths[2].arrivals[3].excess_work_ns, ms);
  EXPECT_EQ(paths[2].before.back().work_ns, ms) << "what it was late by in the first, once";
  EXPECT_EQ(paths[0].before.back().work_ns, 0);
}

TEST(Excess, OfARankWithoutPeersIsAgainstItsOtherSteps) {
  std::vector<Arrival> arrivals;
  for (int s = 0; s < 6; ++s) {
    const Nanoseconds late = s == 4 ? 70 : 0;
    arrivals.push_back(arrival(1000 * s, 1000 * s + 10, 1));
    arrivals.push_back(arrival(1000 * s + 100 + late, 1000 * s + 200, 1));
  }
  RankTimeline path = path_of(arrivals, {StepSource::nvtx, {0, 1000, 2000, 3000, 4000, 5000}, 6000});
  set_excess(path, {});
  EXPECT_EQ(path.arrivals[9].excess_work_ns, 70);
  EXPECT_EQ(path.arrivals[7].excess_work_ns, 0);
  EXPECT_EQ(path.before.back().work_ns, 70);
}

TEST(RankTimeline, WhoseLaunchWasLostIsAsLargeAsWhatLiesAtItsPlaceInOtherSteps) {
  // Steps of an operation of 100 bytes and two of 200.
  std::vector<Arrival> arrivals;
  for (int step = 0; step < 3; ++step) {
    for (int place = 0; place < 3; ++place) {
      arrivals.push_back(arrival(100 * step + 10 * place, 100 * step + 10 * place + 5, 1));
      arrivals.back().call_bytes = place == 0 ? 100 : 200;
    }
  }
  const Steps steps{StepSource::nvtx, {0, 100, 200}, 300};
  const RankTimeline whole = path_of(arrivals, steps);
  arrivals[4].call_bytes = -1;
  const RankTimeline one_lost = path_of(arrivals, steps);
  EXPECT_EQ(one_lost.arrivals[4].symbol, whole.arrivals[4].symbol);
  EXPECT_EQ(place_in_step(one_lost.arrivals[5]), place_in_step(whole.arrivals[5]));
  // Other steps disagree: nothing tells.
  arrivals[1].call_bytes = 300;
  EXPECT_NE(path_of(arrivals, steps).arrivals[4].symbol, whole.arrivals[4].symbol);
}

TEST(Excess, WhoHasNoPeersIsNotComparedWithItselfWhereRecordsWereLost) {
  // Ten steps of three all-reduces after 10, 50 and 90 of work. In four of them one was lost, each time another: what
  // is the first or the second of two there has any of these before it, or what was before the lost one, too.
  std::vector<Arrival> arrivals;
  const auto is_lost = [](int step, int place) { return step >= 3 && step < 7 && place == step % 3; };
  for (int step = 0; step < 10; ++step) {
    const std::vector<Nanoseconds> enters{10, 61, 152};
    for (int place = 0; place < 3; ++place) {
      const Nanoseconds enter = 1'000'000 * (200 * step + enters[static_cast<std::size_t>(place)]);
      if (!is_lost(step, place)) arrivals.push_back(arrival(enter, enter + 1'000'000, 1));
    }
  }
  std::vector<Nanoseconds> starts;
  for (int step = 0; step < 10; ++step) starts.push_back(Nanoseconds{200'000'000} * step);
  RankTimeline path = path_of(arrivals, {StepSource::nvtx, starts, 2'000'000'000});
  finish_excess(path);
  for (const PathArrival& one : path.arrivals) {
    EXPECT_EQ(one.compared, one.occurrences == 3 && !one.since_step && one.work_ns != no_time) << one.step;
    EXPECT_FALSE(one.has_peers) << "other steps are none";
    EXPECT_EQ(one.step < 3 ? one.excess_work_ns : 0, 0) << one.step;
  }
}

TEST(Excess, NobodyIsLateForARecordThatWasLost) {
  // Four steps of four all-reduces, after 10, 20, 30 and 40 of work. The second rank's trace lost the second one of
  // step 2: what was its third looks like the second, after 51 instead of 20.
  std::vector<RankTimeline> paths;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<Arrival> arrivals;
    for (int step = 0; step < 4; ++step)
      for (const Nanoseconds enter : {10, 31, 62, 103})
        if (rank != 1 || step != 2 || enter != 31)
          arrivals.push_back(arrival(200 * step + enter, 200 * step + enter + 1, 1));
    paths.push_back(path_of(arrivals, {StepSource::nvtx, {0, 200, 400, 600}, 800}));
    paths.back().trace_rank = rank;
  }
  set_excess(paths);
  for (const RankTimeline& path : paths)
    for (const PathArrival& one : path.arrivals) EXPECT_EQ(one.excess_work_ns, 0) << path.trace_rank;
  EXPECT_TRUE(paths[1].arrivals[7].compared && paths[1].arrivals[7].has_peers) << "step 1";
  EXPECT_FALSE(paths[1].arrivals[9].compared) << "step 2: where it lies is not known";
  EXPECT_TRUE(paths[0].arrivals[9].compared) << "the others' still have each other";
  EXPECT_TRUE(paths[1].arrivals[11].compared) << "step 3";
}

TEST(Excess, OfARankWithoutPeersHoldsWhatItsKernelsTakeLongerThanElsewhere) {
  std::vector<Arrival> arrivals;
  for (int s = 0; s < 6; ++s) {
    arrivals.push_back(arrival_ms(100 * s, 100 * s + 1, 1));
    arrivals.push_back(arrival_ms(100 * s + 31, 100 * s + 32, 1));
  }
  const Nanoseconds ms = 1'000'000;
  RankTimeline path =
      path_of(arrivals, {StepSource::nvtx, {0, 100 * ms, 200 * ms, 300 * ms, 400 * ms, 500 * ms}, 600 * ms});
  for (std::size_t i = 1; i < arrivals.size(); i += 2) path.arrivals[i].surplus_ns = 5 * ms;
  RankTimeline compared = path;
  set_excess(path, {});
  EXPECT_EQ(path.arrivals[7].excess_work_ns, 5 * ms) << "30 ms like every time, 5 of them too many";
  EXPECT_EQ(path.before.back().work_ns, 6 * 5 * ms);
  EXPECT_EQ(path.arrivals[7].excess_wait_ns, 0) << "it was the last";
  set_excess(compared, {28 * ms, 0, 0});
  EXPECT_EQ(compared.arrivals[7].excess_work_ns, 2 * ms) << "peers know better";
}

TEST(Excess, OfTransfersCountsOnSlowLinksOnlyUntilTheRankMeetsTheOthersAgain) {
  // Everybody, then twice half of them over a slow link, everybody, half of them. No work differs, nobody waits.
  std::vector<Arrival> arrivals{arrival_ms(0, 1, 1), arrival_ms(3, 7, 2), arrival_ms(9, 14, 2), arrival_ms(16, 17, 1),
                                arrival_ms(19, 23, 2)};
  RankTimeline path = path_of(arrivals);
  for (const std::size_t i : {1, 2, 4}) path.outcomes[i].slow_link = true;
  const Nanoseconds ms = 1'000'000;
  for (std::size_t i = 1; i < 5; ++i) take_usual(path, i, {2 * ms, 0, ms / 2});
  finish_excess(path);
  EXPECT_EQ(path.excess_transfers_ns[1], 3'500'000);
  EXPECT_EQ(path.excess_transfers_ns[3], 0) << "its link is not known to be slow: ends differ by chance";
  EXPECT_EQ(path.transfers_before_ns, (std::vector<Nanoseconds>{0, 0, 3'500'000, 8'000'000, 8'000'000, 11'500'000}));
  EXPECT_EQ(own_lateness_of(path, 2), 0) << "who shares the slow transfer does not wait for it again";
  EXPECT_EQ(own_lateness_of(path, 3), 8'000'000);
  EXPECT_EQ(own_lateness_of(path, 4), 0);
}

TEST(Blocking, ComputeThatGoesOnDoesNotWait) {
  Trace trace;
  ProcessTrace process;
  DeviceTrace device;
  for (const Nanoseconds start : {0, 110'000, 330'000}) {
    device.kernels.push_back({start, start + 100'000, 0, 0});
  }
  const LaunchIndex launches(process.api_calls);
  std::vector<Arrival> arrivals{arrival(50'000, 180'000, 1), arrival(150'000, 320'000, 1),
                                arrival(215'000, 216'000, 1)};
  mark_blocking({trace, process, device, launches, {false}}, arrivals);
  EXPECT_FALSE(arrivals[0].blocking) << "compute ran for 50 of the last 50 us";
  EXPECT_TRUE(arrivals[1].blocking) << "it had waited since 210 us";
  EXPECT_TRUE(arrivals[2].blocking) << "a short one in a gap";
}

TEST(RankTimeline, WithoutMessageSizesARoleDoesNotRestOnInferredCommunicators) {
  std::vector<Arrival> arrivals = steps_of(1, 2, false, 4), more = arrivals;
  more.push_back(arrival(3500, 3510, 2));
  for (Arrival& a : arrivals) a.call_bytes = -1;
  for (Arrival& a : more) a.call_bytes = -1;
  EXPECT_EQ(role(arrivals, 5), role(arrivals)) << "their sizes may be wrong";
  EXPECT_EQ(role(more), role(arrivals)) << "what a lane carries in most steps";
  std::vector<Arrival> one_lane = arrivals;
  for (Arrival& a : one_lane) a.communicator = 1;
  EXPECT_NE(role(one_lane), role(arrivals));
}

TEST(RankTimeline, WithoutMessageSizesTheKernelsTellRolesApart) {
  std::vector<Arrival> arrivals{arrival(0, 10, 1), arrival(20, 30, 2), arrival(40, 50, 1)};
  EXPECT_EQ(path_of(arrivals, {}, 4, 17).role, path_of(arrivals, {}, 4, 18).role) << "sizes are known";
  for (Arrival& a : arrivals) a.call_bytes = -1;
  EXPECT_EQ(path_of(arrivals, {}, 4, 17).role, path_of(arrivals, {}, 4, 17).role);
  EXPECT_NE(path_of(arrivals, {}, 4, 17).role, path_of(arrivals, {}, 4, 18).role);
  arrivals.front().call_bytes = 8;
  EXPECT_NE(path_of(arrivals, {}, 4, 17).role, path_of(arrivals, {}, 4, 18).role) << "of one among many";
}

}  // namespace
}  // namespace nsys_explain::analysis
