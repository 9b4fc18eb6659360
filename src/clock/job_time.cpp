#include "nsys_explain/clock/job_time.hpp"

#include <cmath>

namespace nsys_explain::clock {
namespace {

__extension__ using Wide = __int128;  // drift steps x nanoseconds need about 100 bits

/// Drift steps per unit drift: 1e9 ppb of drift_steps_per_ppb each.
constexpr Wide unit_drift = Wide{1'000'000'000} << 20;

Wide floor_divide(Wide numerator, Wide positive_denominator) {
  const Wide quotient = numerator / positive_denominator;
  return numerator % positive_denominator < 0 ? quotient - 1 : quotient;
}

Wide drift_steps(const SessionClock& clock) {
  return static_cast<Wide>(std::llround(clock.drift_ppb * drift_steps_per_ppb));
}

Nanoseconds drift_correction(Wide steps, Nanoseconds since_pivot_ns) {
  return static_cast<Nanoseconds>(floor_divide(2 * steps * since_pivot_ns + unit_drift, 2 * unit_drift));
}

}  // namespace

Nanoseconds to_job_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds u_ns) {
  if (u_ns == no_time) return no_time;
  const Nanoseconds x = u_ns - clock.offset_ns;
  const Wide steps = drift_steps(clock);
  return steps == 0 ? x : x - drift_correction(steps, x - pivot_ns);
}

Nanoseconds to_session_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds job_ns) {
  if (job_ns == no_time) return no_time;
  const Wide steps = drift_steps(clock);
  if (steps == 0) return job_ns + clock.offset_ns;
  // x - pivot = (job - pivot) / (1 - drift), wrong by rounding only; walk the last nanoseconds.
  const Wide since_pivot = floor_divide(static_cast<Wide>(job_ns - pivot_ns) * unit_drift, unit_drift - steps);
  Nanoseconds u = pivot_ns + static_cast<Nanoseconds>(since_pivot) + clock.offset_ns;
  while (to_job_time(clock, pivot_ns, u) < job_ns) ++u;
  while (to_job_time(clock, pivot_ns, u - 1) >= job_ns) --u;
  return u;
}

}  // namespace nsys_explain::clock
