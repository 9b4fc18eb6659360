#include "turn_sets.hpp"

namespace nsys_explain::collectives {

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
