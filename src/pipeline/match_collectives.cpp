#include "match_collectives.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "nsys_explain/clock/level_zero.hpp"
#include "nsys_explain/collectives/inference.hpp"
#include "nsys_explain/model/release.hpp"
#include "outgoing.hpp"
#include "pack.hpp"

namespace nsys_explain::pipeline {
namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;
using collectives::SequenceSummary;

struct RoutedArrival {
  std::int32_t unit = 0;
  std::int32_t member = 0;  ///< index into PlannedCommunicator::trace_ranks
  Arrival arrival;
};

/// Where the arrivals of a communicator on one trace rank go.
struct Route {
  std::size_t communicator = 0;
  std::size_t member = 0;
  std::size_t first_unit = 0;
  std::int64_t unit_length = 1;  ///< positions; units of one communicator are equally long, but for the last

  std::size_t unit_of(const Arrival& arrival) const {
    return first_unit + static_cast<std::size_t>(arrival.position / unit_length);
  }
};

class Routes {
 public:
  Routes(const std::vector<PlannedCommunicator>& communicators, const std::vector<MatchUnit>& units) {
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
  const Route& of(std::uint64_t communicator, std::int32_t trace_rank) const {
    return routes_.at({communicator, trace_rank});
  }

 private:
  std::map<std::pair<std::uint64_t, std::int32_t>, Route> routes_;
};

/// Collective: the time around which most trace ranks were captured, from the medians of their first and last arrivals.
Nanoseconds sampling_centre(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces) {
  struct Extent {
    Nanoseconds first_ns, last_ns;
  };
  std::vector<Extent> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      if (!rank.arrivals.empty()) mine.push_back({rank.arrivals.front().enter_ns, rank.arrivals.back().enter_ns});
    }
  }
  std::vector<Nanoseconds> firsts, lasts;
  for (const Extent& extent : communicator.all_gather(std::span<const Extent>(mine)).values) {
    firsts.push_back(extent.first_ns);
    lasts.push_back(extent.last_ns);
  }
  if (firsts.empty()) return 0;
  const auto median = [](std::vector<Nanoseconds>& values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  };
  const Nanoseconds first_ns = median(firsts);
  return first_ns + (median(lasts) - first_ns) / 2;
}

/// What host clocks tell about sessions, as far as the user lets them.
std::vector<collectives::SessionTie> session_ties(const std::vector<Session>& sessions,
                                                  const clock::ClockOptions& options) {
  const clock::LevelZero level = clock::level_zero(sessions, {.method = options.method, .utc_uncertainty_ns = {}});
  std::vector<collectives::SessionTie> ties;
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const bool is_tied = level.clocks[s].method == ClockMethod::host_clock;
    ties.push_back({is_tied ? level.units[s] : -1, level.clocks[s].offset_ns});
  }
  return ties;
}

/// Collective: tells communicators apart that take turns on a stream, as far as what the lanes did is few enough to be
/// looked at on every tool rank; the rest keeps the keys of its lanes.
void share_out_lanes(const exchange::Communicator& communicator, const collectives::RoughClocks& clocks,
                     const collectives::LaneRoles& roles, std::vector<LocalTrace>& local_traces) {
  constexpr std::size_t most_operations = 3'000'000;
  std::set<std::uint64_t> shared;
  std::uint64_t first_key = 0;
  for (const auto& [lane, role] : roles) {
    if (role.takes_turns) shared.insert(role.key);
    first_key = std::max(first_key, role.key + 1);
  }
  if (shared.empty()) return;
  std::vector<collectives::SampledOperation> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      std::vector<Arrival> of_shared;
      std::copy_if(rank.arrivals.begin(), rank.arrivals.end(), std::back_inserter(of_shared),
                   [&](const Arrival& arrival) { return shared.contains(arrival.communicator); });
      const auto sample = collectives::sample_lanes(of_shared, {}, static_cast<std::int32_t>(rank.session),
                                                    clocks.centre_ns(), most_operations / shared.size());
      mine.insert(mine.end(), sample.begin(), sample.end());
    }
  }
  const auto operations = communicator.all_gather(std::span<const collectives::SampledOperation>(mine)).values;
  const auto keys = collectives::share_out_turns(operations, clocks, first_key);
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) collectives::apply_operation_keys(rank.arrivals, keys);
  }
}

/// By trace rank.
using NumbersOfRanks = std::map<std::int32_t, collectives::OwnNumbers>;

