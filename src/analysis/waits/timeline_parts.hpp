#pragma once

#include <cstdint>
#include <span>

#include "analysis/waits/rank_timeline.hpp"
#include "model/hash.hpp"

/// Parts of a path's making, one file each; used by rank_timeline.cpp alone.
namespace nsys_explain::analysis {

inline std::uint64_t mix_into(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * golden_ratio;
  return hash ^ (hash >> 29);
}

/// Work is told apart arrival by arrival, blocking or not: peers then agree on what lies between two places even where
/// one had to wait at a place and another did not. Two of one moment have the same work, whichever is first.
void measure_work(RankTimeline& path, std::span<const WorkProfile> profiles);

/// Where arrivals lie in their steps, and which steps were captured from start to end.
void find_places(RankTimeline& path);

/// After find_places.
void find_role(RankTimeline& path);

}  // namespace nsys_explain::analysis
