#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collectives/alignment.hpp"
#include "collectives/matching.hpp"

namespace nsys_explain::collectives {

/// Indices of arrivals that belong to one operation, at most one per member.
using MatchedArrivals = std::vector<std::size_t>;

/// The arrivals of one member that take part in a match, in order, with what each must share with its counterparts.
struct MemberArrivals {
  std::vector<std::size_t> indices;
  std::vector<std::uint64_t> symbols;
};

/// Brings members together: k-th with k-th where their symbols are equal, else by alignment. Members that lost
/// different operations may hold equal symbols, too: where times contradict the order, it gives way to an alignment
/// that agrees far better, which a clock that steps or slews gives no cause for. Arrivals without counterpart are
/// matched with nothing. one_way: all sends that one member recorded, and all receives that the other did; a sender may
/// be done before its receiver enters.
std::vector<MatchedArrivals> match_members(std::span<const JobArrival> arrivals,
                                           std::span<const MemberArrivals> members, const AlignmentOptions& alignment,
                                           bool one_way = false);

/// A receiver leaves after its sender has entered, while a sender may be done before.
bool is_received(std::span<const JobArrival> arrivals, const MatchedArrivals& match, const AlignmentOptions& alignment);

/// Sends and receives between two members each. Where calls tell the peer, the arrivals of a pair are matched in order;
/// where they do not, the clock must be known, if only roughly: see exchange_links.hpp.
std::vector<MatchedArrivals> match_pair_exchanges(const PlannedCommunicator& communicator,
                                                  std::span<const JobArrival> arrivals,
                                                  std::span<const std::size_t> exchanges,
                                                  const AlignmentOptions& alignment);

/// Beyond this no two arrivals are one operation: one leaves this long before the other enters.
inline bool is_feasible(const JobArrival& a, const JobArrival& b, const AlignmentOptions& alignment) {
  return a.enter <= b.exit + 4 * alignment.time_scale_ns && b.enter <= a.exit + 4 * alignment.time_scale_ns;
}

}  // namespace nsys_explain::collectives
