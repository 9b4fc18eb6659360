#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "collectives/stream_table.hpp"
#include "nsys_explain/model/algorithms.hpp"

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

/// Log of the likelihood ratio from which an explanation is clear: twenty thousand to one.
inline constexpr double clear_log_ratio = 10;
/// GPU times are multiples of 32 ns and exits agree to a few hundred: smaller differences say nothing more.
inline constexpr double least_difference_ns = 150;

/// How much better one explanation is than another: the log of a likelihood ratio.
struct LogRatio {
  double sum = 0, squares = 0;

  void add(double log_ratio) {
    sum += log_ratio;
    squares += std::min(1.0, log_ratio * log_ratio);
  }
  /// Noise alone adds up to its standard deviation; a few rows that say much are no noise.
  bool is_clear() const {
    constexpr double clear_deviations = 3;
    return sum >= std::max(clear_log_ratio, clear_deviations * std::sqrt(squares));
  }
  LogRatio against() const { return {-sum, squares}; }
};

/// For that `exits` are noise, against that they are as `enters` but for noise: differences, by operation of one kind.
/// The scale of the noise is what either leaves at least; its law has heavy tails.
inline void weigh(std::span<const double> exits, std::span<const double> enters, LogRatio& result) {
  std::vector<double> least;
  for (std::size_t i = 0; i < exits.size(); ++i)
    least.push_back(std::min(std::abs(exits[i]), std::abs(exits[i] - enters[i])));
  if (least.empty()) return;
  const double scale = std::max(least_difference_ns, mean_median(least));
  for (std::size_t i = 0; i < exits.size(); ++i)
    result.add(std::log((scale + std::abs(exits[i] - enters[i])) / (scale + std::abs(exits[i]))));
}

}  // namespace nsys_explain::collectives