NumbersOfRanks numbers_of_ranks(std::span<const PlannedCommunicator> communicators) {
  NumbersOfRanks numbers;
  for (const PlannedCommunicator& planned : communicators) {
    if (!collectives::names_communicator(planned.source_key)) continue;
    for (std::size_t m = 0; m < planned.trace_ranks.size(); ++m) {
      if (planned.ranks[m] >= 0) numbers[planned.trace_ranks[m]][planned.source_key] = planned.ranks[m];
    }
  }
  return numbers;
}

/// Collective: operations of all trace ranks, of each lane at most `per_lane`, those nearest to `centre_ns`.
std::vector<collectives::SampledOperation> gather_samples(const exchange::Communicator& communicator,
                                                          const std::vector<LocalTrace>& local_traces,
                                                          NumbersOfRanks& numbers, Nanoseconds centre_ns,
                                                          std::size_t per_lane) {
  std::vector<collectives::SampledOperation> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const auto sample = collectives::sample_lanes(rank.arrivals, numbers[rank.trace_rank],
                                                    static_cast<std::int32_t>(rank.session), centre_ns, per_lane);
      mine.insert(mine.end(), sample.begin(), sample.end());
    }
  }
  return communicator.all_gather(std::span<const collectives::SampledOperation>(mine)).values;
}

/// Collective: rough clocks from samples of what all trace ranks communicated; where no payload names communicators,
/// also which lanes of different trace ranks carry one: their arrivals get its key.
collectives::RoughClocks compare_lanes(const exchange::Communicator& communicator, const JobRanks& job,
                                       const clock::ClockOptions& clock_options,
                                       std::span<const PlannedCommunicator> planned, collectives::GivenNames& names,
                                       std::vector<LocalTrace>& local_traces) {
  constexpr std::size_t most_sampled = 3'000'000;  // on every tool rank: about a hundred megabytes
  const std::size_t usual_lanes = 4 * job.numbers.size() + 1;
  const std::size_t per_lane = std::clamp<std::size_t>(most_sampled / usual_lanes, 64, 8192);
  const Nanoseconds centre_ns = sampling_centre(communicator, local_traces);
  NumbersOfRanks numbers = numbers_of_ranks(planned);
  auto samples = gather_samples(communicator, local_traces, numbers, centre_ns, per_lane);
  collectives::RoughClocks clocks(samples, session_ties(job.sessions, clock_options), centre_ns);
  for (auto round = clocks.next_round(); !round.empty(); round = clocks.next_round()) {
    std::vector<collectives::SessionRelation> found;
    for (std::size_t c = static_cast<std::size_t>(communicator.rank()); c < round.size();
         c += static_cast<std::size_t>(communicator.size())) {
      if (const auto relation = clocks.compare(round[c])) found.push_back(*relation);
    }
    clocks.accept(communicator.all_gather(std::span<const collectives::SessionRelation>(found)).values);
  }
  const collectives::LaneRoles categories = collectives::group_category_lanes(samples, clocks, names);
  if (!categories.empty()) {
    collectives::apply_lane_roles(samples, categories);
    names = collectives::apply_lane_roles(names, categories);
    for (LocalTrace& trace : local_traces) {
      for (LocalRank& rank : trace.ranks) collectives::apply_lane_roles(rank.arrivals, categories);
    }
  }
  if (collectives::has_orphans(samples)) {
    // Calls are lost above all where a capture begins or ends, far from the centre.
    constexpr std::size_t most_around_orphans = 1'000'000;  // on every tool rank: about two hundred megabytes
    const std::size_t wanted = most_around_orphans / usual_lanes;
    const auto named =
        wanted > per_lane
            ? collectives::name_orphans(gather_samples(communicator, local_traces, numbers, centre_ns, wanted), clocks)
            : collectives::name_orphans(samples, clocks);
    for (LocalTrace& trace : local_traces) {
      for (LocalRank& rank : trace.ranks) collectives::apply_operation_keys(rank.arrivals, named);
    }
  }
  const collectives::LaneRoles roles = collectives::group_lanes(samples, clocks);
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) collectives::apply_lane_roles(rank.arrivals, roles);
  }
  share_out_lanes(communicator, clocks, roles, local_traces);
  return clocks;
}

/// Collective.
collectives::GivenNames gather_names(const exchange::Communicator& communicator,
                                     const std::vector<LocalTrace>& local_traces) {
  std::map<std::int32_t, std::map<std::uint64_t, std::string>> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      if (!rank.communicator_names.empty()) mine[rank.trace_rank] = rank.communicator_names;
    }
  }
  collectives::GivenNames names;
  for (const auto& of_tool_rank : all_gather_packed(communicator, mine)) {
    for (const auto& [trace_rank, of_keys] : of_tool_rank) {
      for (const auto& [key, name] : of_keys) names[{trace_rank, key}] = name;
    }
  }
  return names;
}

