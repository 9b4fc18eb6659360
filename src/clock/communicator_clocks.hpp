#pragma once

#include <cstddef>
#include <vector>

#include "clock/samples.hpp"
#include "clock/unknowns.hpp"

namespace nsys_explain::clock {

/// The normal equations with one clock for each communicator in place of one common exit for each instance, for a
/// preconditioner. Members of an instance are related by what they share; if all that a communicator's instances share
/// lay on one clock of the kind that sessions have, the sums of w f f' over the exits of each membership (w the weight
/// of an exit, f what it depends on) would say everything, and no sample need be looked at to solve the equations. They
/// are the same equations where the weights of a membership are alike, and never less stiff: what many instances
/// determine apart, one clock must meet together.
class CommunicatorClocks {
 public:
  /// Sums as lower triangles, columns x columns, row by row: of the memberships of set.communicators, then for each
  /// session what is known without a communicator.
  CommunicatorClocks(const SampleSet& set, Unknowns unknowns, std::vector<double> sums);

  static constexpr std::size_t cell(std::size_t row, std::size_t column) { return row * (row + 1) / 2 + column; }
  static constexpr std::size_t cells(std::size_t columns) { return cell(columns, 0); }

  /// The clock of every component's reference is straight and right.
  Block solve(const Block& rhs) const;

 private:
  Block multiply(const Block& x) const;
  Block precondition(const Block& r) const;
  const double* sums_of(std::size_t membership) const { return &sums_[membership * cells(unknowns_.columns())]; }
  const double* own_sums(std::size_t session) const { return sums_of(set_.communicators.session.size() + session); }

  const SampleSet& set_;
  Unknowns unknowns_;
  std::vector<double> sums_;
  /// Cholesky factors of the sums of each communicator, and of those of each session.
  std::vector<double> communicator_factors_, session_factors_;
};

/// Sets the unknowns of every component's reference to 0: only differences to it are determined.
void ground(const SampleSet& set, const Unknowns& unknowns, Block& block);

}  // namespace nsys_explain::clock
