#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "clock/job_clock.hpp"
#include "collectives/matching.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/read/local_traces.hpp"

/// How arrivals get to the owners of their units.
namespace nsys_explain::pipeline {

/// Where the arrivals of a communicator on one trace rank go.
struct Route {
  std::size_t communicator = 0;
  std::size_t member = 0;  ///< index into PlannedCommunicator::trace_ranks
  std::size_t first_unit = 0;
  std::int64_t unit_length = 1;  ///< positions; units of one communicator are equally long, but for the last

  std::size_t unit_of(const Arrival& arrival) const {
    return first_unit + static_cast<std::size_t>(arrival.position / unit_length);
  }
};

using RoutesOfRank = std::map<std::uint64_t, Route>;  ///< by Arrival::communicator

/// Of all trace ranks.
class Routes {
 public:
  Routes(std::span<const collectives::PlannedCommunicator> communicators,
         std::span<const collectives::MatchUnit> units);
  RoutesOfRank of(const LocalRank& rank) const;

 private:
  std::map<std::pair<std::uint64_t, std::int32_t>, Route> routes_;  ///< by communicator and trace rank
};

using ClockOfRank = std::function<clock::TraceClock(std::int32_t trace_rank)>;

/// The arrivals of the units that a tool rank owns. Those of units at home stay where they were read, and are copied
/// one unit at a time: what is done to a unit then finds it in the caches.
class UnitArrivals {
 public:
  std::size_t size(std::size_t owned) const;
  /// Of owned unit number `owned`, by trace rank and position, by these clocks: until the next call.
  std::span<const JobArrival> of(std::size_t owned, const ClockOfRank& clock_of);
  /// Gives back the memory of what was sent for this unit.
  void release(std::size_t owned);

 private:
  friend UnitArrivals bring_arrivals(const exchange::Communicator& communicator,
                                     const std::vector<LocalTrace>& local_traces,
                                     std::span<const collectives::PlannedCommunicator> communicators,
                                     std::span<const collectives::MatchUnit> units);

  /// A member of a unit at home.
  struct LocalMember {
    const std::vector<TraceArrival>* arrivals = nullptr;  ///< of its trace rank
    std::vector<std::uint32_t> indices;                   ///< among them, of the unit's, by position
  };
  struct Unit {
    std::vector<LocalMember> members;  ///< by trace rank; none unless at home
    std::vector<TraceArrival> sent;
  };

  std::vector<Unit> units_;  ///< the owned ones
  std::vector<JobArrival> timed_;
};

/// Collective: sends all arrivals but those of units at home to the owners of their units, some trace ranks at a time.
/// What stays must remain where it is for as long as the result is asked for it.
UnitArrivals bring_arrivals(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces,
                            std::span<const collectives::PlannedCommunicator> communicators,
                            std::span<const collectives::MatchUnit> units);

}  // namespace nsys_explain::pipeline
