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

/// All owned instances. Those of units at home concern nobody else: they are gone through by themselves, so that tool
/// ranks wait for each other only in rounds that are alike.
struct OwnedRounds {
  std::vector<Piece> at_home;
  /// The others, with about as many arrivals in each round as leave a tool rank at a time (records_per_round).
  std::vector<std::vector<Piece>> rounds;

  /// None where other tool ranks have more rounds.
  std::span<const Piece> of(std::size_t round) const {
    return round < rounds.size() ? rounds[round] : std::span<const Piece>();
  }
};

OwnedRounds plan_owned_rounds(const CrossRank& cross);

inline std::span<InstanceArrival> members_of(MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}
inline std::span<const InstanceArrival> members_of(const MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}

}  // namespace nsys_explain::pipeline
