#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace nsys_explain {

/// All times and durations are signed integer nanoseconds; nothing is ever rounded through a double.
using Nanoseconds = std::int64_t;

/// "No such time": an open range's end, a clock that was not recorded. Also the value of an SQL NULL in an integer
/// column.
inline constexpr Nanoseconds no_time = std::numeric_limits<Nanoseconds>::min();

enum class TimeKind : std::uint8_t { trace, session, job };

/// A time on one of the clocks of docs/glossary.md ("When"). Those of different clocks do not mix: clock/job_clock.hpp
/// makes one of another.
template <TimeKind kind>
struct TimePoint {
  Nanoseconds ns = 0;

  constexpr TimePoint() = default;
  constexpr explicit TimePoint(Nanoseconds value_ns) : ns(value_ns) {}

  constexpr auto operator<=>(const TimePoint&) const = default;  // NOLINT(modernize-use-nullptr): as in layout.hpp
  friend constexpr Nanoseconds operator-(TimePoint a, TimePoint b) { return a.ns - b.ns; }
  friend constexpr TimePoint operator+(TimePoint time, Nanoseconds later_ns) { return TimePoint(time.ns + later_ns); }
  friend constexpr TimePoint operator-(TimePoint time, Nanoseconds earlier_ns) { return time + -earlier_ns; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(ns);
  }
};
using TraceTime = TimePoint<TimeKind::trace>;
using SessionTime = TimePoint<TimeKind::session>;
using JobTime = TimePoint<TimeKind::job>;

/// Half-open interval [start_ns, end_ns).
struct Interval {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  friend bool operator==(const Interval&, const Interval&) = default;
};

}  // namespace nsys_explain
