#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

/// Where a sequence says the same several times in a row.
namespace nsys_explain::analysis {

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
