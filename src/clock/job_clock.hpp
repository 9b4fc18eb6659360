#pragma once

#include <cstdint>

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/time.hpp"

/// Puts the sessions of a job on one job clock and says how well it knows it. No MPI: see fit.hpp for how the work is
/// spread. `u`, here and everywhere in this module, is session time.
namespace nsys_explain::clock {

/// Drifts count in steps of 2^-20 ppb: less than a nanosecond over eleven days, and job time becomes pure integer
/// arithmetic, equal on every machine.
inline constexpr double drift_steps_per_ppb = 1024.0 * 1024.0;

/// Of a session whose clock is taken as it is: job time is session time.
inline const SessionClock as_recorded;

/// Job time of session time u: with x = u - offset, x - floor(drift * (x - pivot) + 1/2), the drift rounded to its
/// step; where the clock has bends, their correction is subtracted, too. Exact integer arithmetic. Monotone for |drift|
/// < 1e9 ppb: never decreases, and grows by at most 2 ns per ns. no_time stays no_time. The SessionClock must remain.
class JobClock {
 public:
  JobClock() : JobClock(as_recorded, 0) {}
  JobClock(const SessionClock& clock, Nanoseconds pivot_ns);

  JobTime operator()(SessionTime u) const {
    if (u.ns == no_time) return JobTime(no_time);
    const Nanoseconds x = u.ns - clock_->offset_ns;
    return JobTime(is_straight_ ? x - drift_correction(x - pivot_ns_) : x - bent_correction(x));
  }

  /// The inverse: the earliest session time whose job time is `time` or later. So that of the job time of u is u, or
  /// one less where a positive drift gives two neighbours the same job time.
  SessionTime session_time(JobTime time) const;

 private:
  __extension__ using Wide = __int128;  // drift steps x nanoseconds need about 100 bits
  static constexpr int drift_step_bits = 20;
  static_assert(drift_steps_per_ppb == 1 << drift_step_bits);
  static constexpr std::int64_t unit_ppb = 1'000'000'000;
  static constexpr Wide unit_drift = Wide{unit_ppb} << drift_step_bits;  ///< drift steps per unit drift

  /// floor(drift * since_pivot + 1/2). Dividing by the power of two first changes nothing, and what is left of a run of
  /// hours fits 64 bits, whose division by a constant takes a tenth of the time.
  Nanoseconds drift_correction(Nanoseconds since_pivot_ns) const {
    if (drift_steps_ == 0) return 0;
    const Wide in_ppb = (2 * (static_cast<Wide>(drift_steps_) * since_pivot_ns) + unit_drift) >> (drift_step_bits + 1);
    const auto low = static_cast<std::int64_t>(in_ppb);
    if (low != in_ppb) return floor_divide_by_unit(in_ppb);
    return low / unit_ppb - (low % unit_ppb < 0 ? 1 : 0);
  }
  static Nanoseconds floor_divide_by_unit(Wide numerator);
  Nanoseconds bent_correction(Nanoseconds x) const;

  const SessionClock* clock_;
  Nanoseconds pivot_ns_;
  std::int64_t drift_steps_;
  bool is_straight_;
};

/// The clock of the traces of a session, which begin at `start`: to job time, where no_time stays no_time, and back.
class TraceClock {
 public:
  TraceClock() = default;
  explicit TraceClock(SessionTime start, const JobClock& clock = {}) : start_(start), clock_(clock) {}

  SessionTime session_time(TraceTime time) const { return start_ + time.ns; }
  JobTime operator()(TraceTime time) const {
    return time.ns == no_time ? JobTime(no_time) : clock_(session_time(time));
  }
  TraceTime trace_time(JobTime time) const { return TraceTime(clock_.session_time(time) - start_); }

 private:
  SessionTime start_;
  JobClock clock_;
};

}  // namespace nsys_explain::clock
