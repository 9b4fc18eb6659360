#pragma once

#include <map>
#include <span>
#include <vector>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/levels.hpp"

/// Trace ranks whose transfers are slow make their partners late as well: one culprit, many who are late.
namespace nsys_explain::analysis {

/// The slow trace rank whose transfers are most of what the place takes longer than its likes, if there is one: it is
/// of the place, or exchanges with all of it.
const SlowRank* slow_rank_behind(const Place& place, const JobDelays& delays);

/// The slow trace rank, first, and all that are late by its transfers.
Place late_with(const SlowRank& slow, const JobDelays& delays);

/// A slow trace rank, first, and all that are late by its transfers, with the probability that chance makes them as
/// late.
struct LateTogether {
  Place late;
  double p_value = 1;
};

/// In the order of JobDelays::slow_ranks.
using SlowRanks = std::map<const SlowRank*, LateTogether>;

/// Those that are late by transfers, beyond chance. Who shares slow transfers is last now here, now there, so they are
/// tested together.
SlowRanks proven_slow_ranks(const JobDelays& delays, double limit);

/// Takes the slow transfers off those who are late by them, but for the slow trace ranks themselves: what is left is
/// their own.
void take_off_slow_transfers(const SlowRanks& slow_ranks, JobDelays& delays);

/// Leaves out places with a slow trace rank: they neither hide another culprit nor are one.
void leave_out_slow_ranks(const SlowRanks& slow_ranks, std::span<const Place> places, std::vector<std::size_t>& likes);

}  // namespace nsys_explain::analysis
