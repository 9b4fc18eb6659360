#include "turn_sets.hpp"

namespace nsys_explain::collectives {

void add_nearest_neighbours(std::vector<TurnLane>& lanes) {
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (std::size_t distance = 1; distance < lanes.size() && lanes[l].neighbours.size() + 1 < most_neighbours;
         ++distance) {
      for (const std::size_t other : {l - distance, l + distance}) {  // below 0: wraps beyond the size
        if (other >= lanes.size() || lanes[other].component != lanes[l].component ||
            lanes[other].trace_rank == lanes[l].trace_rank)
          continue;
        lanes[l].neighbours.push_back(other);
      }
    }
  }
}

std::set<std::uint64_t> symbols_of(const std::vector<TurnLane>& lanes, Operation operation) {
  std::set<std::uint64_t> symbols;
  for (const TurnLane& lane : lanes) {
    for (const auto& [symbol, operations] : lane.operations) {
      if (operations.front().operation == operation) symbols.insert(symbol);
    }
  }
  return symbols;
}

Families families_of(const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  Families families;
  for (std::size_t l = 0; l < sets_of_lane.size(); ++l) {
    for (const LaneSet& set : sets_of_lane[l]) {
      SetOfLane& of_lane = families[{set.size(), set[1] - set[0]}];
      if (!of_lane.emplace(l, &set).second) of_lane[l] = nullptr;  // which of two is not known
    }
  }
  for (auto& [kind, family] : families) std::erase_if(family, [](const auto& e) { return !e.second; });
  return families;
}

}  // namespace nsys_explain::collectives
