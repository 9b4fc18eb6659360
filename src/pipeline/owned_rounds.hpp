#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "match_collectives.hpp"

/// The instances that a tool rank owns, some at a time: what is told of them fits the caches then.
namespace nsys_explain::pipeline {

/// Some of the instances of an owned block.
struct Piece {
  std::size_t block = 0, first = 0, end = 0;
};

using OwnedRounds = std::vector<std::vector<Piece>>;

/// All owned instances in their order, with about as many arrivals in each round as leave a tool rank at a time
/// (records_per_round): those of units at home do not.
OwnedRounds plan_owned_rounds(const CrossRank& cross);

/// Of one round; none where other tool ranks have more rounds.
inline std::span<const Piece> pieces_of(const OwnedRounds& rounds, std::size_t round) {
  return round < rounds.size() ? rounds[round] : std::span<const Piece>();
}

inline std::span<InstanceArrival> members_of(MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}
inline std::span<const InstanceArrival> members_of(const MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}

}  // namespace nsys_explain::pipeline
