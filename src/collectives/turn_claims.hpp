#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "collectives/turn_classes.hpp"
#include "collectives/turn_sets.hpp"

/// Gives operations of lanes to communicators that are known, by who leaves together with them.
namespace nsys_explain::collectives {

/// The classes of each lane and symbol.
using ClassesOfLanes = std::map<std::pair<std::size_t, std::uint64_t>, std::vector<OperationClass>>;

/// Exits that agree by chance spread evenly; those of members crowd within this part of the tolerance.
inline constexpr double crowded_part = 0.4;

/// How much later exits of this symbol come on the other lane: where most differences crowd.
Nanoseconds usual_habit(const std::vector<TurnOperation>& own, const std::vector<TurnOperation>& others);

enum class Meeting : std::uint8_t { no, yes, unknown };

/// Whether most members leave together with an operation of a lane; unknown where none was captured at the time.
Meeting meeting(const std::vector<TurnLane>& lanes, std::size_t l, const TurnOperation& operation, const LaneSet& set,
                Witnesses TurnOperation::*witnesses = &TurnOperation::witnesses);

/// Whether an operation took about as long once all of a set were there as by those that left with it, or as its class
/// usually does, if it is of one. Some other lane that left at that time by chance, and entered late, may have put it
/// into a class of shorter ones.
bool takes_as_long(const std::vector<TurnLane>& lanes, std::size_t l, std::uint64_t symbol,
                   const TurnOperation& operation, const LaneSet& set);

/// Claims operations for the communicators that they meet, as far as it is clear which, and others at the time agree.
/// Claims point into `sets_of_lane`. `symbols_of_set`: of the operations in which sets were found.
void claim_met(std::vector<TurnLane>& lanes, const ClassesOfLanes& classes,
               const std::vector<std::vector<LaneSet>>& sets_of_lane,
               const std::map<LaneSet, std::set<std::uint64_t>>& symbols_of_set);

/// Takes claims of exchanges back that, done with those members, would have taken much longer than half of theirs or
/// any of their classes do: lanes in step leave exchanges with others together, and seem to have taken as long as they
/// waited. Last of all, since until then such claims show that what lanes meet at a place is in doubt.
void withdraw_slow_exchanges(std::vector<TurnLane>& lanes);

}  // namespace nsys_explain::collectives
