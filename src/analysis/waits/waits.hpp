#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

/// What the job clock knows about differences between trace ranks.
struct ClockKnowledge {
  /// Times of trace ranks can be compared if this is equal.
  std::function<std::int32_t(std::int32_t trace_rank)> component;
  /// One standard uncertainty of the difference of two times near `at_ns` of comparable trace ranks.
  std::function<Nanoseconds(std::int32_t trace_rank_a, std::int32_t trace_rank_b, Nanoseconds at_ns)> uncertainty;
};

/// An arrival is resolved as the last one beyond this many standard uncertainties.
inline constexpr std::int64_t resolution_factor = 3;

/// Last arrivers and transfers of every instance of a block whose times are job time; its arrivals' waits follow from
/// them. Of members without comparable clocks, and of infeasible instances, nothing is claimed: waits are 0, and none
/// is resolved.
void compute_waits(MatchedBlock& block, const ClockKnowledge& clock);

/// True where a member was still there when the last one entered, as far as the clocks tell. Who left before (the root
/// of a broadcast, or who only sends to that of a reduce) did not wait for the last one: in Scalasca's terms, late
/// broadcast and early reduce are waits of those who receive. Its wait is nobody's fault.
bool stayed_for_last(const Instance& instance, const InstanceArrival& member);

/// Splits the lateness of one member: own is its work before this enter beyond that of its peers (docs/method.md,
/// Lateness; see rank_timeline.hpp), at most the lateness; the rest was inherited.
void split_lateness(const Instance& instance, InstanceArrival& member, Nanoseconds excess_work_ns);

/// How much the waiting of each who stayed shrinks at most if the last arriver had come without its own lateness (but
/// not before the second-last); 0 where the instance is not resolved.
Nanoseconds most_caused_wait(const Instance& instance, std::span<const InstanceArrival> members);

/// Caused wait of the last arriver of a resolved instance whose lateness has been split: how much the others' waiting
/// shrinks if it had come without its own lateness (but not before the second-last); of those who stayed for it.
void compute_caused_wait(Instance& instance, std::span<const InstanceArrival> members);

}  // namespace nsys_explain::analysis
