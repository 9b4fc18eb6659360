#include "pipeline/match/unit_arrivals.hpp"

#include <algorithm>

#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/tool_rank/outgoing.hpp"

namespace nsys_explain::pipeline {
namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;

struct RoutedArrival {
  std::int32_t unit = 0;
  std::int32_t member = 0;  ///< index into PlannedCommunicator::trace_ranks
  TraceArrival arrival;
};

/// Offsets of the members' arrivals of a unit, one member after another.
class UnitRoom {
 public:
  UnitRoom(const MatchUnit& unit, const PlannedCommunicator& planned) : first_position_(unit.first_position) {
    first_.push_back(0);
    for (const std::int64_t length : planned.lengths) {
      const std::int64_t arrivals = std::min(length, unit.end_position) - unit.first_position;
      first_.push_back(first_.back() + static_cast<std::size_t>(std::max<std::int64_t>(arrivals, 0)));
    }
  }
  std::size_t size() const { return first_.back(); }
  std::size_t size_of(std::size_t member) const { return first_[member + 1] - first_[member]; }
  std::size_t offset_in_member(const Arrival& arrival) const {
    return static_cast<std::size_t>(arrival.position - first_position_);
  }
  std::size_t offset_of(const RoutedArrival& routed) const {
    return first_[static_cast<std::size_t>(routed.member)] + offset_in_member(routed.arrival);
  }

 private:
  std::int64_t first_position_ = 0;
  std::vector<std::size_t> first_;  ///< of each member's first one
};

}  // namespace

Routes::Routes(std::span<const PlannedCommunicator> communicators, std::span<const MatchUnit> units) {
  std::vector<std::size_t> first_unit(communicators.size(), 0);
  for (std::size_t u = units.size(); u-- > 0;) first_unit[static_cast<std::size_t>(units[u].communicator)] = u;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    const MatchUnit& first = units[first_unit[c]];
    for (std::size_t m = 0; m < communicators[c].trace_ranks.size(); ++m) {
      routes_[{communicators[c].source_key, communicators[c].trace_ranks[m]}] = {
          c, m, first_unit[c], first.end_position - first.first_position};
    }
  }
}

RoutesOfRank Routes::of(const LocalRank& rank) const {
  RoutesOfRank result;
  const TraceArrival* before = nullptr;
  for (const TraceArrival& arrival : rank.arrivals) {
    const bool is_seen = before != nullptr && before->communicator == arrival.communicator;
    before = &arrival;
    if (is_seen || arrival.communicator == collectives::withheld_key || result.contains(arrival.communicator)) continue;
    result.emplace(arrival.communicator, routes_.at({arrival.communicator, arrival.trace_rank}));
  }
  return result;
}

std::span<const JobArrival> UnitArrivals::of(std::size_t owned, const ClockOfRank& clock_of) {
  timed_.clear();
  timed_.reserve(size(owned));
  std::int32_t trace_rank = -1;
  clock::TraceClock clock;
  const auto take = [&](const TraceArrival& arrival) {
    if (arrival.trace_rank != trace_rank) clock = clock_of(trace_rank = arrival.trace_rank);
    timed_.push_back({arrival, clock(arrival.enter), clock(arrival.exit)});
  };
  for (const LocalMember& member : units_[owned].members)
    for (const std::uint32_t index : member.indices) take((*member.arrivals)[index]);
  std::for_each(units_[owned].sent.begin(), units_[owned].sent.end(), take);
  return timed_;
}

std::size_t UnitArrivals::size(std::size_t owned) const {
  std::size_t arrivals = units_[owned].sent.size();
  for (const LocalMember& member : units_[owned].members) arrivals += member.indices.size();
  return arrivals;
}

void UnitArrivals::release(std::size_t owned) {
  nsys_explain::release(units_[owned].sent);
}

UnitArrivals bring_arrivals(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces,
                            std::span<const PlannedCommunicator> communicators, std::span<const MatchUnit> units) {
  UnitArrivals result;
  std::vector<UnitRoom> rooms;                     // of the owned units
  std::vector<std::size_t> slot(units.size(), 0);  // which of them
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].owner != communicator.rank()) continue;
    slot[u] = rooms.size();
    const PlannedCommunicator& planned = communicators[static_cast<std::size_t>(units[u].communicator)];
    const UnitRoom& room = rooms.emplace_back(units[u], planned);
    UnitArrivals::Unit& unit = result.units_.emplace_back();
    if (!units[u].at_reader) {
      unit.sent.resize(room.size());
      continue;
    }
    unit.members.resize(planned.trace_ranks.size());
    for (std::size_t m = 0; m < unit.members.size(); ++m) unit.members[m].indices.resize(room.size_of(m));
  }
  const auto take = [&](const RoutedArrival& routed) {
    const std::size_t owned = slot[static_cast<std::size_t>(routed.unit)];
    result.units_[owned].sent[rooms[owned].offset_of(routed)] = routed.arrival;
  };
  const Routes routes(communicators, units);
  auto outgoing = nothing_for<RoutedArrival>(communicator);
  const auto bring = [&](const LocalRank& rank) {
    const RoutesOfRank of_rank = routes.of(rank);
    auto route = of_rank.begin();
    std::size_t told = 0;
    for (std::uint32_t a = 0; a < rank.arrivals.size(); ++a) {
      const TraceArrival& arrival = rank.arrivals[a];
      if (arrival.communicator == collectives::withheld_key) continue;
      if (route->first != arrival.communicator) route = of_rank.find(arrival.communicator);
      const std::size_t u = route->second.unit_of(arrival);
      const MatchUnit& unit = units[u];
      if (unit.at_reader) {
        UnitArrivals::LocalMember& member = result.units_[slot[u]].members[route->second.member];
        member.arrivals = &rank.arrivals;
        member.indices[rooms[slot[u]].offset_in_member(arrival)] = a;
        continue;
      }
      const RoutedArrival routed{static_cast<std::int32_t>(u), static_cast<std::int32_t>(route->second.member),
                                 arrival};
      if (unit.owner == communicator.rank()) {
        take(routed);
      } else {
        outgoing[static_cast<std::size_t>(unit.owner)].push_back(routed);
        ++told;
      }
    }
    return told;
  };
  std::vector<const LocalRank*> ranks;
  for (const LocalTrace& trace : local_traces)
    for (const LocalRank& rank : trace.ranks) ranks.push_back(&rank);
  exchange::Gathered<RoutedArrival> received;
  auto next = ranks.begin();
  while (communicator.maximum(ranks.end() - next) > 0) {
    empty(outgoing);
    for (std::size_t told = 0; next != ranks.end() && told < records_per_round; ++next) told += bring(**next);
    communicator.all_to_all(outgoing, received);
    std::for_each(received.values.begin(), received.values.end(), take);
  }
  return result;
}

}  // namespace nsys_explain::pipeline
