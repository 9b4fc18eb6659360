#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/stream_table.hpp"

/// Which members of a table are one communicator.
///
/// Nobody leaves a synchronising operation before the last member has entered it, and all leave at once but for noise.
/// So if members are one, their exits differ by noise; if they are two communicators, each block of members leaves when
/// its own last member has entered, and it is the times since then that are alike. In short: *blocks are one if their
/// exits differ less than the times from their own last enter to their exits do.* Two streams with
///
///     enter  0 90   exit 100 101   (microseconds)
///
/// differ by 1 at the end and by 100 - 11 = 89 in the time they took: one communicator. With exits 100 and 190 it is
/// the other way round. How much exits scatter, with what tail and which bias of a member, cancels out of the
/// comparison: both explanations see the same scatter. Each block keeps its own clock, taken from its exits, so that no
/// clock error enters either.
///
/// What a row costs under an explanation is the mean log of its residuals, a likelihood with tails as heavy as a
/// Cauchy law's; two explanations are compared by the mean advantage per row against its standard error.
namespace nsys_explain::collectives {

struct BlockSelection {
  std::vector<std::vector<std::size_t>> blocks;  ///< members of the table, each once
  bool is_told = false;                          ///< false: which members belong together cannot be told
  bool is_mixed = false;  ///< some rows contradict what holds of most: several communicators share the streams
};

/// Whether two members can not be one communicator.
using Conflict = std::function<bool(std::size_t, std::size_t)>;

/// Joins members, the most alike first, as long as the rows clearly say that they are one. `is_plain_usual`: that all
/// are one holds unless rows clearly say otherwise.
BlockSelection select_blocks(const StreamTable& table, const Conflict& conflict, bool is_plain_usual);

/// Only joins members that end so evenly that nothing else would do: for sends and receives, where it is usual that
/// others are in step.
std::vector<std::vector<std::size_t>> strictly_even_blocks(const StreamTable& table, const Conflict& conflict);

}  // namespace nsys_explain::collectives
