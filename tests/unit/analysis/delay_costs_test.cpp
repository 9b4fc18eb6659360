#include "analysis/waits/delay_costs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace nsys_explain::analysis {
namespace {

TEST(ShareOut, LargestRemaindersGetTheRest) {
  // 10 by 1 : 1 : 1 is 3.33 each: the first gets the one left over.
  EXPECT_EQ(share_out(10, std::vector<Nanoseconds>{1, 1, 1}), (std::vector<Nanoseconds>{4, 3, 3}));
  // 7 by 5 : 2 : 1 is 4.375, 1.75, 0.875.
  EXPECT_EQ(share_out(7, std::vector<Nanoseconds>{5, 2, 1}), (std::vector<Nanoseconds>{4, 2, 1}));
  // Products beyond 64 bits.
  const Nanoseconds large = 4'000'000'000'000'000'000;
  EXPECT_EQ(share_out(large, std::vector<Nanoseconds>{large, large}), (std::vector<Nanoseconds>{large / 2, large / 2}));
}

TEST(OpenClaims, AreOfThoseWhoWaitedForTheLastOne) {
  // Rank 7 enters last, at 500, known to 10. Rank 2 waited 400 and rank 5 40; rank 3 waited 25, which the clocks cannot
  // tell from nothing, and rank 4 had left before.
  Instance instance;
  instance.comparable = true;
  instance.first_enter_ns = 100;
  instance.last_enter_ns = 500;
  instance.last_trace_rank = 7;
  instance.skew_uncertainty_ns = 10;
  const std::vector<InstanceArrival> members = {{.enter_ns = 100, .exit_ns = 600, .trace_rank = 2, .index = 10},
                                                {.enter_ns = 475, .exit_ns = 600, .trace_rank = 3, .index = 11},
                                                {.enter_ns = 100, .exit_ns = 460, .trace_rank = 4, .index = 12},
                                                {.enter_ns = 460, .exit_ns = 600, .trace_rank = 5, .index = 13},
                                                {.enter_ns = 500, .exit_ns = 600, .trace_rank = 7, .index = 14}};
  OpeningClaims opening{{Claim{}}, {Claim{}}};  // what it held before is gone
  open_claims(instance, members, opening);
  const auto shown = [](const std::vector<Claim>& claims) {
    std::map<std::int32_t, Nanoseconds> amounts;
    for (const Claim& claim : claims) {
      EXPECT_EQ(claim.trace_rank, 7);
      EXPECT_EQ(claim.index, 14);
      EXPECT_EQ(claim.lateness_ns, claim.amount_ns);
      amounts[claim.waiting] = claim.amount_ns;
    }
    return amounts;
  };
  EXPECT_EQ(shown(opening.claims), (std::map<std::int32_t, Nanoseconds>{{2, 400}, {5, 40}}));
  EXPECT_EQ(shown(opening.untold), (std::map<std::int32_t, Nanoseconds>{{3, 25}, {4, 360}}));
}

/// A little job: instances in order of time, every member blocking, on one communicator for each set of members.
struct Job {
  std::vector<Path> paths;
  std::vector<Nanoseconds> now;
  std::vector<Claim> opening;
  Nanoseconds wait_ns = 0;
  std::vector<Nanoseconds> wait_of_rank;

  explicit Job(std::size_t ranks) : paths(ranks), now(ranks, 0), wait_of_rank(ranks, 0) {
    for (std::size_t r = 0; r < ranks; ++r) paths[r].trace_rank = static_cast<std::int32_t>(r);
  }

  /// Each member works `work`, `excess` of it beyond its peers', then all meet; the exit is the latest enter.
  void meet(std::uint64_t communicator, const std::map<std::size_t, std::pair<Nanoseconds, Nanoseconds>>& members) {
    Nanoseconds latest = -1;
    std::size_t last = 0;
    for (const auto& [r, work] : members) {
      now[r] += work.first;
      if (now[r] <= latest) continue;
      latest = now[r];
      last = r;
    }
    const auto last_index = static_cast<std::int32_t>(paths[last].arrivals.size());
    for (const auto& [r, work] : members) {
      PathArrival arrival;
      arrival.enter_ns = now[r];
      arrival.exit_ns = latest;
      arrival.communicator = static_cast<std::uint32_t>(communicator);
      arrival.matched = true;
      arrival.excess_work_ns = work.second;
      arrival.excess_wait_ns = latest - now[r];  // nobody's peers wait
      Outcome outcome;
      outcome.wait_ns = latest - now[r];
      outcome.judged = now[r] < latest;
      if (now[r] < latest)
        opening.push_back({static_cast<std::int32_t>(last), last_index, latest - now[r], latest - now[r],
                           static_cast<std::int32_t>(r)});
      outcome.last_trace_rank = static_cast<std::int32_t>(last);
      outcome.last_index = last_index;
      wait_ns += latest - now[r];
      wait_of_rank[r] += latest - now[r];
      for (std::size_t i = 0; i < paths[r].arrivals.size(); ++i)
        if (paths[r].arrivals[i].communicator == communicator) arrival.synchronised = static_cast<std::int32_t>(i);
      paths[r].arrivals.push_back(arrival);
      paths[r].outcomes.push_back(outcome);
      paths[r].excess_transfers_ns.push_back(0);
    }
    for (const auto& [r, work] : members) now[r] = latest;
  }

