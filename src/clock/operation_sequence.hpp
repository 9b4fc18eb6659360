#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::clock {

/// What operations must share to be one: in the upper half of a symbol what every kernel shows, in the lower half what
/// only its call tells, 0 where no call was recorded.
inline bool may_be_one(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t told = 0xffffffffU;
  return a == b || (((a ^ b) & ~told) == 0 && ((a & told) == 0 || (b & told) == 0));
}

/// One member's operations on one communicator, in order.
struct MemberSequence {
  std::vector<std::uint64_t> symbols;  ///< see may_be_one
  std::vector<Nanoseconds> enter_ns;   ///< same length, ascending
  std::vector<Nanoseconds> exit_ns;
};

}  // namespace nsys_explain::clock
