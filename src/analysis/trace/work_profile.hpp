#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/report_parts.hpp"
#include "nsys_explain/model/work.hpp"

/// What a trace rank did before each of its arrivals: made while its events are in memory, kept when they are gone.
namespace nsys_explain::analysis {

/// A span of a device's time that went into one thing.
struct WorkPiece {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;
  WorkPart part = WorkPart::pending;
};

/// The time of a device from its first to its last activity: ascending, without gaps or overlaps; neighbours differ in
/// their part. Trace time.
///
///     GPU    [kernel]........................[kernel]     the GPU is idle between the kernels
///     host   sync|  gc.collect  |.|launch|                the call that launches the second one
///     part   sync|  named_range |u|launch| pending
///
/// Where GPU activities overlap, time belongs to the first of compute, communication, blocking copy, copy, graph. An
/// idle span belongs to the host until the call that launched the next activity returns (HostActivity tells what the
/// host did), and is `pending` after that, or where that call is not in the trace.
std::vector<WorkPiece> work_timeline(const RankEvents& events);

/// One profile per arrival of the device, parallel to `arrivals`, which are in trace time and in enter order.
/// The parts of a profile add up to the arrival's work_ns.
std::vector<WorkProfile> profile_work(const RankEvents& events, std::span<const TraceArrival> arrivals);

/// The time of a profile in which the GPU was idle, or copied, because the host was late or stood still.
Nanoseconds host_idle_ns(const WorkProfile& profile);

/// A span of one collective in which no compute ran for one reason. Compute of less than a moment within it is not
/// counted, so that a row of short kernels beside a collective is one stretch.
struct ExposedStretch {
  Nanoseconds start_ns = 0, end_ns = 0;  ///< trace time
  Nanoseconds exposed_ns = 0;            ///< of the span
  std::int32_t arrival = -1;             ///< Arrival::index; -1: communication that is in none
  Operation operation = Operation::unknown;
  StandstillReason reason = StandstillReason::not_told;
  std::array<std::uint8_t, 2> reserved = {};  ///< no padding bytes travel uninitialised
};

/// Of a device, ascending; they add up to its exposed communication. `arrivals` are in trace time and in enter order.
///
///     compute     [.......]              [.......]      launched at l, it waits for the exit: launch-paced until l,
///     host                   l|launch|                  then blocking
///     collective      [.................]
std::vector<ExposedStretch> exposed_stretches(const RankEvents& events, std::span<const TraceArrival> arrivals);

/// Sets Arrival::blocking: false where compute went on during most of the last 50 us before the exit, so that what
/// came next cannot have waited for it. Traces record no dependences by default; this is what shows of them.
void mark_blocking(const RankEvents& events, std::span<TraceArrival> arrivals);

/// For each interval: how much of it compute kernels of the device ran (the union of their times, and of pauses between
/// them up to `longest_pause_ns`; but not of the pause in which an interval ends, for compute may have waited for that
/// end). O(n log n) in the intervals, linear where they ascend by start; linear in the kernels, of which nothing is
/// kept.
std::vector<Nanoseconds> compute_within(const RankEvents& events, std::span<const Interval> intervals,
                                        Nanoseconds longest_pause_ns = 0);

}  // namespace nsys_explain::analysis
