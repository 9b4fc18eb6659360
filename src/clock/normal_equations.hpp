#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
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

/// Real numbers summed over own samples and ties, the same for any number of tool ranks: as integers.
class ExactSums {
 public:
  /// `bound`: not below any |number| added, the same on every tool rank.
  ExactSums(std::size_t size, double bound, const SampleSet& set);

  enum class From : std::uint8_t { own, ties };
  std::int64_t* of(From from) { return from == From::own ? own_.data() : ties_.data(); }
  std::int64_t quantise(double value) const { return fixed_.quantise(value); }
  double scaled(double value) const { return fixed_.scaled(value); }  ///< see FixedPoint
  /// Collective.
  std::vector<double> total(const Reduction& reduction) const;

 private:
  FixedPoint fixed_;
  std::vector<std::int64_t> own_, ties_;
};

/// The gradient of weight * residual, with the common value of every instance eliminated.
class Gradient {
 public:
  /// `bound`: not below any |residual| (ns), the same on every tool rank.
  Gradient(const SampleSet& set, Unknowns unknowns, double bound);

  /// Counts the instance `share` times.
  void add(const SampleGroup& group, std::span<const Sample> members, double share, ExactSums::From from);
  /// Collective.
  Block total(const Reduction& reduction) const { return {1, sums_.total(reduction)}; }

 private:
  const SampleSet& set_;
  Unknowns unknowns_;
  ExactSums sums_;
};

class NormalEquations {
 public:
  /// `precision[u]`: 1 / variance of what is known beforehand about unknown u (0: nothing). Collective: reduces the
  /// diagonal blocks for the preconditioner. Takes the weights and times in the samples of the part as they are now.
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
    double weight;  ///< of all its exits
    std::uint64_t hash;
  };
  struct Rows {
    std::vector<Exit> exits;
    std::vector<Row> rows;
  };
  Rows rows_of(const Samples& samples, Part part) const;
  Dependence dependence(const Row& row, const Exit& exit) const;

  /// Calls visit(row, exits, from) for every row with any weight.
  template <class Visit>
  void for_each_row(const Visit& visit) const;

  Block multiply(const Block& x) const;
  void multiply_plain(const Row& row, std::span<const Exit> exits, const Block& x, std::span<double> value,
                      ExactSums& sums, std::int64_t* to) const;
  void add_centred(const Row& row, std::span<const Exit> exits, std::span<const double> value, ExactSums& sums,
                   std::int64_t* to) const;
  void factor_diagonal();
  Block precondition(const Block& r) const;
  void ground(Block& block) const;

  const SampleSet& set_;
  Unknowns unknowns_;
  std::vector<double> precision_;
  const Reduction& reduction_;
  double most_weight_ = 0;  ///< of any exit
  Rows own_, ties_;
  std::vector<double> factors_;  ///< per session: Cholesky factor of its diagonal block, columns x columns
};

}  // namespace nsys_explain::clock
