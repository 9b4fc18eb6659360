#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// Counts of magnitudes in 16 linear bins per octave from 2^-6 to 2^44 ns: quantiles to 6 % at worst (better by
/// interpolation), from integers that add up across tool ranks. Bins come from the bits of the double: no logarithms.
namespace magnitude_histogram {

inline constexpr int bits_kept = 48;
inline constexpr std::uint64_t lowest = std::bit_cast<std::uint64_t>(0x1p-6) >> bits_kept;
inline constexpr std::uint64_t highest = std::bit_cast<std::uint64_t>(0x1p44) >> bits_kept;
inline constexpr std::size_t bins = static_cast<std::size_t>(highest - lowest) + 1;

inline std::size_t bin_of(double value) {
  const std::uint64_t code = std::bit_cast<std::uint64_t>(std::abs(value)) >> bits_kept;
  if (code <= lowest) return 0;
  return static_cast<std::size_t>((code < highest ? code : highest) - lowest);
}

inline double lower_edge(std::size_t bin) {
  return bin == 0 ? 0.0 : std::bit_cast<double>((lowest + bin) << bits_kept);
}

/// Value below which `fraction` of the counts lie, linear within its bin; 0 where nothing was counted.
inline double quantile(std::span<const std::int64_t> counts, double fraction) {
  std::int64_t total = 0;
  for (const std::int64_t count : counts) total += count;
  const double rank = fraction * static_cast<double>(total);
  double below = 0;
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    const double here = static_cast<double>(counts[bin]);
    if (here > 0 && below + here >= rank) {
      return lower_edge(bin) + (rank - below) / here * (lower_edge(bin + 1) - lower_edge(bin));
    }
    below += here;
  }
  return 0;
}

}  // namespace magnitude_histogram

}  // namespace nsys_explain::clock
