#include "clock/communicator_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace nsys_explain::clock {
namespace {

constexpr double inner_tolerance = 1e-2;  // a product with all samples costs as much as many of these
/// By this share every knot of a membership counts more by itself: sums are rounded to some 40 bits (see FixedPoint),
/// and what rounding leaves of nothing, where few instances determine few of the knots, must not pass for knowledge.
constexpr double apart = 1e-9;
/// Relative: less is what rounding leaves of nothing.
constexpr double least_pivot = 1e-12;

double root_of(double pivot, double before) {
  return pivot > least_pivot * before ? std::sqrt(pivot) : 0.0;
}

/// Adds a tridiagonal matrix times x to y; both [knot * width + side].
void add_band_product(const double* band, std::size_t knots, std::size_t width, const double* x, double* y) {
  const double* const beside = band + knots;
  for (std::size_t k = 0; k < knots; ++k) {
    for (std::size_t p = 0; p < width; ++p) y[k * width + p] += band[k] * x[k * width + p];
    if (k + 1 == knots) break;
    for (std::size_t p = 0; p < width; ++p) {
      y[k * width + p] += beside[k] * x[(k + 1) * width + p];
      y[(k + 1) * width + p] += beside[k] * x[k * width + p];
    }
  }
}

/// Cholesky factor of a tridiagonal matrix in place. Knots about which nothing is known by themselves get a pivot of 0
/// and are left alone.
void factor_band(double* band, std::size_t knots) {
  double* const beside = band + knots;
  for (std::size_t k = 0; k < knots; ++k) {
    const double left = k == 0 ? 0 : beside[k - 1];
    band[k] = root_of(band[k] - left * left, band[k]);
    if (k + 1 < knots) beside[k] = band[k] > 0 ? beside[k] / band[k] : 0.0;
  }
}

void solve_band(const double* factor, std::size_t knots, std::size_t width, double* x) {
  const double* const beside = factor + knots;
  for (std::size_t k = 0; k < knots; ++k) {
    const double inverse = factor[k] > 0 ? 1 / factor[k] : 0.0;
    for (std::size_t p = 0; p < width; ++p) {
      const double left = k == 0 ? 0 : beside[k - 1] * x[(k - 1) * width + p];
      x[k * width + p] = (x[k * width + p] - left) * inverse;
    }
  }
  for (std::size_t k = knots; k-- > 0;) {
    const double inverse = factor[k] > 0 ? 1 / factor[k] : 0.0;
    for (std::size_t p = 0; p < width; ++p) {
      const double right = k + 1 == knots ? 0 : beside[k] * x[(k + 1) * width + p];
      x[k * width + p] = (x[k * width + p] - right) * inverse;
    }
  }
}

constexpr std::size_t cell(std::size_t row, std::size_t column) {
  return row * (row + 1) / 2 + column;
}

/// The same for a lower triangle, row by row.
void factor_triangle(double* triangle, std::size_t columns) {
  for (std::size_t j = 0; j < columns; ++j) {
    double pivot = triangle[cell(j, j)];
    for (std::size_t k = 0; k < j; ++k) pivot -= triangle[cell(j, k)] * triangle[cell(j, k)];
    const double root = root_of(pivot, triangle[cell(j, j)]);
    triangle[cell(j, j)] = root;
    for (std::size_t i = j + 1; i < columns; ++i) {
      double value = triangle[cell(i, j)];
      for (std::size_t k = 0; k < j; ++k) value -= triangle[cell(i, k)] * triangle[cell(j, k)];
      triangle[cell(i, j)] = root > 0 ? value / root : 0.0;
    }
  }
}

void solve_triangle(const double* factor, std::size_t columns, std::size_t width, double* x) {
  const auto divide = [&](std::size_t i) {
    const double pivot = factor[cell(i, i)];
    for (std::size_t p = 0; p < width; ++p) x[i * width + p] = pivot > 0 ? x[i * width + p] / pivot : 0.0;
  };
  const auto subtract = [&](double share, std::size_t from, std::size_t other) {
    for (std::size_t p = 0; p < width; ++p) x[from * width + p] -= share * x[other * width + p];
  };
  for (std::size_t i = 0; i < columns; ++i) {
    for (std::size_t k = 0; k < i; ++k) subtract(factor[cell(i, k)], i, k);
    divide(i);
  }
  for (std::size_t i = columns; i-- > 0;) {
    divide(i);
    for (std::size_t k = 0; k < i; ++k) subtract(factor[cell(i, k)], k, i);
  }
}

/// What exits of one kind show of a session: its clock and their bias.
void shown(const Unknowns& unknowns, std::size_t kind, std::size_t width, const double* session, double* result) {
  std::copy_n(session, unknowns.knots * width, result);
  if (kind == 0) return;
  const double* const bias = session + unknowns.bias_column(kind - 1) * width;
  for (std::size_t k = 0; k < unknowns.knots; ++k) {
    for (std::size_t p = 0; p < width; ++p) result[k * width + p] += bias[p];
  }
}

/// The transposed map, added.
void add_pull(const Unknowns& unknowns, std::size_t kind, std::size_t width, const double* pull, double* session) {
  for (std::size_t i = 0; i < unknowns.knots * width; ++i) session[i] += pull[i];
  if (kind == 0) return;
  double* const bias = session + unknowns.bias_column(kind - 1) * width;
  for (std::size_t k = 0; k < unknowns.knots; ++k) {
    for (std::size_t p = 0; p < width; ++p) bias[p] += pull[k * width + p];
  }
}

/// Whether nothing is known of any knot, by the diagonal of a tridiagonal matrix or its factor.
bool is_empty(const double* diagonal, std::size_t knots) {
  return std::all_of(diagonal, diagonal + knots, [](double value) { return value == 0; });
}

}  // namespace

