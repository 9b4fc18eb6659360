#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Where the program begins anew, by the order of a GPU's kernels alone.
namespace nsys_explain::analysis {

struct OrderedKernel {
  std::uint32_t kind = 0;     ///< equal for those of equal name, grid and block
  std::uint32_t idle_ns = 0;  ///< for how long the GPU had stood still before it
};

/// Positions at which the kernels of a step start; empty where the order does not tell.
///
///     a b b b c d  a b b b c d  a b b b c d     a, c, d and the first of each burst of b mark steps: they come evenly,
///                                               and what lies between two of a kind is always the same
///
/// A kind, or the first of each burst of it, marks a level where four fifths of the sequence, by length, lie between
/// two of it that are as far apart as usual, and hold what the typical stretch holds, but for a tenth; a gap of several
/// such stretches is one in which records were lost. Several levels can nest: micro-batches in steps that end with an
/// optimizer. The longest is the step, where it is there at least four times; three times may be a coincidence, so
/// nothing is told then. Only kinds with `marks` make levels: what a program logs now and then does not. Where
/// other kinds come again and again between them, but in no step, what goes on is longer, and nothing is told. Steps
/// begin where the GPU stands still longest, by the median.
std::vector<std::size_t> recurrences(std::span<const OrderedKernel> kernels, const std::vector<bool>& marks);

// Where a sequence says the same several times in a row.

/// symbols[first, first + count * period) is one motif `count` times.
struct TandemRepeat {
  std::size_t first = 0, period = 0, count = 0;

  std::size_t length() const { return period * count; }
  friend bool operator==(const TandemRepeat&, const TandemRepeat&) = default;
};

/// The longest one, of equal ones that of the shortest period, then the first; count 0 where there is none. A motif
/// comes three times at least, since twice may be by chance, and has two different symbols. Time: length squared.
TandemRepeat longest_tandem_repeat(std::span<const std::uint32_t> symbols);

/// Repeats that hold no repeats themselves, ascending: where one fills half of the motif or more, the motif is what
/// goes on around it, as micro-batches do around layers. Besides the longest, those before and after it that are a
/// quarter as long or more: a backward pass and its forward pass differ.
///
///     e abc abc abc f dcc' dcc' dcc' dcc' g        two repeats: abc 3 times at 1, dcc' 4 times at 11
std::vector<TandemRepeat> innermost_repeats(std::span<const std::uint32_t> symbols);

}  // namespace nsys_explain::analysis
