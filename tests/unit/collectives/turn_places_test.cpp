#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/inference.hpp"
#include "collectives/turn_claims.hpp"
#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;
constexpr std::uint64_t place_of_neighbours = 5, place_of_opposite = 7;

/// Four lanes that do operations at one place, each of which took so long and 1'000 ns usually; `claim` says for which
/// members lane l claims its i-th one.
class Place {
 public:
  template <typename Claim>
  Place(std::size_t operations, Claim claim, Nanoseconds took_ns = 1'000) {
    lanes_.resize(4);
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      for (std::size_t i = 0; i < operations; ++i) {
        TurnOperation& operation = lanes_[l].operations[symbol].emplace_back();
        operation.operation = Operation::all_reduce;
        operation.place = place_of_neighbours;
        operation.exit_ns = took_ns;
        operation.usual_transfer_ns = 1'000;
        const LaneSet set = claim(l, i);
        if (!set.empty()) operation.claimed = &*sets_.insert(set).first;
      }
    }
    agree_by_place(lanes_);
  }

  LaneSet claimed(std::size_t l, std::size_t i) const {
    const LaneSet* set = lanes_[l].operations.at(symbol)[i].claimed;
    return set == nullptr ? LaneSet{} : *set;
  }

 private:
  std::vector<TurnLane> lanes_;
  std::set<LaneSet> sets_;
};

LaneSet neighbours_of(std::size_t l) {
  return l < 2 ? LaneSet{0, 1} : LaneSet{2, 3};
}
LaneSet opposite_of(std::size_t l) {
  return l % 2 == 0 ? LaneSet{0, 2} : LaneSet{1, 3};
}

TEST(TurnPlaces, WhatNearlyAllClaimHolds) {
  const Place place(20, [](std::size_t l, std::size_t i) {
    if (i == 7) return opposite_of(l);
    return i == 9 ? LaneSet{} : neighbours_of(l);
  });
  for (std::size_t l = 0; l < 4; ++l) {
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(place.claimed(l, i), neighbours_of(l)) << l << ' ' << i;
  }
}

