#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace nsys_explain::tiers {

/// Whether this is the tier `thorough` of the tests (NSYS_EXPLAIN_THOROUGH in the environment).
inline bool is_thorough() {
  const char* const tier = std::getenv("NSYS_EXPLAIN_THOROUGH");
  return tier != nullptr && !std::string_view(tier).empty() && std::string_view(tier) != "0";
}

/// The seeds of a test that tries `count` of them: all in the tier `thorough`, else the first, the middle and the last.
inline std::vector<std::uint32_t> seeds(std::uint32_t count) {
  if (!is_thorough() && count > 3) return {0, count / 2, count - 1};
  std::vector<std::uint32_t> all(count);
  for (std::uint32_t seed = 0; seed < count; ++seed) all[seed] = seed;
  return all;
}

}  // namespace nsys_explain::tiers
