#pragma once

#include <cmath>
#include <cstdint>

namespace nsys_explain::clock {

/// Turns real numbers into integers that can be summed in any order with one result. Each number is rounded on its own,
/// by a power of two, such that `terms` numbers of magnitude `bound` at most cannot overflow.
class FixedPoint {
 public:
  FixedPoint(double bound, std::int64_t terms) {
    const int digits = 61 - exponent_above(bound) - exponent_above(static_cast<double>(terms));
    to_integer_ = std::ldexp(1.0, digits);
    to_real_ = std::ldexp(1.0, -digits);
  }

  std::int64_t quantise(double value) const { return cut(scaled(value)); }
  /// quantise in two steps: a factor of many values can be scaled once, without any other result, as it is by a power
  /// of two.
  double scaled(double value) const { return value * to_integer_; }
  static std::int64_t cut(double scaled_value) { return static_cast<std::int64_t>(scaled_value); }
  double restore(std::int64_t value) const { return static_cast<double>(value) * to_real_; }

  /// Smallest e >= -500 with |value| < 2^e.
  static int exponent_above(double value) {
    int exponent = -500;
    if (std::abs(value) > 1e-150) std::frexp(value, &exponent);
    return exponent;
  }

 private:
  double to_integer_ = 1;
  double to_real_ = 1;
};

}  // namespace nsys_explain::clock
