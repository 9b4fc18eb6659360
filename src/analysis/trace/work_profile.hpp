#pragma once

#include <span>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/collective.hpp"
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

}  // namespace nsys_explain::analysis
