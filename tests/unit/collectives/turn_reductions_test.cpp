#include <algorithm>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "collectives/turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::uint64_t symbol = 1;
constexpr Nanoseconds transfer_ns = 20'000;

const LaneSet tensor[] = {{0, 1}, {2, 3}}, data[] = {{0, 2}, {1, 3}}, world[] = {{0, 1, 2, 3}};

std::vector<std::vector<LaneSet>> sets_of_lanes() {
  std::vector<std::vector<LaneSet>> sets(4);
  for (std::size_t l = 0; l < 4; ++l) sets[l] = {tensor[l / 2], data[l % 2], world[0]};
  return sets;
}

class Reductions {
 public:
  explicit Reductions(unsigned seed) : random_(seed), lanes_(4) {}

  /// From now on a lane comes so much later than others.
  void delay(std::size_t lane, Nanoseconds by_ns) { late_ns_[lane] = by_ns; }

  /// Lanes enter within `apart_ns`. All send and leave, but for the first of each of these sets, which leaves when what
  /// the last of its set sends has come.
  void add(std::size_t count, Nanoseconds apart_ns, std::span<const LaneSet> sets, Nanoseconds takes_ns = transfer_ns) {
    for (std::size_t i = 0; i < count; ++i, time_ns_ += 1'000'000) {
      Nanoseconds enters[4];
      for (std::size_t l = 0; l < 4; ++l) enters[l] = time_ns_ + late_ns_[l] + below(apart_ns);
      for (std::size_t l = 0; l < 4; ++l) {
        TurnOperation& operation = lanes_[l].operations[symbol].emplace_back();
        operation.operation = Operation::reduce;
        operation.enter_ns = operation.exit_ns = enters[l];
        for (const LaneSet& set : sets) {
          if (set.front() != l) continue;
          for (const std::size_t member : set) operation.exit_ns = std::max(operation.exit_ns, enters[member]);
        }
        operation.exit_ns += takes_ns + below(500);
      }
    }
  }

  void lose(std::size_t lane, std::size_t position) {
    auto& operations = lanes_[lane].operations[symbol];
    operations.erase(operations.begin() + static_cast<std::ptrdiff_t>(position));
  }

  /// The communicators that reductions of lane 1 are claimed for; {}: none.
  std::set<LaneSet> claimed() {
    const auto sets = sets_of_lanes();
    claim_reductions(lanes_, sets);
    std::set<LaneSet> found;
    for (const TurnOperation& operation : lanes_[1].operations[symbol])
      found.insert(operation.claimed == nullptr ? LaneSet{} : *operation.claimed);
    return found;
  }

 private:
  Nanoseconds below(Nanoseconds end) { return static_cast<Nanoseconds>(random_() % static_cast<unsigned>(end)); }

  std::mt19937 random_;
  std::vector<TurnLane> lanes_;
  Nanoseconds time_ns_ = 0;
  Nanoseconds late_ns_[4] = {};
};

template <std::size_t N>
void expect_told(const LaneSet (&sets)[N], const LaneSet& of_lane_1) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.add(40, 4'000, sets);
    EXPECT_EQ(reductions.claimed(), (std::set<LaneSet>{of_lane_1})) << seed;
  }
}

TEST(TurnReductions, ForWhomRootsWaitTells) {
  expect_told(world, world[0]);
  expect_told(data, data[1]);
  expect_told(tensor, tensor[0]);
}

TEST(TurnReductions, LostRecordsAreMadeUpFor) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.add(60, 4'000, world);
    for (const std::size_t lane : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) reductions.lose(lane, 7 + 9 * lane);
    EXPECT_EQ(reductions.claimed(), (std::set<LaneSet>{world[0]})) << seed;
  }
}

TEST(TurnReductions, OfCommunicatorsThatContainEachOtherTheSmallestIsClaimed) {
  // Who always comes last is a member of both.
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.delay(1, 40'000);
    reductions.add(12, 4'000, std::vector<LaneSet>{world[0], {2, 3}});
    EXPECT_EQ(reductions.claimed(), (std::set<LaneSet>{tensor[0]})) << seed;
  }
}

TEST(TurnReductions, AFewOfOneRootTellItsCommunicator) {
  // In pairs, roots at the same position would have waited as well.
  std::size_t told = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.add(12, 4'000, world);
    const std::set<LaneSet> claimed = reductions.claimed();
    for (const LaneSet& set : claimed) EXPECT_TRUE(set.empty() || set == world[0]) << seed;
    told += claimed.contains(world[0]) ? 1 : 0;
  }
  EXPECT_GE(told, 38);
}

TEST(TurnReductions, WhereMembersAreInStepNothingIsClaimed) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.add(40, 200, world);
    EXPECT_EQ(reductions.claimed(), (std::set<LaneSet>{{}})) << seed;
  }
}

TEST(TurnReductions, AFewAreNotClaimedForOthers) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    Reductions reductions(seed);
    reductions.add(3, 4'000, data);
    for (const LaneSet& set : reductions.claimed()) EXPECT_TRUE(set.empty() || set == data[1]) << seed;
  }
}

TEST(TurnReductions, OfSeveralCommunicatorsNoneIsMistaken) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Reductions reductions(seed);
    reductions.add(40, 4'000, data);
    reductions.add(40, 4'000, tensor, 3 * transfer_ns);
    EXPECT_EQ(reductions.claimed(), (std::set<LaneSet>{{}})) << seed;
  }
}

}  // namespace
}  // namespace nsys_explain::collectives
