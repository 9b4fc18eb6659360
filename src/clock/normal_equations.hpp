#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clock/communicator_clocks.hpp"
#include "clock/fixed_point.hpp"
#include "clock/samples.hpp"
#include "clock/unknowns.hpp"

/// Weighted least squares over the graph of sessions, with the common exit of every instance eliminated: a Laplacian
/// whose edges are instances. Solved by conjugate gradients, because only products with it can be had without moving
/// observations: a product is one pass over the own samples and one reduced vector.
namespace nsys_explain::clock {

/// Real numbers summed over the samples of all tool ranks, the same for any number of these: as integers.
class ExactSums {
 public:
  /// `bound`: not below any |number| added, the same on every tool rank.
  ExactSums(std::size_t size, double bound, const SampleSet& set);

  std::int64_t* own() { return own_.data(); }
  std::int64_t quantise(double value) const { return fixed_.quantise(value); }
  double scaled(double value) const { return fixed_.scaled(value); }  ///< see FixedPoint
  /// Collective.
  std::vector<double> total(const Reduction& reduction) const;

 private:
  FixedPoint fixed_;
  std::vector<std::int64_t> own_;
};

/// The gradient of weight * residual, with the common value of every instance eliminated.
class Gradient {
 public:
  /// `bound`: not below any |residual| (ns), the same on every tool rank.
  Gradient(const SampleSet& set, Unknowns unknowns, double bound);

  /// Counts the instance `share` times.
  void add(const SampleGroup& group, std::span<const Sample> members, double share);
  /// Collective.
  Block total(const Reduction& reduction) const;

 private:
  const SampleSet& set_;
  Unknowns unknowns_;
  ExactSums sums_;
};

class NormalEquations {
 public:
  /// `precision[u]`: 1 / variance of what is known beforehand about unknown u (0: nothing). Collective: reduces what
  /// the preconditioner knows of every membership. Takes the weights and times in the samples of the part as they are
  /// now.
  NormalEquations(const SampleSet& set, Unknowns unknowns, std::vector<double> precision, Part part,
                  const Reduction& reduction);

  /// Collective: x with A x = rhs, to `tolerance` relative to the right-hand side. The clock of every
  /// component's reference is straight and right: only differences to it are determined.
  Block solve(const Block& rhs, double tolerance) const;

  /// Collective: random right-hand sides with the covariance of the noise, where exits have the variance of their class
  /// relative to their weight.
  Block draw_noise(std::size_t sides) const;

 private:
  /// One member of one instance, as little of it as a product needs.
  struct Exit {
    double weight;  ///< 1 / ns^2, times what its instance stands for
    float spans;
    std::int32_t session;
  };
  struct Row {
    std::size_t end;  ///< of its exits; they begin where those of the row before end
    std::int32_t scale_class;
    std::int32_t communicator;
    double weight;  ///< of all its exits
    std::uint64_t hash;
  };
  struct Rows {
    std::vector<Exit> exits;
    std::vector<Row> rows;
  };
  Rows rows_of(const Samples& samples, Part part) const;
  std::size_t bias_of(const Row& row) const { return set_.classes[row.scale_class].bias; }

  /// Calls visit(row, exits) for every row with any weight.
  template <class Visit>
  void for_each_row(const Visit& visit) const;

  Block multiply(const Block& unknown) const;
  void add_centred(const Row& row, std::span<const Exit> exits, std::span<const double> value, ExactSums& sums,
                   std::int64_t* to) const;
  CommunicatorClocks communicator_clocks() const;

  const SampleSet& set_;
  Unknowns unknowns_;
  std::vector<double> precision_;
  const Reduction& reduction_;
  double most_weight_ = 0;  ///< of any exit
  Rows own_;
  CommunicatorClocks like_;  ///< much the same equations, solved without the samples
};

}  // namespace nsys_explain::clock
