#include "clock/communicator_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "clock/conjugate_gradients.hpp"

namespace nsys_explain::clock {
namespace {

constexpr double inner_tolerance = 1e-3;
/// By this share every unknown of a membership counts more by itself: sums are rounded (see FixedPoint), and what
/// rounding leaves of nothing, where few instances determine few of the unknowns, must not pass for knowledge. Members
/// that agree stay free of each other's clock.
constexpr double apart = 1e-5;

/// Adds the symmetric matrix of a lower triangle times the columns of `x` to those of `y`; both [column * width +
/// side].
void add_product(const double* triangle, std::size_t columns, std::size_t width, const double* x, double* y) {
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double value = *triangle++;
      if (value == 0) continue;
      for (std::size_t p = 0; p < width; ++p) y[i * width + p] += value * x[j * width + p];
      if (i == j) continue;
      for (std::size_t p = 0; p < width; ++p) y[j * width + p] += value * x[i * width + p];
    }
  }
}

/// Cholesky factor in place. Unknowns about which nothing is known by themselves get a pivot of 0 and are left alone.
void factor(double* triangle, std::size_t columns) {
  constexpr double least_pivot = 1e-12;  // relative: what rounding leaves of nothing
  const auto at = [triangle](std::size_t i, std::size_t j) -> double& {
    return triangle[CommunicatorClocks::cell(i, j)];
  };
  for (std::size_t j = 0; j < columns; ++j) {
    double pivot = at(j, j);
    const double before = pivot;
    for (std::size_t k = 0; k < j; ++k) pivot -= at(j, k) * at(j, k);
    const double root = pivot > least_pivot * before ? std::sqrt(pivot) : 0.0;
    at(j, j) = root;
    for (std::size_t i = j + 1; i < columns; ++i) {
      double value = at(i, j);
      for (std::size_t k = 0; k < j; ++k) value -= at(i, k) * at(j, k);
      at(i, j) = root > 0 ? value / root : 0.0;
    }
  }
}

/// Solves in place with a factor; `x` is [column * width + side].
void solve_factored(const double* triangle, std::size_t columns, std::size_t width, double* x) {
  const auto at = [triangle](std::size_t i, std::size_t j) { return triangle[CommunicatorClocks::cell(i, j)]; };
  for (std::size_t i = 0; i < columns; ++i) {
    const double pivot = at(i, i);
    for (std::size_t p = 0; p < width; ++p) {
      double value = x[i * width + p];
      for (std::size_t k = 0; k < i; ++k) value -= at(i, k) * x[k * width + p];
      x[i * width + p] = pivot > 0 ? value / pivot : 0.0;
    }
  }
  for (std::size_t i = columns; i-- > 0;) {
    const double pivot = at(i, i);
    for (std::size_t p = 0; p < width; ++p) {
      double value = x[i * width + p];
      for (std::size_t k = i + 1; k < columns; ++k) value -= at(k, i) * x[k * width + p];
      x[i * width + p] = pivot > 0 ? value / pivot : 0.0;
    }
  }
}

}  // namespace

void ground(const SampleSet& set, const Unknowns& unknowns, Block& block) {
  for (std::size_t s = 0; s < unknowns.sessions; ++s) {
    if (set.component[s] != static_cast<std::int32_t>(s)) continue;
    for (std::size_t column = 0; column < unknowns.columns(); ++column) {
      if (!unknowns.is_relative(column)) continue;
      const std::size_t first = (s * unknowns.columns() + column) * block.width;
      std::fill_n(block.values.begin() + static_cast<std::ptrdiff_t>(first), block.width, 0.0);
    }
  }
}

CommunicatorClocks::CommunicatorClocks(const SampleSet& set, Unknowns unknowns, std::vector<double> sums)
    : set_(set), unknowns_(unknowns), sums_(std::move(sums)) {
  const std::size_t columns = unknowns_.columns();
  const std::size_t size = cells(columns);
  const Communicators& communicators = set_.communicators;
  for (std::size_t m = 0; m < communicators.session.size(); ++m) {
    for (std::size_t i = 0; i < columns; ++i) sums_[m * size + cell(i, i)] *= 1 + apart;
  }
  const std::span<const double> own(own_sums(0), unknowns_.sessions * size);
  session_factors_.assign(own.begin(), own.end());
  communicator_factors_.assign(communicators.size() * size, 0.0);
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
      double* const of_session = &session_factors_[static_cast<std::size_t>(communicators.session[m]) * size];
      for (std::size_t i = 0; i < size; ++i) {
        communicator_factors_[c * size + i] += sums_of(m)[i];
        of_session[i] += sums_of(m)[i];
      }
    }
    factor(&communicator_factors_[c * size], columns);
  }
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    double* const block = &session_factors_[s * size];
    for (std::size_t i = 0; set_.component[s] == static_cast<std::int32_t>(s) && i < columns; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        if (unknowns_.is_relative(i) || unknowns_.is_relative(j)) block[cell(i, j)] = 0;  // grounded
      }
    }
    factor(block, columns);
  }
}

Block CommunicatorClocks::multiply(const Block& x) const {
  const std::size_t columns = unknowns_.columns();
  const std::size_t length = columns * x.width;
  const Communicators& communicators = set_.communicators;
  Block y{x.width, std::vector<double>(x.values.size(), 0.0)};
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    add_product(own_sums(s), columns, x.width, &x.values[s * length], &y.values[s * length]);
  }
  std::vector<double> clock(length), off(length);
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    std::fill(clock.begin(), clock.end(), 0.0);
    for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
      const std::size_t first = static_cast<std::size_t>(communicators.session[m]) * length;
      add_product(sums_of(m), columns, x.width, &x.values[first], clock.data());
    }
    solve_factored(&communicator_factors_[c * cells(columns)], columns, x.width, clock.data());
    for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
      const std::size_t first = static_cast<std::size_t>(communicators.session[m]) * length;
      for (std::size_t i = 0; i < length; ++i) off[i] = x.values[first + i] - clock[i];
      add_product(sums_of(m), columns, x.width, off.data(), &y.values[first]);
    }
  }
  ground(set_, unknowns_, y);
  return y;
}

Block CommunicatorClocks::precondition(const Block& r) const {
  const std::size_t columns = unknowns_.columns();
  Block z = r;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    solve_factored(&session_factors_[s * cells(columns)], columns, r.width, &z.values[s * columns * r.width]);
  }
  return z;
}

Block CommunicatorClocks::solve(const Block& rhs) const {
  return conjugate_gradients(
      rhs, inner_tolerance, [this](const Block& x) { return multiply(x); },
      [this](const Block& r) { return precondition(r); });
}

}  // namespace nsys_explain::clock
