#pragma once

#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/time.hpp"

/// Puts the sessions of a job on one job clock and says how well it knows it. No MPI: see fit.hpp for how the work is
/// spread. `u`, here and everywhere in this module, is session time: UTC by the report minus the job epoch.
namespace nsys_explain::clock {

/// Drifts count in steps of 2^-20 ppb: less than a nanosecond over eleven days, and job time becomes pure integer
/// arithmetic, equal on every machine.
inline constexpr double drift_steps_per_ppb = 1024.0 * 1024.0;

/// Job time of session time u: with x = u - offset, x - floor(drift * (x - pivot) + 1/2), the drift rounded to its
/// step; where the clock has bends, their correction is subtracted, too. Exact integer arithmetic. Monotone for |drift|
/// < 1e9 ppb: never decreases, and grows by at most 2 ns per ns. no_time stays no_time.
Nanoseconds to_job_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds u_ns);

/// The inverse: the earliest session time whose job time is job_ns or later. So to_session_time(to_job_time(u)) is u,
/// or one less where a positive drift gives two neighbours the same job time. no_time stays no_time.
Nanoseconds to_session_time(const SessionClock& clock, Nanoseconds pivot_ns, Nanoseconds job_ns);

}  // namespace nsys_explain::clock
