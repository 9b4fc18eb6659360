#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/stream_table.hpp"

/// Which members of a table are one communicator.
///
/// Nobody leaves a synchronising operation before the last member has entered it, and all leave at once but for noise.
/// So if two blocks of members are one, their exits differ by noise, whenever either entered. If they are two, each
/// leaves when its own last member has entered, and their exits differ as their last enters do. Two streams with
///
///     enter  0 90   200 230      exit 100 101   300 301   (microseconds)
///
/// differ by 90 and 30 when they enter and by 1 and 1 when they leave: one communicator. With exits 100 190 and 300 330
/// they are two. Only changes from one operation of a kind to the next count: clocks, and what a member always differs
/// by, drop out of them. The scale of the noise is estimated from the same changes, so how much ends scatter favours
/// neither; its law has heavy tails (1 + |change| / scale, Cauchy's but for a constant).
///
/// Something else may hold communicators in step: tensor groups bring the ranks of two data groups to their
/// all-reduces at the same time. Of those it cannot be told when they enter which belong together, so that
///
/// - blocks are joined only if a member that came last *alone* held all others up: whichever parts there were, those
///   without it would have left before;
/// - blocks are kept apart only if their exits follow their own last enters, or deviate as wholes (see tetrads);
/// - what is neither is undecided.
namespace nsys_explain::collectives {

struct BlockSelection {
  std::vector<std::vector<std::size_t>> blocks;  ///< members of the table, each clearly one and apart from the others
  std::vector<std::vector<std::size_t>> undecided;  ///< members of which some may be one
};

/// Whether two members can not be one communicator.
using Conflict = std::function<bool(std::size_t, std::size_t)>;

BlockSelection select_blocks(const StreamTable& table, const Conflict& conflict);

}  // namespace nsys_explain::collectives
