#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fixed_point.hpp"
#include "samples.hpp"

/// Weighted least squares over the graph of sessions, with the common exit of every instance eliminated: a Laplacian
/// whose edges are instances. Solved by conjugate gradients, because only products with it can be had without moving
/// observations: a product is one pass over the own samples and one reduced vector.
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

class NormalEquations {
 public:
  /// `precision[u]`: 1 / variance of what is known beforehand about unknown u (0: nothing). Collective: reduces the
  /// diagonal blocks for the preconditioner. Uses the weights and times in the samples as they are now.
  NormalEquations(const SampleSet& set, Unknowns unknowns, std::vector<double> precision, const Reduction& reduction);

  /// Collective: x with A x = rhs, to `tolerance` relative to the right-hand side. The clock of every
  /// component's reference is straight and right: only differences to it are determined.
  Block solve(const Block& rhs, double tolerance) const;

  /// Writes the `width` values (ns) of one member of a group.
  using Values = std::function<void(const SampleGroup& group, std::size_t member, const Sample& sample, double* out)>;

  /// Collective: the gradient of weight * value over all members, with the instance's common value eliminated.
  /// `bound` is the same on every tool rank and not below any |value|.
  Block right_hand_side(std::size_t width, double bound, const Values& values) const;

 private:
  Block multiply(const Block& x) const;
  template <class Width>
  Block multiply_by(const Block& x, Width width) const;
  void factor_diagonal();
  Block precondition(const Block& r) const;

  void ground(Block& block) const;
  FixedPoint sums_of(double bound) const;

  const SampleSet& set_;
  Unknowns unknowns_;
  std::vector<double> precision_;
  const Reduction& reduction_;
  double most_weight_ = 0;       ///< of any sample
  std::vector<double> factors_;  ///< per session: Cholesky factor of its diagonal block, columns x columns
};

}  // namespace nsys_explain::clock