void ground(const SampleSet& set, const Unknowns& unknowns, Block& block) {
  for (std::size_t s = 0; s < unknowns.sessions; ++s) {
    if (set.component[s] != static_cast<std::int32_t>(s)) continue;
    const auto first = static_cast<std::ptrdiff_t>(s * unknowns.columns() * block.width);
    std::fill_n(block.values.begin() + first, unknowns.knots * block.width, 0.0);
  }
}

CommunicatorClocks::CommunicatorClocks(const SampleSet& set, Unknowns unknowns, std::vector<double> sums,
                                       std::vector<double> precision)
    : set_(set), unknowns_(unknowns), sums_(std::move(sums)), precision_(std::move(precision)) {
  const std::size_t knots = unknowns_.knots;
  const std::size_t length = kinds(unknowns_) * band(knots);
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (i % band(knots) < knots) sums_[i] *= 1 + apart;
  }
  const Communicators& communicators = set_.communicators;
  communicator_factors_.assign(communicators.size() * length, 0.0);
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    double* const factors = &communicator_factors_[c * length];
    for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
      for (std::size_t i = 0; i < length; ++i) factors[i] += sums_of(m, 0)[i];
    }
    for (std::size_t kind = 0; kind < kinds(unknowns_); ++kind) factor_band(factors + kind * band(knots), knots);
  }
  factor_sessions();
}

/// Adds to the symmetric matrix of a session, by the values at its knots and its biases.
void CommunicatorClocks::add_to_session(std::size_t place, Block& matrix) const {
  const std::size_t knots = unknowns_.knots;
  const auto add = [&](std::size_t i, std::size_t j, double value) {
    matrix.values[i * matrix.width + j] += value;
    if (i != j) matrix.values[j * matrix.width + i] += value;
  };
  for (std::size_t kind = 0; kind < kinds(unknowns_); ++kind) {
    const double* const diagonal = sums_of(place, kind);
    const double* const beside = diagonal + knots;
    for (std::size_t k = 0; k < knots; ++k) {
      add(k, k, diagonal[k]);
      if (k > 0) add(k, k - 1, beside[k - 1]);
      if (kind == 0) continue;
      const std::size_t bias = unknowns_.bias_column(kind - 1);
      const double row = diagonal[k] + (k > 0 ? beside[k - 1] : 0) + (k + 1 < knots ? beside[k] : 0);
      add(bias, k, row);
      add(bias, bias, row);
    }
  }
}

