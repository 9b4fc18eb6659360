#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "fixed_point.hpp"
#include "samples.hpp"

/// Weighted least squares over the graph of sessions, with the common exit of every instance eliminated: a Laplacian
/// whose edges are instances. Solved by conjugate gradients, because only products with it can be had without moving
/// observations: a product is one pass over the own samples and one reduced vector.
namespace nsys_explain::clock {

/// The unknowns: for each session its offset (ns), its drift (ns per span) and one bias (ns) per biased operation.
struct Unknowns {
  std::size_t sessions = 0;
  std::size_t columns = 2;  ///< per session: offset, drift, biases...

  std::size_t size() const { return sessions * columns; }
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

  /// Collective: x with A x = rhs, to `tolerance` relative to the right-hand side. Offset and drift of every
  /// component's reference are 0: only differences to it are determined.
  Block solve(const Block& rhs, double tolerance) const;

  /// Writes the `width` values (ns) of one member of a group.
  using Values = std::function<void(const SampleGroup& group, std::size_t member, const Sample& sample, double* out)>;

  /// Collective: the gradient of weight * value over all members, with the instance's common value eliminated.
  /// `bound` is the same on every tool rank and not below any |value|.
  Block right_hand_side(std::size_t width, double bound, const Values& values) const;

 private:
  Block multiply(const Block& x) const;
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
