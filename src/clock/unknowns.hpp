#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace nsys_explain::clock {

/// What one exit depends on: unknowns of its session by column, ascending, and by how much.
struct Dependence {
  std::array<std::size_t, 5> column{0, 1, 0, 0, 0};
  std::array<double, 5> share{1, 0, 0, 0, 0};
  std::size_t terms = 2;

  void add(std::size_t to_column, double by) {
    column[terms] = to_column;
    share[terms++] = by;
  }
};

/// The unknowns of each session: its offset (ns), its drift (ns per span), one bias (ns) per biased operation, and its
/// bends: what the clock is off its straight line (ns) at the inner knots, which cut the run into equal intervals.
struct Unknowns {
  std::size_t sessions = 0;
  std::size_t biases = 0;
  std::size_t bends = 0;

  std::size_t columns() const { return 2 + biases + bends; }
  std::size_t size() const { return sessions * columns(); }
  std::size_t bend_column(std::size_t bend) const { return 2 + biases + bend; }
  /// Determined as differences between sessions only; biases have a known mean of 0.
  bool is_relative(std::size_t column) const { return column < 2 || column >= 2 + biases; }

  /// Of an exit at this time; `bias` is -1 for an unbiased operation. Bends have hat functions, 0 at the run's ends.
  Dependence dependence(int bias, double spans) const {
    Dependence result;
    result.share[1] = spans;
    if (bias >= 0) result.add(2 + static_cast<std::size_t>(bias), 1);
    if (bends == 0) return result;
    const double knot = std::clamp(spans + 0.5, 0.0, 1.0) * static_cast<double>(bends + 1);
    const std::size_t interval = std::min(static_cast<std::size_t>(knot), bends);
    const double into = knot - static_cast<double>(interval);
    if (interval > 0) result.add(bend_column(interval - 1), 1 - into);
    if (interval < bends) result.add(bend_column(interval), into);
    return result;
  }
};

/// A vector of unknowns for each of `width` right-hand sides, interleaved: [unknown * width + side].
struct Block {
  std::size_t width = 1;
  std::vector<double> values;
};

}  // namespace nsys_explain::clock
