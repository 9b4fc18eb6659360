#include "pipeline/match/match_collectives.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "clock/level_zero.hpp"
#include "collectives/inference.hpp"
#include "nsys_explain/model/release.hpp"
#include "pipeline/run/outgoing.hpp"
#include "pipeline/run/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;
using collectives::SequenceSummary;

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

/// Which tool rank has read each trace rank, by index; 0 of those that communicate with nobody.
std::vector<std::int32_t> readers_of(const exchange::Communicator& communicator, const JobRanks& job,
                                     const exchange::Gathered<SequenceSummary>& summaries) {
  std::vector<std::int32_t> readers(job.numbers.size(), 0);
  for (std::int32_t r = 0; r < communicator.size(); ++r)
    for (const SequenceSummary& summary : summaries.of(r)) readers[job.index_of(summary.trace_rank)] = r;
  return readers;
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

/// Collective: of all trace ranks, by the tool rank that has read them.
exchange::Gathered<SequenceSummary> gather_summaries(const exchange::Communicator& communicator,
                                                     const std::vector<LocalTrace>& local_traces) {
  std::vector<SequenceSummary> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const auto summaries = collectives::summarise_sequences(rank.arrivals, rank.key.device_id, rank.memberships);
      mine.insert(mine.end(), summaries.begin(), summaries.end());
    }
  }
  return communicator.all_gather(std::span<const SequenceSummary>(mine));
}

/// Where calls name communicators and members did the same, order alone tells all.
bool is_told_by_order(std::span<const PlannedCommunicator> communicators) {
  return std::all_of(communicators.begin(), communicators.end(), [](const PlannedCommunicator& c) {
    return c.equal_sequences && c.source_key >= collectives::first_nccl_key;
  });
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

/// Matches the owned units for the first time, for what the clock wants to see of them: those of one session relate
/// nothing.
void observe(const JobRanks& job, const collectives::RoughClocks* clocks, CrossRank& cross) {
  cross.observations = observations_of(job, cross.communicators);
  const auto is_silent = [&](std::size_t i) {
    const auto c = static_cast<std::size_t>(cross.units[cross.owned[i]].communicator);
    const std::vector<std::int32_t>& sessions = cross.observations.communicators[c];
    return std::all_of(sessions.begin(), sessions.end(), [&](std::int32_t s) { return s == sessions.front(); });
  };
  std::size_t members = 0;
  for (std::size_t i = 0; i < cross.owned.size(); ++i) members += is_silent(i) ? 0 : cross.arrivals.size(i);
  cross.observations.members.reserve(members);
  for (std::size_t i = 0; i < cross.owned.size(); ++i) {
    if (is_silent(i)) continue;
    const MatchUnit& unit = cross.units[cross.owned[i]];
    const auto& planned = cross.communicators[static_cast<std::size_t>(unit.communicator)];
    observe(
        job,
        collectives::match_unit(unit, planned, cross.arrivals.of(i), {}, rough_time(clocks, job, planned.trace_ranks)),
        cross.observations);
  }
}

}  // namespace

CrossRank match_collectives(const exchange::Communicator& communicator, const JobRanks& job,
                            const clock::ClockOptions& clock_options, std::vector<LocalTrace>& local_traces) {
  CrossRank cross;
  exchange::Gathered<SequenceSummary> summaries = gather_summaries(communicator, local_traces);
  const std::vector<std::int32_t> readers = readers_of(communicator, job, summaries);
  cross.communicators = collectives::plan_communicators(std::move(summaries.values));
  collectives::GivenNames names = gather_names(communicator, local_traces);
  std::optional<collectives::RoughClocks> clocks;
  if (!is_told_by_order(cross.communicators)) {
    clocks = compare_lanes(communicator, job, clock_options, cross.communicators, names, local_traces);
    cross.communicators = collectives::plan_communicators(gather_summaries(communicator, local_traces).values);
  }
  collectives::name_communicators(cross.communicators, names);
  cross.units = collectives::plan_units(cross.communicators, communicator.size(),
                                        [&](std::int32_t trace_rank) { return readers[job.index_of(trace_rank)]; });
  for (std::size_t u = 0; u < cross.units.size(); ++u)
    if (cross.units[u].owner == communicator.rank()) cross.owned.push_back(u);
  cross.arrivals = bring_arrivals(communicator, local_traces, cross.communicators, cross.units);
  observe(job, clocks ? &*clocks : nullptr, cross);
  return cross;
}

void make_paths(const CrossRank& cross, std::vector<LocalTrace>& local_traces) {
  const Routes routes(cross.communicators, cross.units);
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      rank.path = path_of(rank, routes.of(rank), cross.communicators);
      release(rank.arrivals);
    }
  }
}

}  // namespace nsys_explain::pipeline
