#pragma once

#include <cstdint>
#include <string_view>

namespace nsys_explain::pipeline {

/// FNV-1a: tells contents apart that nobody chose to collide. `seed`: the digest of what came before.
inline std::uint64_t digest(std::string_view bytes, std::uint64_t seed = 14695981039346656037ULL) {
  for (const char byte : bytes) seed = (seed ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  return seed;
}

}  // namespace nsys_explain::pipeline