  struct Costs {
    std::vector<Nanoseconds> of_rank;
    Nanoseconds unattributed = 0;
    std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> waits;  ///< by late rank (-1: none), waiting rank
  };

  Costs settle_all() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Claim>> open;
    Costs costs{std::vector<Nanoseconds>(paths.size(), 0), 0, {}};
    for (Path& path : paths) {
      path.before.assign(1, {});
      path.transfers_before_ns.assign(1, 0);
      for (std::size_t i = 0; i < path.arrivals.size(); ++i) {
        const PathArrival& arrival = path.arrivals[i];
        const Excess& before = path.before.back();
        path.before.push_back({before.work_ns + arrival.excess_work_ns, before.waiting_ns + arrival.excess_wait_ns});
        path.transfers_before_ns.push_back(path.transfers_before_ns.back() + path.excess_transfers_ns[i]);
      }
    }
    for (const Claim& claim : opening) open[{claim.trace_rank, claim.index}].push_back(claim);
    while (!open.empty()) {
      std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Claim>> next;
      for (const auto& [place, claims] : open) {
        const auto rank = static_cast<std::size_t>(place.first);
        const Delay delay = delay_of(paths[rank], place.second);
        std::vector<Waiting> explained, unexplained;
        for (const Claim& claim : claims) explain(delay, {&claim, 1}, explained, unexplained);
        EXPECT_TRUE(std::is_sorted(explained.begin(), explained.end(),
                                   [](const Waiting& a, const Waiting& b) { return a.waiting < b.waiting; }));
        Settlement settlement;
        settle(paths[rank], place.second, delay, explained, settlement);
        costs.of_rank[rank] += total(settlement.own);
        settlement.unattributed.insert(settlement.unattributed.end(), unexplained.begin(), unexplained.end());
        costs.unattributed += total(settlement.unattributed);
        for (const auto& [waiting, amount_ns] : settlement.own) costs.waits[{place.first, waiting}] += amount_ns;
        for (const auto& [waiting, amount_ns] : settlement.unattributed) costs.waits[{-1, waiting}] += amount_ns;
        for (const Claim& claim : settlement.onward) next[{claim.trace_rank, claim.index}].push_back(claim);
      }
      open = std::move(next);
    }
    return costs;
  }
};

using Waits = std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds>;