void CommunicatorClocks::factor_sessions() {
  const std::size_t columns = unknowns_.columns(), memberships = set_.communicators.session.size();
  std::vector<Block> matrices(unknowns_.sessions, {columns, std::vector<double>(columns * columns, 0.0)});
  for (std::size_t m = 0; m < memberships; ++m) {
    add_to_session(m, matrices[static_cast<std::size_t>(set_.communicators.session[m])]);
  }
  session_factors_.assign(unknowns_.sessions * cell(columns, 0), 0.0);
  const Unknowns one{1, unknowns_.biases, unknowns_.knots};
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    Block& matrix = matrices[s];
    add_to_session(memberships + s, matrix);
    gradient_from_knots(one, matrix);
    for (std::size_t i = 0; i < columns; ++i) {
      for (std::size_t j = 0; j < i; ++j) std::swap(matrix.values[i * columns + j], matrix.values[j * columns + i]);
    }
    gradient_from_knots(one, matrix);
    const bool grounded = set_.component[s] == static_cast<std::int32_t>(s);
    double* const triangle = &session_factors_[s * cell(columns, 0)];
    for (std::size_t i = 0; i < columns; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        if (!grounded || !unknowns_.is_clock(j)) triangle[cell(i, j)] = matrix.values[i * columns + j];
      }
      if (!grounded || !unknowns_.is_clock(i)) triangle[cell(i, i)] += precision_[s * columns + i];
    }
    factor_triangle(triangle, columns);
  }
}

Block CommunicatorClocks::multiply(const Block& unknown) const {
  Block x = unknown;
  to_knots(unknowns_, x);
  const std::size_t knots = unknowns_.knots, width = x.width;
  const std::size_t length = unknowns_.columns() * width;
  const Communicators& communicators = set_.communicators;
  Block y{width, std::vector<double>(x.values.size(), 0.0)};
  std::vector<double> off(knots * width), pull(knots * width), clock(knots * width);
  const auto add = [&](std::size_t place, std::size_t kind, std::size_t session) {
    std::fill(pull.begin(), pull.end(), 0.0);
    add_band_product(sums_of(place, kind), knots, width, off.data(), pull.data());
    add_pull(unknowns_, kind, width, pull.data(), &y.values[session * length]);
  };
  for (std::size_t kind = 0; kind < kinds(unknowns_); ++kind) {
    for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
      if (is_empty(sums_of(communicators.session.size() + s, kind), knots)) continue;
      shown(unknowns_, kind, width, &x.values[s * length], off.data());
      add(communicators.session.size() + s, kind, s);
    }
    for (std::size_t c = 0; c < communicators.size(); ++c) {
      const double* const factor = &communicator_factors_[(c * kinds(unknowns_) + kind) * band(knots)];
      if (is_empty(factor, knots)) continue;
      std::fill(clock.begin(), clock.end(), 0.0);
      for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
        const auto s = static_cast<std::size_t>(communicators.session[m]);
        shown(unknowns_, kind, width, &x.values[s * length], off.data());
        add_band_product(sums_of(m, kind), knots, width, off.data(), clock.data());
      }
      solve_band(factor, knots, width, clock.data());
      for (std::size_t m = communicators.begin_of(c); m < communicators.end[c]; ++m) {
        const auto s = static_cast<std::size_t>(communicators.session[m]);
        shown(unknowns_, kind, width, &x.values[s * length], off.data());
        for (std::size_t i = 0; i < off.size(); ++i) off[i] -= clock[i];
        add(m, kind, s);
      }
    }
  }
  gradient_from_knots(unknowns_, y);
  add_products(precision_, unknown, y);
  ground(set_, unknowns_, y);
  return y;
}

Block CommunicatorClocks::precondition(const Block& r) const {
  const std::size_t columns = unknowns_.columns();
  Block z = r;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    solve_triangle(&session_factors_[s * cell(columns, 0)], columns, r.width, &z.values[s * columns * r.width]);
  }
  return z;
}

Block CommunicatorClocks::solve(const Block& rhs) const {
  return conjugate_gradients(
      rhs, inner_tolerance, most_products, [this](const Block& x) { return multiply(x); },
      [this](const Block& r) { return precondition(r); });
}

}  // namespace nsys_explain::clock
