#pragma once

#include <algorithm>
#include <cstddef>
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

}  // namespace nsys_explain::clock
