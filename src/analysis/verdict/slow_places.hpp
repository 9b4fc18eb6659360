#pragma once

#include <map>
#include <span>
#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"

/// Trace ranks and nodes whose transfers are slow make their partners late as well: one culprit, many who are late.
namespace nsys_explain::analysis {

/// The slow place whose transfers are most of what `place` takes longer than its likes, if there is one: some of it is
/// slow, or it exchanges with all of it.
const SlowPlace* slow_place_behind(const Place& place, const JobDelays& delays);

/// The trace ranks of the slow place, first, and all that are late by its transfers.
std::vector<std::size_t> late_with(const SlowPlace& slow, const JobDelays& delays);

/// Likewise, with the probability that chance makes them as late.
struct LateTogether {
  std::vector<std::size_t> late;
  double p_value = 1;
};

/// In the order of JobDelays::slow_places.
using SlowPlaces = std::map<const SlowPlace*, LateTogether>;

/// Those that are late by transfers, beyond chance. Who shares slow transfers is last now here, now there, so they are
/// tested together.
SlowPlaces proven_slow_places(const JobDelays& delays, double limit);

/// Takes the slow transfers off those who are late by them, but for the slow places themselves: what is left is
/// their own.
void take_off_slow_transfers(const SlowPlaces& slow_places, JobDelays& delays);

/// Leaves out places with a trace rank of a slow one: they neither hide another culprit nor are one.
void leave_out_slow_places(const SlowPlaces& slow_places, std::span<const Place> places,
                           std::vector<std::size_t>& likes);

}  // namespace nsys_explain::analysis
