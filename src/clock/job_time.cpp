#include "nsys_explain/clock/job_time.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::clock {
namespace {

__extension__ using Wide = __int128;  // drift steps x nanoseconds need about 100 bits

constexpr std::int64_t unit_ppb = 1'000'000'000;
constexpr int drift_step_bits = 20;
static_assert(drift_steps_per_ppb == 1 << drift_step_bits);

/// Drift steps per unit drift.
constexpr Wide unit_drift = Wide{unit_ppb} << drift_step_bits;

Wide floor_divide(Wide numerator, Wide positive_denominator) {
  const Wide quotient = numerator / positive_denominator;
  return numerator % positive_denominator < 0 ? quotient - 1 : quotient;
}

std::int64_t drift_steps(const SessionClock& clock) {
  return std::llround(clock.drift_ppb * drift_steps_per_ppb);
}

/// floor(drift * since_pivot + 1/2). Dividing by the power of two first changes nothing, and what is left of a run of
/// hours fits 64 bits, whose division by a constant takes a tenth of the time.
Nanoseconds drift_correction(std::int64_t steps, Nanoseconds since_pivot_ns) {
  const Wide in_ppb = (2 * (static_cast<Wide>(steps) * since_pivot_ns) + unit_drift) >> (drift_step_bits + 1);
  const auto low = static_cast<std::int64_t>(in_ppb);
  if (low != in_ppb) return static_cast<Nanoseconds>(floor_divide(in_ppb, unit_ppb));
  return low / unit_ppb - (low % unit_ppb < 0 ? 1 : 0);
}

/// Offset and drift alone, then bends: one rounding between two knots, so that time never runs backwards.
Nanoseconds bent_correction(const SessionClock& clock, std::int64_t steps, Nanoseconds pivot_ns, Nanoseconds x) {
  const std::vector<ClockBend>& bends = clock.bends;
  const auto at_knot = [&](const ClockBend& bend) {
    return bend.correction_ns + drift_correction(steps, bend.at_ns - pivot_ns);
  };
  const auto after = std::upper_bound(bends.begin(), bends.end(), x,
                                      [](Nanoseconds t, const ClockBend& bend) { return t < bend.at_ns; });
  if (after == bends.begin() || after == bends.end()) {
    const ClockBend& nearest = after == bends.begin() ? bends.front() : bends.back();
    return at_knot(nearest) + drift_correction(steps, x - nearest.at_ns);
  }
  const ClockBend& before = *(after - 1);
  const Wide from = at_knot(before);
  const Wide length = after->at_ns - before.at_ns;
  const Wide rise = static_cast<Wide>(at_knot(*after)) - from;
  return static_cast<Nanoseconds>(from + floor_divide(2 * rise * (x - before.at_ns) + length, 2 * length));
}

}  // namespace

Nanoseconds to_job_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds u_ns) {
  if (u_ns == no_time) return no_time;
  const Nanoseconds x = u_ns - clock.offset_ns;
  const std::int64_t steps = drift_steps(clock);
  if (!clock.bends.empty()) return x - bent_correction(clock, steps, pivot_ns, x);
  return steps == 0 ? x : x - drift_correction(steps, x - pivot_ns);
}

Nanoseconds to_session_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds job_ns) {
  if (job_ns == no_time) return no_time;
  const std::int64_t steps = drift_steps(clock);
  if (steps == 0 && clock.bends.empty()) return job_ns + clock.offset_ns;
  // x - pivot = (job - pivot) / (1 - drift), wrong by rounding only; walk the last nanoseconds.
  const Wide since_pivot = floor_divide(static_cast<Wide>(job_ns - pivot_ns) * unit_drift, unit_drift - steps);
  Nanoseconds u = pivot_ns + static_cast<Nanoseconds>(since_pivot) + clock.offset_ns;
  for (std::size_t i = 0; i < clock.bends.size(); ++i) u += job_ns - to_job_time(clock, pivot_ns, u);
  while (to_job_time(clock, pivot_ns, u) < job_ns) ++u;
  while (to_job_time(clock, pivot_ns, u - 1) >= job_ns) --u;
  return u;
}

}  // namespace nsys_explain::clock