TEST(TurnPlaces, WhatTookLongerIsNotFilledIn) {
  // Lane 0 did it alone for twice as long as usual, so that it was no operation of its size.
  const Place place(
      20, [](std::size_t l, std::size_t i) { return l == 0 && i == 9 ? LaneSet{} : neighbours_of(l); }, 2'000);
  EXPECT_EQ(place.claimed(0, 9), LaneSet{});
  EXPECT_EQ(place.claimed(0, 8), neighbours_of(0));
}

TEST(TurnPlaces, WhereFewAreClaimedTheRestIsNot) {
  const Place place(20, [](std::size_t l, std::size_t i) { return i < 10 ? neighbours_of(l) : LaneSet{}; });
  EXPECT_EQ(place.claimed(0, 3), neighbours_of(0));
  EXPECT_EQ(place.claimed(0, 15), LaneSet{});
}

TEST(TurnPlaces, ClaimsAtOddsAreTakenBack) {
  const Place place(20, [](std::size_t l, std::size_t i) { return i % 3 == 0 ? opposite_of(l) : neighbours_of(l); });
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(place.claimed(1, i), LaneSet{}) << i;
}

TEST(TurnPlaces, PartsAreNotAtOddsWithTheWhole) {
  const auto claim = [](std::size_t l, std::size_t i) { return i % 3 == 0 ? LaneSet{0, 1, 2, 3} : neighbours_of(l); };
  const Place place(20, claim);
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(place.claimed(2, i), claim(2, i)) << i;
}

/// Lanes 0 and 2, of four that reduce with their neighbours at one place, and with those opposite, which takes longer,
/// at another. They seem to have done the last one with each other as well.
struct LastReduction {
  std::uint64_t place_of_first = place_of_neighbours, place_of_second = place_of_neighbours;
  Nanoseconds took_ns = 90'000;
  bool is_neighbour_captured = false;
};

bool is_claimed(const LastReduction& last) {
  constexpr Nanoseconds neighbours_ns = 50'000, opposite_ns = 90'000, every_ns = 1'000'000;
  std::set<LaneSet> sets;
  std::vector<TurnLane> lanes(4);
  Nanoseconds exit_ns = 0;
  const auto add = [&](std::size_t l, std::uint64_t place, Nanoseconds took_ns, Nanoseconds usual_ns) {
    TurnOperation& operation = lanes[l].operations[symbol].emplace_back();
    operation.operation = Operation::reduce_scatter;
    operation.place = place;
    operation.enter_ns = exit_ns - took_ns;
    operation.exit_ns = exit_ns;
    operation.usual_transfer_ns = usual_ns;
    operation.claimed = &*sets.insert(usual_ns == opposite_ns ? opposite_of(l) : neighbours_of(l)).first;
    lanes[l].first_exit_ns = std::min(lanes[l].first_exit_ns, exit_ns);
    lanes[l].last_exit_ns = exit_ns;
  };
  for (int step = 0; step < 20; ++step) {
    exit_ns += every_ns;
    for (std::size_t l = 0; l < 4; ++l) add(l, place_of_neighbours, neighbours_ns, neighbours_ns);
    exit_ns += every_ns;
    for (std::size_t l = 0; l < 4; ++l) add(l, place_of_opposite, opposite_ns, opposite_ns);
  }
  exit_ns += every_ns;
  add(0, last.place_of_first, last.took_ns, opposite_ns);
  add(2, last.place_of_second, last.took_ns, opposite_ns);
  for (const std::size_t l : {0, 2}) lanes[l].neighbours = {l + 1};
  for (const std::size_t l : {1, 3}) {
    if (last.is_neighbour_captured) lanes[l].last_exit_ns = exit_ns;
  }
  agree_by_place(lanes);
  const auto is_last_claimed = [&](std::size_t l) { return lanes[l].operations.at(symbol).back().claimed != nullptr; };
  EXPECT_EQ(is_last_claimed(0), is_last_claimed(2));
  for (const TurnLane& lane : lanes) {
    for (std::size_t i = 0; i < 40; ++i) EXPECT_NE(lane.operations.at(symbol)[i].claimed, nullptr) << i;
  }
  return is_last_claimed(0);
}

TEST(TurnPlaces, WhatFewClaimForOthersAsIfItWereOfAnotherSizeIsTakenBack) {
  EXPECT_FALSE(is_claimed({}));
}

TEST(TurnPlaces, OfTwoPlacesOneMayBeMistaken) {
  EXPECT_TRUE(is_claimed({.place_of_second = place_of_opposite}));
  EXPECT_TRUE(is_claimed({.place_of_first = place_of_opposite}));
}

TEST(TurnPlaces, WhatCannotBeWhatThePlaceTellsIsNot) {
  EXPECT_TRUE(is_claimed({.took_ns = 30'000}));              // too short for neighbours
  EXPECT_TRUE(is_claimed({.is_neighbour_captured = true}));  // and it left nothing then
}

/// Two lanes that run a program whose step holds gathers twice in a row, one of which the second lane lost in one step.
/// Gathers of the first lane end so much later than those of the second.
class LostGather {
 public:
  static constexpr std::size_t step_length = 30, steps = 12, lossy_step = 6;
  static constexpr Nanoseconds took_ns = 50'000, every_ns = 100'000;

  /// `lost`: which of the two.
  LostGather(std::size_t lost, Nanoseconds later_ns) {
    std::vector<SampledOperation> operations;
    for (std::int32_t rank = 0; rank < 2; ++rank) {
      std::int32_t index = 0;
      for (std::size_t i = 0; i < steps * step_length; ++i) {
        if (rank == 1 && i == lossy_step * step_length + lost) continue;
        const std::size_t in_step = i % step_length;
        const Nanoseconds exit_ns = static_cast<Nanoseconds>(i) * every_ns + (rank == 0 ? later_ns : 0);
        operations.push_back({.enter_ns = exit_ns - took_ns - (rank == 0 ? later_ns : 0),
                              .exit_ns = exit_ns,
                              .symbol = in_step < 2 ? gather : other + in_step * in_step % 7,
                              .trace_rank = rank,
                              .session = 0,
                              .lane = 0,
                              .index = index++,
                              .operation = in_step < 2 ? Operation::all_gather : Operation::all_reduce,
                              .stream = 0});
      }
    }
    lanes_ = make_turn_lanes(operations, RoughClocks(operations, std::vector<SessionTie>{{.unit = 0}}, 0));
    place_by_others(lanes_);
  }

  /// Of a gather of a step, of those that were recorded.
  std::uint64_t place(std::size_t lane, std::size_t step, std::size_t which) const {
    const std::size_t lost = lane == 1 && step > lossy_step ? 1 : 0;
    return lanes_[lane].operations.at(gather)[2 * step + which - lost].place;
  }

 private:
  static constexpr std::uint64_t gather = 1, other = 2;
  std::vector<TurnLane> lanes_;
};

TEST(TurnPlaces, WhereARecordWasLostOthersTellThePlace) {
  for (const std::size_t lost : {0, 1}) {
    const LostGather job(lost, 0);
    EXPECT_NE(job.place(0, 3, 0), job.place(0, 3, 1));
    EXPECT_EQ(job.place(1, 3, 0), job.place(0, 3, 0));
    EXPECT_EQ(job.place(1, LostGather::lossy_step, 0), job.place(0, 3, 1 - lost)) << lost;
    EXPECT_EQ(job.place(1, LostGather::lossy_step + 1, 1), job.place(0, 3, 1)) << lost;
  }
}

TEST(TurnPlaces, OthersThatMayBeAheadDoNotTellThePlace) {
  EXPECT_EQ(LostGather(0, 45'000).place(1, LostGather::lossy_step, 0), 0);
}

/// Two lanes that claim their exchanges for each other; the last takes so long once both are there, until the first of
/// them leaves. Lane 1 always leaves late.
bool is_last_exchange_claimed(Nanoseconds took_ns) {
  constexpr Nanoseconds usual_ns = 60'000, late_ns = 20'000;
  const LaneSet both{0, 1};
  std::vector<TurnLane> lanes(2);
  for (std::size_t l = 0; l < 2; ++l) {
    lanes[l].neighbours = {1 - l};
    for (Nanoseconds i = 0; i < 20; ++i) {
      TurnOperation& operation = lanes[l].operations[symbol].emplace_back();
      operation.operation = Operation::all_to_all;
      operation.enter_ns = 1'000'000 * i;
      operation.exit_ns = operation.enter_ns + (i == 19 ? took_ns : usual_ns) + (l == 1 ? late_ns : 0);
      operation.usual_transfer_ns = usual_ns;
      operation.witnesses.set(0);
      operation.claimed = &both;
    }
  }
  withdraw_slow_exchanges(lanes);
  const bool is_claimed = lanes[0].operations.at(symbol).back().claimed != nullptr;
  EXPECT_EQ(is_claimed, lanes[1].operations.at(symbol).back().claimed != nullptr);
  return is_claimed;
}

TEST(TurnPlaces, ExchangesThatTookLongerThanTheirClassAreNoneOfIt) {
  EXPECT_TRUE(is_last_exchange_claimed(65'000));
  EXPECT_FALSE(is_last_exchange_claimed(90'000));
}

}  // namespace
}  // namespace nsys_explain::collectives
