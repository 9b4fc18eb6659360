#pragma once

#include <cstdint>
#include <limits>

namespace nsys_explain {

/// All times and durations are signed integer nanoseconds; nothing is ever rounded through a double.
using Nanoseconds = std::int64_t;

/// "No such time": an open range's end, a clock that was not recorded. Also the value of an SQL NULL in an integer
/// column.
inline constexpr Nanoseconds no_time = std::numeric_limits<Nanoseconds>::min();

/// Half-open interval [start_ns, end_ns).
struct Interval {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

}  // namespace nsys_explain
