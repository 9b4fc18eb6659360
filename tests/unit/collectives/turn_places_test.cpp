#include <cstddef>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;

/// Four lanes that do operations at one place; `claim` says for which members lane l claims its i-th one.
class Place {
 public:
  template <typename Claim>
  Place(std::size_t operations, Claim claim) {
    lanes_.resize(4);
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      for (std::size_t i = 0; i < operations; ++i) {
        TurnOperation& operation = lanes_[l].operations[symbol].emplace_back();
        operation.operation = Operation::all_reduce;
        operation.place = 5;
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

}  // namespace
}  // namespace nsys_explain::collectives