/// Collective.
std::vector<SequenceSummary> gather_summaries(const exchange::Communicator& communicator,
                                              const std::vector<LocalTrace>& local_traces) {
  std::vector<SequenceSummary> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const auto summaries = collectives::summarise_sequences(rank.arrivals, rank.key.device_id, rank.memberships);
      mine.insert(mine.end(), summaries.begin(), summaries.end());
    }
  }
  return communicator.all_gather(std::span<const SequenceSummary>(mine)).values;
}

/// Where calls name communicators and members did the same, order alone tells all.
bool is_told_by_order(std::span<const PlannedCommunicator> communicators) {
  return std::all_of(communicators.begin(), communicators.end(), [](const PlannedCommunicator& c) {
    return c.equal_sequences && c.source_key >= collectives::first_nccl_key;
  });
}

using RoutesOfRank = std::map<std::uint64_t, Route>;  ///< by communicator

RoutesOfRank routes_of(const LocalRank& rank, const Routes& routes) {
  RoutesOfRank result;
  const Arrival* before = nullptr;
  for (const Arrival& arrival : rank.arrivals) {
    const bool is_seen = before != nullptr && before->communicator == arrival.communicator;
    before = &arrival;
    if (is_seen || result.contains(arrival.communicator)) continue;
    result.emplace(arrival.communicator, routes.of(arrival.communicator, arrival.trace_rank));
  }
  return result;
}

analysis::Path path_of(const LocalRank& rank, const RoutesOfRank& routes,
                       std::span<const PlannedCommunicator> planned) {
  std::vector<analysis::PathCommunicator> members;
  for (const auto& [key, route] : routes) {
    members.push_back({key, planned[route.communicator].size, planned[route.communicator].trace_ranks});
  }
  analysis::Path path = analysis::make_path(rank.arrivals, std::move(members), rank.steps, rank.kernel_names);
  path.trace_rank = rank.trace_rank;
  return path;
}

/// Room for the arrivals of an owned unit, by member and position.
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
  std::size_t place_of(const RoutedArrival& routed) const {
    return first_[static_cast<std::size_t>(routed.member)] +
           static_cast<std::size_t>(routed.arrival.position - first_position_);
  }

 private:
  std::int64_t first_position_ = 0;
  std::vector<std::size_t> first_;  ///< place of each member's first one
};

/// Tells the owners of the arrivals of a trace rank, into what is to be sent.
void tell_owners(const LocalRank& rank, const Routes& routes, const CrossRank& cross,
                 Outgoing<RoutedArrival>& outgoing) {
  const RoutesOfRank of_rank = routes_of(rank, routes);
  auto route = of_rank.begin();
  for (const Arrival& arrival : rank.arrivals) {
    if (route->first != arrival.communicator) route = of_rank.find(arrival.communicator);
    const std::size_t unit = route->second.unit_of(arrival);
    outgoing[static_cast<std::size_t>(cross.units[unit].owner)].push_back(
        {static_cast<std::int32_t>(unit), static_cast<std::int32_t>(route->second.member), arrival});
  }
}

/// Collective: sends all arrivals to the owners of their units, some trace ranks at a time, and takes in those of the
/// own ones, by unit, trace rank and position.
void exchange_arrivals(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces,
                       CrossRank& cross) {
  std::vector<UnitRoom> rooms;
  std::vector<std::size_t> slot(cross.units.size(), 0);  // of the owned units
  for (std::size_t unit = 0; unit < cross.units.size(); ++unit) {
    if (cross.units[unit].owner != communicator.rank()) continue;
    slot[unit] = cross.owned.size();
    cross.owned.push_back(unit);
    rooms.emplace_back(cross.units[unit],
                       cross.communicators[static_cast<std::size_t>(cross.units[unit].communicator)]);
    cross.arrivals.emplace_back(rooms.back().size());
  }
  std::vector<const LocalRank*> ranks;
  for (const LocalTrace& trace : local_traces)
    for (const LocalRank& rank : trace.ranks) ranks.push_back(&rank);
  const Routes routes(cross.communicators, cross.units);
  auto outgoing = nothing_for<RoutedArrival>(communicator);
  exchange::Gathered<RoutedArrival> received;
  auto next = ranks.begin();
  while (communicator.maximum(ranks.end() - next) > 0) {
    empty(outgoing);
    for (std::size_t count = 0; next != ranks.end() && count < records_per_round; ++next) {
      count += (*next)->arrivals.size();
      tell_owners(**next, routes, cross, outgoing);
    }
    communicator.all_to_all(outgoing, received);
    for (const RoutedArrival& routed : received.values) {
      const std::size_t owned = slot[static_cast<std::size_t>(routed.unit)];
      cross.arrivals[owned][rooms[owned].place_of(routed)] = routed.arrival;
    }
  }
}

