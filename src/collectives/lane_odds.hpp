#pragma once

#include <cstddef>
#include <span>

#include "collectives/lanes.hpp"

/// What shows that lanes that agree are not one communicator after all.
namespace nsys_explain::collectives {

/// Whether lanes of a group (numbers in `lanes`, ascending) do what they would not if they carried one communicator and
/// nothing else: operations of which others of the group know nothing, or that wait for somebody who is not of it, or
/// that its members leave in parts.
bool are_at_odds(std::span<const Lane> lanes, std::span<const std::size_t> group);

}  // namespace nsys_explain::collectives
