#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nsys_explain::clock {

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
