#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock/clock_map.hpp"
#include "collectives/alignment.hpp"

namespace nsys_explain::collectives {

using clock::ClockMap;

/// The union of the operations of members merged so far, on the clock of the first of them. Each operation has an
/// identifier that stays when others are put in before it.
class Consensus {
 public:
  /// Symbols, latest enters and mean exits of the operations, in order; enters and exits ascend.
  const MemberSequence& timeline() const { return timeline_; }
  std::span<const Nanoseconds> earliest_exit_ns() const { return earliest_exit_ns_; }
  std::span<const std::int64_t> identifiers() const { return identifiers_; }

  /// Merges a member: partner[i] = index of its i-th operation in timeline() or -1 (ascending where not -1). Operations
  /// without partner become new ones at their place, with identifiers from next_identifier on. Returns the identifier
  /// of each operation.
  std::vector<std::int64_t> merge(const MemberSequence& member, const ClockMap& map,
                                  std::span<const std::ptrdiff_t> partner, std::int64_t& next_identifier);

 private:
  void update(std::size_t index, Nanoseconds enter_ns, Nanoseconds exit_ns);
  /// Puts the operations at (place, operation), sorted, in front of the ones now at place.
  struct Insertion {
    std::size_t place = 0;
    std::uint64_t symbol = 0;
    Nanoseconds enter_ns = 0, exit_ns = 0;
    std::int64_t identifier = 0;
  };
  void insert(std::span<const Insertion> insertions);

  MemberSequence timeline_;
  std::vector<Nanoseconds> earliest_exit_ns_;
  std::vector<std::int64_t> counts_;  ///< members merged into each operation
  std::vector<std::int64_t> identifiers_;
};

}  // namespace nsys_explain::collectives
