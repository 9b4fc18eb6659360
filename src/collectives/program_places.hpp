#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

/// Where operations lie in the program that all trace ranks run. It repeats itself: in steps, layers, micro-batches.
/// What it does at a place is done in communicators of one kind, whoever does it.
namespace nsys_explain::collectives {

/// Of each operation of these sequences of symbols, its place. Operations with the same symbols around them have the
/// same place; where a neighbour was lost or lies outside of the capture, what comes before or what follows tells, if
/// it was seen around one place only. 0: not known.
std::vector<std::vector<std::uint64_t>> program_places(std::span<const std::vector<std::uint64_t>> sequences);

/// Of each operation whose place is not known, as program_places says, those where it may be: what comes before it or
/// what follows was seen there often. None for the others.
std::vector<std::vector<std::vector<std::uint64_t>>> possible_places(
    std::span<const std::vector<std::uint64_t>> sequences);

/// Of each operation of a sequence of symbols, what comes before it and what follows, each with it. First and last
/// stages of a pipeline lack exchanges on one side of what all do. 0: not all was recorded, or all is of its own kind,
/// which tells nothing.
std::vector<std::array<std::uint64_t, 2>> program_sides(const std::vector<std::uint64_t>& symbols);

/// What was recorded around an operation: the same lies around others often. Or it would, if there were one more
/// operation of the kind directly before or after.
enum class Recorded : std::uint8_t { unknown, all, all_but_one_like_it };

/// Of each operation of these sequences of symbols.
std::vector<std::vector<Recorded>> recorded_around(std::span<const std::vector<std::uint64_t>> sequences);

}  // namespace nsys_explain::collectives
