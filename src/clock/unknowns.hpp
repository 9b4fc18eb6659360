#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace nsys_explain::clock {

/// Times count in spans of the run from its middle; beyond this they are cut (a wrong match far outside the run).
inline constexpr double largest_spans = 4;
/// Of a knot in an exit: a straight clock goes on beyond the ends of the run.
inline constexpr double largest_share = largest_spans + 0.5;

/// What one exit depends on: its session's clock at two neighbouring knots, by these shares, which add up to 1. By
/// their values at knots, clocks far apart in time have nothing to do with each other.
struct Dependence {
  std::size_t knot = 0;
  double before = 1;
  double behind = 0;
};

/// The unknowns of each session: its offset in the middle of the run (ns), its bends: what it is off its straight line
/// (ns) at the inner knots, its drift (ns per span), and one bias (ns) per biased operation. The knots are the ends of
/// the run and what cuts it into equal intervals; between them a clock is straight.
struct Unknowns {
  std::size_t sessions = 0;
  std::size_t biases = 0;
  std::size_t knots = 2;

  std::size_t columns() const { return knots + biases; }
  std::size_t size() const { return sessions * columns(); }
  std::size_t bends() const { return knots - 2; }
  std::size_t drift_column() const { return knots - 1; }
  std::size_t bias_column(std::size_t bias) const { return knots + bias; }
  /// Clocks are determined as differences between sessions only; biases have a known mean of 0.
  bool is_clock(std::size_t column) const { return column < knots; }

  Dependence dependence(double spans) const {
    const std::size_t last = knots - 2;
    double at = (spans + 0.5) * static_cast<double>(knots - 1);
    if (last > 0) at = std::clamp(at, 0.0, static_cast<double>(knots - 1));
    const std::size_t knot = last == 0 ? 0 : std::min(static_cast<std::size_t>(at), last);
    const double behind = at - static_cast<double>(knot);
    return {knot, 1 - behind, behind};
  }
};

/// A vector of unknowns for each of `width` right-hand sides, interleaved: [unknown * width + side].
struct Block {
  std::size_t width = 1;
  std::vector<double> values;
};

/// Adds a diagonal matrix times x to y.
inline void add_products(const std::vector<double>& diagonal, const Block& x, Block& y) {
  for (std::size_t u = 0; u < diagonal.size(); ++u) {
    for (std::size_t i = u * x.width; i < (u + 1) * x.width; ++i) y.values[i] += diagonal[u] * x.values[i];
  }
}

/// From offset, bends and drift of every session to what its clock is off job time at the knots. In place.
inline void to_knots(const Unknowns& unknowns, Block& block) {
  const std::size_t width = block.width, last = unknowns.knots - 1;
  for (std::size_t s = 0; s < unknowns.sessions; ++s) {
    double* const values = &block.values[s * unknowns.columns() * width];
    for (std::size_t p = 0; p < width; ++p) {
      const double offset = values[p], drift = values[last * width + p];
      const auto line = [&](std::size_t k) {
        return offset + drift * (static_cast<double>(k) / static_cast<double>(last) - 0.5);
      };
      for (std::size_t k = 1; k < last; ++k) values[k * width + p] += line(k);
      values[p] = line(0);
      values[last * width + p] = line(last);
    }
  }
}

/// The transposed map: from a gradient by the values at the knots to that by offset, bends and drift. In place.
inline void gradient_from_knots(const Unknowns& unknowns, Block& block) {
  const std::size_t width = block.width, last = unknowns.knots - 1;
  for (std::size_t s = 0; s < unknowns.sessions; ++s) {
    double* const values = &block.values[s * unknowns.columns() * width];
    for (std::size_t p = 0; p < width; ++p) {
      double offset = 0, drift = 0;
      for (std::size_t k = 0; k <= last; ++k) {
        offset += values[k * width + p];
        drift += values[k * width + p] * (static_cast<double>(k) / static_cast<double>(last) - 0.5);
      }
      values[p] = offset;
      values[last * width + p] = drift;
    }
  }
}

inline std::vector<double> dot(const Block& a, const Block& b) {
  std::vector<double> result(a.width, 0.0);
  for (std::size_t i = 0; i < a.values.size(); i += a.width) {
    for (std::size_t p = 0; p < a.width; ++p) result[p] += a.values[i + p] * b.values[i + p];
  }
  return result;
}

/// Preconditioned residual that is not worth another product. The equations are an inverse covariance, so this counts
/// squared standard uncertainties.
inline constexpr double negligible_energy = 1e-13;

inline constexpr int most_products = 2'000;

/// x with A x = rhs, to `tolerance` relative to the right-hand side in the norm of the preconditioner; every side by
/// itself; the best x so far after `patience` products without progress, when rounding is all that is left. `multiply`
/// and `precondition`: Block to Block, symmetric and positive where they are not 0.
template <class Multiply, class Precondition>
Block conjugate_gradients(const Block& rhs, double tolerance, int patience, const Multiply& multiply,
                          const Precondition& precondition) {
  const std::size_t width = rhs.width;
  Block x{width, std::vector<double>(rhs.values.size(), 0.0)};
  Block best_x = x;
  Block r = rhs;
  Block z = precondition(r);
  Block direction = z;
  std::vector<double> rz = dot(r, z);
  std::vector<double> enough;
  enough.reserve(width);
  for (const double energy : rz) enough.push_back(std::max(tolerance * tolerance * energy, negligible_energy));
  double best = std::numeric_limits<double>::max();
  int best_at = 0;
  for (int products = 0; products < most_products; ++products) {
    double excess = 0;
    for (std::size_t p = 0; p < width; ++p) excess = std::max(excess, rz[p] / enough[p]);
    if (excess < best) {
      best = excess;
      best_at = products;
      best_x = x;
    }
    if (excess <= 1 || products - best_at > patience) break;
    const Block product = multiply(direction);
    const std::vector<double> curvature = dot(direction, product);
    std::vector<double> step(width, 0.0), keep(width, 0.0);
    for (std::size_t p = 0; p < width; ++p) {
      if (curvature[p] > 0 && rz[p] > enough[p]) step[p] = rz[p] / curvature[p];
    }
    for (std::size_t i = 0; i < x.values.size(); i += width) {
      for (std::size_t p = 0; p < width; ++p) {
        x.values[i + p] += step[p] * direction.values[i + p];
        r.values[i + p] -= step[p] * product.values[i + p];
      }
    }
    z = precondition(r);
    // Next direction conjugate to the one before even where the preconditioner is itself a solution to some tolerance
    // (flexible conjugate gradients): z'(r - r before) = -step z'A direction.
    const std::vector<double> overlap = dot(z, product);
    for (std::size_t p = 0; p < width; ++p) keep[p] = step[p] > 0 ? -step[p] * overlap[p] / rz[p] : 0.0;
    for (std::size_t i = 0; i < x.values.size(); i += width) {
      for (std::size_t p = 0; p < width; ++p) {
        direction.values[i + p] = z.values[i + p] + keep[p] * direction.values[i + p];
      }
    }
    rz = dot(r, z);
  }
  return best_x;
}

}  // namespace nsys_explain::clock
