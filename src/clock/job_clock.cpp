#include "clock/job_clock.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::clock {
namespace {

__extension__ using Wide = __int128;

Wide floor_divide(Wide numerator, Wide positive_denominator) {
  const Wide quotient = numerator / positive_denominator;
  return numerator % positive_denominator < 0 ? quotient - 1 : quotient;
}

std::int64_t drift_steps(const SessionClock& clock) {
  return std::llround(clock.drift_ppb * drift_steps_per_ppb);
}

}  // namespace

JobClock::JobClock(const SessionClock& clock, Nanoseconds pivot_ns)
    : clock_(&clock), pivot_ns_(pivot_ns), drift_steps_(drift_steps(clock)), is_straight_(clock.bends.empty()) {}

Nanoseconds JobClock::floor_divide_by_unit(Wide numerator) {
  return static_cast<Nanoseconds>(floor_divide(numerator, unit_ppb));
}

/// Offset and drift alone, then bends: one rounding between two knots, so that time never runs backwards.
Nanoseconds JobClock::bent_correction(Nanoseconds x) const {
  const std::vector<ClockBend>& bends = clock_->bends;
  const auto at_knot = [&](const ClockBend& bend) {
    return bend.correction_ns + drift_correction(bend.at_ns - pivot_ns_);
  };
  const auto after = std::upper_bound(bends.begin(), bends.end(), x,
                                      [](Nanoseconds t, const ClockBend& bend) { return t < bend.at_ns; });
  if (after == bends.begin() || after == bends.end()) {
    const ClockBend& nearest = after == bends.begin() ? bends.front() : bends.back();
    return at_knot(nearest) + drift_correction(x - nearest.at_ns);
  }
  const ClockBend& before = *(after - 1);
  const Wide from = at_knot(before);
  const Wide length = after->at_ns - before.at_ns;
  const Wide rise = static_cast<Wide>(at_knot(*after)) - from;
  return static_cast<Nanoseconds>(from + floor_divide(2 * rise * (x - before.at_ns) + length, 2 * length));
}

SessionTime JobClock::session_time(JobTime time) const {
  if (time.ns == no_time) return SessionTime(no_time);
  if (drift_steps_ == 0 && is_straight_) return SessionTime(time.ns + clock_->offset_ns);
  // x - pivot = (job - pivot) / (1 - drift), wrong by rounding only; walk the last nanoseconds.
  const Wide since_pivot = floor_divide(static_cast<Wide>(time.ns - pivot_ns_) * unit_drift, unit_drift - drift_steps_);
  SessionTime u(pivot_ns_ + static_cast<Nanoseconds>(since_pivot) + clock_->offset_ns);
  const JobClock& job_time = *this;
  for (std::size_t i = 0; i < clock_->bends.size(); ++i) u = u + (time - job_time(u));
  while (job_time(u) < time) u = u + 1;
  while (job_time(u - 1) >= time) u = u - 1;
  return u;
}

}  // namespace nsys_explain::clock