TEST(DelayCosts, WorkedExampleOfTheHeader) {
  Job job(4);
  job.meet(1, {{0, {100, 0}}, {1, {200, 100}}});
  job.meet(2, {{0, {50, 0}}, {2, {150, 0}}, {3, {150, 0}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank, (std::vector<Nanoseconds>{0, 300, 0, 0}));
  EXPECT_EQ(costs.unattributed, 0);
  EXPECT_EQ(costs.waits, (Waits{{{1, 0}, 100}, {{1, 2}, 100}, {{1, 3}, 100}}));
}

TEST(DelayCosts, OwnAndInheritedPartsShareInProportion) {
  // Rank 0 waited 60 for rank 1 and then worked 30 longer: rank 2 waits 90, 30 of it through rank 0 itself.
  Job job(3);
  job.meet(1, {{0, {100, 0}}, {1, {160, 60}}});
  job.meet(2, {{0, {80, 30}}, {2, {150, 0}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank, (std::vector<Nanoseconds>{30, 60 + 60, 0}));
  EXPECT_EQ(costs.waits, (Waits{{{0, 2}, 30}, {{1, 0}, 60}, {{1, 2}, 60}}));
}

TEST(DelayCosts, WhatIsHandedOnStillNamesWhoWaits) {
  // Rank 1 is 90 late to rank 0, and rank 2 another 30 to it: rank 0 then makes rank 3 wait 60 and rank 4 wait 120, all
  // of it inherited, three quarters from rank 1 and a quarter from rank 2.
  Job job(5);
  job.meet(1, {{0, {100, 0}}, {1, {190, 90}}});
  job.meet(2, {{0, {10, 0}}, {2, {230, 30}}});
  job.meet(3, {{0, {70, 0}}, {3, {240, 0}}, {4, {180, 0}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank, (std::vector<Nanoseconds>{0, 90 + 135, 30 + 45, 0, 0}));
  EXPECT_EQ(costs.waits, (Waits{{{1, 0}, 90}, {{1, 3}, 45}, {{1, 4}, 90}, {{2, 0}, 30}, {{2, 3}, 15}, {{2, 4}, 30}}));
}

TEST(DelayCosts, WorkThatOnlyShortenedAWaitMadeNobodyLate) {
  // Rank 0 worked 30 longer, and then waited 30 less than its peers for rank 1; what rank 2 waits for later is the
  // schedule.
  Job job(3);
  job.meet(1, {{0, {130, 30}}, {1, {200, 0}}});
  job.paths[0].arrivals[0].excess_wait_ns = -30;
  job.meet(2, {{0, {80, 0}}, {2, {150, 0}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank, (std::vector<Nanoseconds>{0, 0, 0}));
  EXPECT_EQ(costs.unattributed, 70 + 130);
}

TEST(DelayCosts, WaitingAfterHavingWorkedLessMadeNobodyLate) {
  // Rank 0 worked 60 less than its peers and waited 60 for rank 1, which is on time: so it is itself.
  Job job(3);
  job.meet(1, {{0, {40, -60}}, {1, {100, 0}}});
  job.meet(2, {{0, {80, 0}}, {2, {150, 0}}});
  EXPECT_EQ(job.settle_all().of_rank, (std::vector<Nanoseconds>{0, 0, 0}));
}

TEST(DelayCosts, StructureIsNobodysDelay) {
  // Rank 1 has more to do than rank 0, as all ranks of its role have.
  Job job(2);
  job.meet(1, {{0, {100, 0}}, {1, {900, 5}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank[1], 5);
  EXPECT_EQ(costs.unattributed, 795);
}

TEST(DelayCosts, SlowTransfersAreADelayOfTheirOwn) {
  // Ranks 0 and 1 meet over a slow link, 40 longer than others take; then rank 0 meets rank 2, which waits for it.
  Job job(3);
  job.meet(1, {{0, {100, 0}}, {1, {100, 0}}});
  job.paths[0].excess_transfers_ns[0] = 40;
  job.now[0] += 40;
  job.meet(2, {{0, {50, 0}}, {2, {150, 0}}});
  const auto costs = job.settle_all();
  EXPECT_EQ(costs.of_rank, (std::vector<Nanoseconds>{40, 0, 0}));
  EXPECT_EQ(costs.unattributed, 0);
}

TEST(DelayCosts, AttributedAndUnattributedAreAllWaitsToTheNanosecond) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    std::uniform_int_distribution<Nanoseconds> noise(-5000, 5000);
    Job job(8);
    for (int step = 0; step < 20; ++step) {
      const auto work = [&](std::size_t r) {
        const Nanoseconds excess = noise(random) + (r == seed % 8 ? 20'000 : 0);
        return std::pair(Nanoseconds{100'000} + excess, excess);
      };
      for (std::size_t r = 0; r < 8; r += 2) job.meet(10 + r, {{r, work(r)}, {r + 1, work(r + 1)}});
      for (std::size_t r = 0; r < 2; ++r)
        job.meet(20 + r, {{r, work(r)}, {r + 2, work(r + 2)}, {r + 4, work(r + 4)}, {r + 6, work(r + 6)}});
    }
    const auto costs = job.settle_all();
    Nanoseconds sum = costs.unattributed;
    for (const Nanoseconds cost : costs.of_rank) sum += cost;
    EXPECT_EQ(sum, job.wait_ns) << seed;
    std::vector<Nanoseconds> by_late(8, 0), by_waiting(8, 0);
    for (const auto& [pair, amount_ns] : costs.waits) {
      EXPECT_GT(amount_ns, 0) << seed;
      if (pair.first >= 0) by_late[static_cast<std::size_t>(pair.first)] += amount_ns;
      by_waiting[static_cast<std::size_t>(pair.second)] += amount_ns;
    }
    EXPECT_EQ(by_late, costs.of_rank) << seed;
    EXPECT_EQ(by_waiting, job.wait_of_rank) << seed;
    for (std::size_t r = 0; r < 8; ++r) {
      if (r == seed % 8) continue;
      EXPECT_LT(4 * costs.of_rank[r], costs.of_rank[seed % 8]) << seed;
    }
  }
}

}  // namespace
}  // namespace nsys_explain::analysis
