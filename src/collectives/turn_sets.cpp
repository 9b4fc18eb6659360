#include "collectives/turn_sets.hpp"

#include <algorithm>
#include <tuple>

#include "collectives/gather_assumptions.hpp"
#include "collectives/program_places.hpp"

namespace nsys_explain::collectives {
namespace {

/// Tensor groups are adjacent. `lanes` by trace rank.
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

/// The operations of a lane in the order of its program.
struct LaneProgram {
  std::vector<TurnOperation*> operations;
  std::vector<std::uint64_t> symbols;

  explicit LaneProgram(TurnLane& lane) {
    std::vector<std::pair<TurnOperation*, std::uint64_t>> steps;
    for (auto& [symbol, of_symbol] : lane.operations) {
      for (TurnOperation& operation : of_symbol) steps.emplace_back(&operation, symbol);
    }
    std::sort(steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.first->index < b.first->index; });
    for (const auto& [operation, symbol] : steps) {
      operations.push_back(operation);
      symbols.push_back(symbol);
    }
  }
};

/// Calls visit(its) for what a lane did that was under way together with another lane's operation for so long.
template <typename Visit>
void for_each_together(const std::vector<TurnOperation>& by_exit, const TurnOperation& operation,
                       Nanoseconds together_ns, Visit visit) {
  auto its = std::lower_bound(by_exit.begin(), by_exit.end(), operation.enter_ns + together_ns,
                              [](const TurnOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  for (; its != by_exit.end() && its->enter_ns + together_ns <= operation.exit_ns; ++its) {
    if (std::min(its->exit_ns, operation.exit_ns) - std::max(its->enter_ns, operation.enter_ns) >= together_ns)
      visit(*its);
  }
}

/// Where others were that did the like at the time, of the places where this lane ever is; 0 if they were at several,
/// or none left before it could have done the next one: those may be ahead and have waited for it. `together_ns`: what
/// operations take at least.
std::uint64_t place_of_others(const std::vector<TurnLane>& lanes, const TurnLane& lane, std::uint64_t symbol,
                              const TurnOperation& operation, const std::set<std::uint64_t>& places,
                              Nanoseconds together_ns) {
  std::set<std::uint64_t> of_others;
  bool leaves_with_one = false;
  for (const std::size_t other : lane.neighbours) {
    const auto found = lanes[other].operations.find(symbol);
    if (found == lanes[other].operations.end()) continue;
    for_each_together(found->second, operation, together_ns, [&](const TurnOperation& its) {
      if (!places.contains(its.place)) return;
      of_others.insert(its.place);
      leaves_with_one = leaves_with_one || std::abs(its.exit_ns - operation.exit_ns) < together_ns;
    });
    if (of_others.size() > 1) return 0;
  }
  return leaves_with_one ? *of_others.begin() : 0;
}

void place_operations(std::vector<TurnLane>& lanes) {
  std::vector<LaneProgram> programs;
  std::vector<std::vector<std::uint64_t>> sequences;
  for (TurnLane& lane : lanes) sequences.push_back(programs.emplace_back(lane).symbols);
  const std::vector<std::vector<std::uint64_t>> places = program_places(sequences);
  for (std::size_t l = 0; l < programs.size(); ++l) {
    for (std::size_t i = 0; i < programs[l].operations.size(); ++i) programs[l].operations[i]->place = places[l][i];
  }
}

}  // namespace

std::vector<TurnLane> make_turn_lanes(std::span<const SampledOperation> operations, const RoughClocks& clocks) {
  std::map<std::pair<std::int32_t, std::uint64_t>, TurnLane> by_key;
  for (const SampledOperation& operation : operations) {
    TurnLane& lane = by_key[{operation.trace_rank, operation.lane}];
    lane.trace_rank = operation.trace_rank;
    lane.component = clocks.component_of(operation.session);
    TurnOperation& added = lane.operations[operation.symbol].emplace_back();
    added.enter_ns = clocks.to_common(operation.session, operation.enter_ns);
    added.exit_ns = clocks.to_common(operation.session, operation.exit_ns);
    added.index = operation.index;
    added.operation = operation.operation;
    lane.first_exit_ns = std::min(lane.first_exit_ns, added.exit_ns);
    lane.last_exit_ns = std::max(lane.last_exit_ns, added.exit_ns);
  }
  std::vector<TurnLane> lanes;
  for (auto& [key, lane] : by_key) lanes.push_back(std::move(lane));
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    for (auto& [symbol, of_symbol] : lanes[l].operations) {
      std::sort(of_symbol.begin(), of_symbol.end(), [](const TurnOperation& a, const TurnOperation& b) {
        return std::tie(a.exit_ns, a.index) < std::tie(b.exit_ns, b.index);
      });
    }
  }
  add_nearest_neighbours(lanes);
  place_operations(lanes);
  return lanes;
}

void place_by_others(std::vector<TurnLane>& lanes) {
  std::vector<LaneProgram> programs;
  std::vector<std::vector<std::uint64_t>> sequences;
  for (TurnLane& lane : lanes) sequences.push_back(programs.emplace_back(lane).symbols);
  const auto possible = possible_places(sequences);
  std::map<std::uint64_t, Nanoseconds> together_ns;
  std::vector<std::pair<TurnOperation*, std::uint64_t>> placed;
  for (std::size_t l = 0; l < programs.size(); ++l) {
    std::map<std::uint64_t, std::set<std::uint64_t>> places;  // by symbol
    for (std::size_t i = 0; i < programs[l].operations.size(); ++i) {
      if (programs[l].operations[i]->place != 0)
        places[programs[l].symbols[i]].insert(programs[l].operations[i]->place);
    }
    for (std::size_t i = 0; i < programs[l].operations.size(); ++i) {
      TurnOperation* operation = programs[l].operations[i];
      if (possible[l][i].empty() || operation->claimed != nullptr) continue;
      const std::uint64_t symbol = programs[l].symbols[i];
      if (!together_ns.contains(symbol)) together_ns[symbol] = least_transfer(lanes, symbol);
      const std::uint64_t place =
          place_of_others(lanes, lanes[l], symbol, *operation, places[symbol], together_ns.at(symbol));
      if (std::binary_search(possible[l][i].begin(), possible[l][i].end(), place))
        placed.emplace_back(operation, place);
    }
  }
  for (const auto& [operation, place] : placed) {
    operation->place = place;
    operation->is_placed_by_others = true;
  }
}

Nanoseconds exit_tolerance(Operation operation) {
  switch (operation) {
    case Operation::reduce_scatter:
      return 6'000;
    case Operation::send_recv:
    case Operation::all_to_all:
      return 3'000;
    default:
      return 2'000;
  }
}

bool leaves_at_once(Operation operation) {
  return may_end_together(operation) && operation != Operation::all_gather;
}

Nanoseconds largest_habit(Operation operation) {
  return operation == Operation::send_recv || operation == Operation::all_to_all ? 30'000 : 0;
}

bool contains(const std::vector<LaneSet>& sets, const LaneSet& set) {
  return std::find(sets.begin(), sets.end(), set) != sets.end();
}

bool is_subset(const LaneSet& part, const LaneSet& whole) {
  return std::includes(whole.begin(), whole.end(), part.begin(), part.end());
}

std::size_t shared_members(const LaneSet& a, const LaneSet& b) {
  return static_cast<std::size_t>(
      std::count_if(a.begin(), a.end(), [&](std::size_t l) { return std::binary_search(b.begin(), b.end(), l); }));
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

Kind kind_of(const LaneSet& set) {
  return {set.size(), set[1] - set[0]};
}

bool is_evenly_spaced(const LaneSet& set) {
  for (std::size_t m = 2; m < set.size(); ++m) {
    if (set[m] - set[m - 1] != set[1] - set[0]) return false;
  }
  return true;
}

Families families_of(const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  Families families;
  for (std::size_t l = 0; l < sets_of_lane.size(); ++l) {
    for (const LaneSet& set : sets_of_lane[l]) {
      SetOfLane& of_lane = families[kind_of(set)];
      if (!of_lane.emplace(l, &set).second) of_lane[l] = nullptr;  // which of two is not known
    }
  }
  for (auto& [kind, family] : families) std::erase_if(family, [](const auto& e) { return !e.second; });
  return families;
}

bool are_parts(const SetOfLane& parts, const SetOfLane& wholes) {
  return std::all_of(wholes.begin(), wholes.end(), [&](const auto& entry) {
    const auto own = parts.find(entry.first);
    return own == parts.end() || is_subset(*own->second, *entry.second);
  });
}

Families held_by_many(const Families& families, const std::vector<TurnLane>& lanes, std::uint64_t symbol) {
  std::vector<std::size_t> doing;
  for (std::size_t l = 0; l < lanes.size(); ++l) {
    if (lanes[l].operations.contains(symbol)) doing.push_back(l);
  }
  Families held;
  for (const auto& [kind, family] : families) {
    const auto holding = std::count_if(doing.begin(), doing.end(),
                                       [&, &of_kind = family](std::size_t l) { return of_kind.contains(l); });
    if (2 * static_cast<std::size_t>(holding) >= doing.size()) held.emplace(kind, family);
  }
  return held;
}

}  // namespace nsys_explain::collectives
