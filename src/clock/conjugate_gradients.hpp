#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "clock/unknowns.hpp"

namespace nsys_explain::clock {

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
