#pragma once

#include <cstdint>

namespace nsys_explain::collectives {

/// A hash of a sequence, one value further.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29U);
}

}  // namespace nsys_explain::collectives