/// What the clock wants to know of every communicator: the sessions of its members.
clock::Observations observations_of(const JobRanks& job, std::span<const PlannedCommunicator> communicators) {
  clock::Observations observations;
  for (const PlannedCommunicator& planned : communicators) {
    std::vector<std::int32_t>& sessions = observations.communicators.emplace_back();
    for (const std::int32_t trace_rank : planned.trace_ranks) {
      sessions.push_back(static_cast<std::int32_t>(job.session_of_rank[job.index_of(trace_rank)]));
    }
  }
  return observations;
}

/// The instances of a block, as the clock wants to see them.
void observe(const JobRanks& job, const MatchedBlock& block, clock::Observations& observations) {
  for (const Instance& instance : block.instances) {
    observations.instances.push_back({.operation = instance.operation,
                                      .kernel_name_hash = instance.kernel_name_hash,
                                      .message_bytes = instance.message_bytes,
                                      .first_member = static_cast<std::int64_t>(observations.members.size()),
                                      .members = instance.arrivals,
                                      .communicator = block.communicator});
    for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
      const InstanceArrival& arrival = block.arrivals[static_cast<std::size_t>(a)];
      const std::size_t session = job.session_of_rank[job.index_of(arrival.trace_rank)];
      observations.members.push_back({arrival.enter_ns, arrival.exit_ns, static_cast<std::int32_t>(session)});
    }
  }
}

/// The rough clock where it relates all of these trace ranks; else empty.
collectives::RoughTime rough_time(const collectives::RoughClocks* clocks, const JobRanks& job,
                                  std::span<const std::int32_t> trace_ranks) {
  if (clocks == nullptr) return {};
  const auto session_of = [&job](std::int32_t trace_rank) {
    return static_cast<std::int32_t>(job.session_of_rank[job.index_of(trace_rank)]);
  };
  const std::int32_t component = clocks->component_of(session_of(trace_ranks.front()));
  const bool related = std::all_of(trace_ranks.begin(), trace_ranks.end(), [&](std::int32_t trace_rank) {
    return clocks->component_of(session_of(trace_rank)) == component;
  });
  if (!related) return {};
  return [clocks, session_of](std::int32_t trace_rank, Nanoseconds t_ns) {
    return clocks->to_common(session_of(trace_rank), t_ns);
  };
}

}  // namespace

CrossRank match_collectives(const exchange::Communicator& communicator, const JobRanks& job,
                            const clock::ClockOptions& clock_options, std::vector<LocalTrace>& local_traces) {
  CrossRank cross;
  cross.communicators = collectives::plan_communicators(gather_summaries(communicator, local_traces));
  collectives::GivenNames names = gather_names(communicator, local_traces);
  std::optional<collectives::RoughClocks> clocks;
  if (!is_told_by_order(cross.communicators)) {
    clocks = compare_lanes(communicator, job, clock_options, cross.communicators, names, local_traces);
    cross.communicators = collectives::plan_communicators(gather_summaries(communicator, local_traces));
  }
  collectives::name_communicators(cross.communicators, names);
  cross.units = collectives::plan_units(cross.communicators, communicator.size());

  exchange_arrivals(communicator, local_traces, cross);
  cross.observations = observations_of(job, cross.communicators);
  cross.observations.members.reserve(
      std::accumulate(cross.arrivals.begin(), cross.arrivals.end(), std::size_t{0},
                      [](std::size_t sum, const std::vector<Arrival>& of_unit) { return sum + of_unit.size(); }));
  for (std::size_t i = 0; i < cross.owned.size(); ++i) {
    const MatchUnit& unit = cross.units[cross.owned[i]];
    const auto& planned = cross.communicators[static_cast<std::size_t>(unit.communicator)];
    observe(job,
            collectives::match_unit(unit, planned, cross.arrivals[i], {},
                                    rough_time(clocks ? &*clocks : nullptr, job, planned.trace_ranks)),
            cross.observations);
  }
  return cross;
}

void make_paths(const CrossRank& cross, std::vector<LocalTrace>& local_traces) {
  const Routes routes(cross.communicators, cross.units);
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      rank.path = path_of(rank, routes_of(rank, routes), cross.communicators);
      release(rank.arrivals);
    }
  }
}

}  // namespace nsys_explain::pipeline
