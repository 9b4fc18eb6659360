#pragma once

#include <cstddef>
#include <vector>

#include "clock/samples.hpp"
#include "clock/unknowns.hpp"

namespace nsys_explain::clock {

/// The normal equations with one clock for each operation of each communicator in place of one common exit for each
/// instance, for a preconditioner. Members of an instance are related by what they share; if all that a communicator's
/// instances of one operation share lay on one clock of the kind that sessions have, the sums of w h h' over the exits
/// of each membership (w the weight of an exit, h its shares of the knots) would say everything, and no sample need be
/// looked at to solve the equations. They are the same equations where the weights of a membership are in proportion
/// to those of the others, and never less stiff: what many instances determine apart, one clock must meet together.
class CommunicatorClocks {
 public:
  /// `sums`: tridiagonal matrices (see band), one for each place and kind of operation: kind 0 has no bias, kind b + 1
  /// the bias b. The places are the memberships of set.communicators, then the sessions, for what is known without a
  /// communicator. `precision`: see NormalEquations.
  CommunicatorClocks(const SampleSet& set, Unknowns unknowns, std::vector<double> sums, std::vector<double> precision);

  /// Length of a tridiagonal matrix: its diagonal, then what lies beside it.
  static constexpr std::size_t band(std::size_t knots) { return 2 * knots - 1; }
  static constexpr std::size_t kinds(const Unknowns& unknowns) { return unknowns.biases + 1; }

  /// The clock of every component's reference is straight and right.
  Block solve(const Block& rhs) const;

 private:
  Block multiply(const Block& unknown) const;
  Block precondition(const Block& r) const;
  const double* sums_of(std::size_t place, std::size_t kind) const {
    return &sums_[(place * kinds(unknowns_) + kind) * band(unknowns_.knots)];
  }
  void add_to_session(std::size_t place, Block& matrix) const;
  void factor_sessions();

  const SampleSet& set_;
  Unknowns unknowns_;
  std::vector<double> sums_, precision_;
  /// Cholesky factors of the sums of each communicator and kind (tridiagonal), and of all that is known of each session
  /// (lower triangles, row by row).
  std::vector<double> communicator_factors_, session_factors_;
};

/// Sets the clock of every component's reference to 0: only differences to it are determined.
void ground(const SampleSet& set, const Unknowns& unknowns, Block& block);

}  // namespace nsys_explain::clock
