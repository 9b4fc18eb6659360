#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collectives/stream_records.hpp"

namespace nsys_explain::collectives {

/// What a program does in a stream, learned from the operations of all trace ranks whose calls name their
/// communicators. A deed is an operation in a communicator of some size and distance between members: what a program
/// does in one, it does in all of them.
class ProgramOrder {
 public:
  explicit ProgramOrder(const JobRecords& job);

  /// The communicator of which the program does an operation at a position of a stream, by what follows there, if it
  /// is known: named, or expected. 0 if the program does several things there, or it was not seen often enough.
  std::uint64_t expected(const JobRecords& job, std::size_t rank, std::uint8_t stream, std::size_t position) const;

 private:
  /// What it does before these deeds; 0 as above.
  std::uint64_t before(const std::vector<std::uint64_t>& deeds) const;
  /// The deeds after a position, nearest first, as far as they are known; at most the longest context.
  static std::vector<std::uint64_t> following(const JobRecords& job, const std::vector<StreamRecord>& records,
                                              std::size_t position);

  /// How often which deed came before a context of some length.
  std::map<std::pair<std::size_t, std::uint64_t>, std::map<std::uint64_t, std::size_t>> seen_;
};

}  // namespace nsys_explain::collectives
