#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "pipeline/match/match_collectives.hpp"

/// The instances that a tool rank owns, some at a time: what is told of them fits the caches then.
namespace nsys_explain::pipeline {

/// Some of the instances of an owned block.
struct Piece {
  std::size_t block = 0, first = 0, end = 0;
};

/// All owned instances. Those of units at home concern nobody else: they are gone through by themselves, so that tool
/// ranks wait for each other only in rounds that are alike.
struct OwnedRounds {
  std::vector<Piece> at_reader;
  /// The others, with about as many arrivals in each round as leave a tool rank at a time (records_per_round).
  std::vector<std::vector<Piece>> rounds;

  /// None where other tool ranks have more rounds.
  std::span<const Piece> of(std::size_t round) const {
    return round < rounds.size() ? rounds[round] : std::span<const Piece>();
  }
};

OwnedRounds plan_owned_rounds(const CrossRank& cross);

}  // namespace nsys_explain::pipeline
