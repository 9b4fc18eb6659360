#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <vector>

#include "collectives/stream_table.hpp"

namespace nsys_explain::collectives {

using Series = std::vector<double>;  ///< by row; NaN: not there

inline Series difference(const Series& a, const Series& b) {
  Series result(a.size());
  std::transform(a.begin(), a.end(), b.begin(), result.begin(), std::minus<>());
  return result;
}

/// Rows of a table by symbol: what members differ by at the end depends on the operation.
using RowsOfSymbol = std::vector<std::vector<std::size_t>>;

RowsOfSymbol rows_of_symbols(const StreamTable& table);

/// Calls `visit(row before, row)` for successive rows of a symbol in which values are there.
template <typename Visit>
void for_each_change(const Series& values, const std::vector<std::size_t>& of_symbol, const Visit& visit) {
  std::ptrdiff_t before = -1;
  for (const std::size_t k : of_symbol) {
    if (std::isnan(values[k])) continue;
    if (before >= 0) visit(static_cast<std::size_t>(before), k);
    before = static_cast<std::ptrdiff_t>(k);
  }
}

/// How unevenly the exits of pairs of members follow each other: the mean log of the change of their difference. Of
/// very many members only those are compared that are near to each other in the order of trace ranks, where programs
/// put the members of a communicator or a chain of them.
class Unevenness {
 public:
  struct Pair {
    double value = 0;
    std::size_t a = 0, b = 0;
  };

  Unevenness(const StreamTable& table, const RowsOfSymbol& symbols);

  double of(std::size_t a, std::size_t b) const { return values_[a * members_ + b]; }
  /// The most even first.
  const std::vector<Pair>& pairs() const { return pairs_; }

 private:
  std::size_t members_ = 0;
  std::vector<double> values_;  ///< infinity: not compared
  std::vector<Pair> pairs_;
};

}  // namespace nsys_explain::collectives
