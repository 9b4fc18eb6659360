#pragma once

#include <cstddef>
#include <vector>

#include "collectives/turn_sets.hpp"

/// Operations of a lane that are alike, so that they may be asked together whom they meet.
namespace nsys_explain::collectives {

/// Fewer operations than this do not tell whom they meet.
inline constexpr std::size_t fewest_alike = 4;

/// Operations of one symbol and lane that take about equally long once all are there: what an export without sizes
/// tells of the size; or what lies between such classes, as where the record of the last to enter is lost.
struct OperationClass {
  std::vector<std::size_t> members;  ///< positions in the lane's operations of the symbol
  bool is_of_one_size = true;
  LaneSet met;                        ///< the own lane and those that nearly all meet; empty: none
  std::vector<OperationClass> parts;  ///< at places of the program where they do not meet the same
};

/// Classes by transfer time, the one of what lies between them last; notes what those of one size usually take.
std::vector<OperationClass> classes_of(std::vector<TurnOperation>& operations);

/// A class in two: what lies at places of the program where it meets some lane more often than on average, and what
/// lies at the others, for the lane where these differ most; nothing where they differ by chance.
std::vector<OperationClass> parted(const std::vector<TurnLane>& lanes, std::size_t l,
                                   const std::vector<TurnOperation>& operations, const OperationClass& whole);

}  // namespace nsys_explain::collectives
