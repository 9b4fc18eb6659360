#pragma once

#include <cstdint>
#include <string_view>

/// Hashes that are equal on every machine: what they order or name is part of the results.
namespace nsys_explain {

inline constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15;  ///< of 2^64: multiples of it spread evenly

/// The finaliser of SplitMix64 (Steele, Lea and Flood, 2014): every bit of the value changes half of the bits.
constexpr std::uint64_t mix_bits(std::uint64_t value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

/// The next number of SplitMix64.
constexpr std::uint64_t splitmix(std::uint64_t value) {
  return mix_bits(value + golden_ratio);
}

inline constexpr std::uint64_t fnv_start = 14695981039346656037ULL;

/// FNV-1a: tells contents apart that nobody chose to collide. `seen`: the hash of what came before.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t seen = fnv_start) {
  for (const char byte : bytes) seen = (seen ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  return seen;
}

}  // namespace nsys_explain
