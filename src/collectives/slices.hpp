#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/exit_agreement.hpp"

/// Communicators that cross others (data groups, the tensor groups of a host) are held in step by them: they enter and
/// leave at about one time, and what they do looks like operations of one large communicator. What tells them apart is
/// whom they wait for. Members of one communicator leave together, whoever of them entered last; each of several leaves
/// as much later than another as its own last member entered later.
namespace nsys_explain::collectives {

/// Positions of members, ascending.
using Members = std::vector<std::size_t>;

/// What members did of one kind of operation: operations[member], each by exit.
using MemberOperations = std::vector<std::vector<TimedOperation>>;

enum class Parting : std::uint8_t {
  one,      ///< one communicator
  slices,   ///< several, alike
  unknown,  ///< members that are held in step may be of one or of several
};

struct PartingResult {
  Parting parting = Parting::one;
  std::vector<Members> slices;  ///< if they are slices
};

/// Whether members of what looks like one communicator are. Members that are in another communicator together and enter
/// as close together as they leave may be here, too, only because that holds them in step: they make blocks. Slices
/// across blocks hold one member of each, in the order of the members, as programs lay out groups. Both explanations
/// are compared by their likelihoods, over the operations of all kinds in which every member of two slices was
/// recorded. Clocks of blocks may be off. `others`: what other communicators hold of the members.
PartingResult part_slices(std::span<const MemberOperations> kinds, std::span<const Members> others);

/// Whether members of two groups waited for each other: whether they left operations of one kind at once in which the
/// group that was there first took longer than usual, by what the other one came later, more often than chance and lost
/// records explain. Their clocks may be off by some microseconds.
bool wait_for_each_other(const MemberOperations& operations, const Members& first, const Members& second);

}  // namespace nsys_explain::collectives
