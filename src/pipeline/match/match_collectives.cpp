#include "pipeline/match/match_collectives.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "clock/coarse_clocks.hpp"
#include "clock/level_zero.hpp"
#include "collectives/layout.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/tool_rank/outgoing.hpp"
#include "pipeline/tool_rank/pack.hpp"

namespace nsys_explain::pipeline {
namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;
using collectives::SequenceSummary;

/// Collective: the time around which most trace ranks were captured, from the medians of their first and last arrivals.
SessionTime sampling_centre(const exchange::Communicator& communicator, const std::vector<LocalTrace>& local_traces) {
  struct Extent {
    SessionTime first, last;
  };
  std::vector<Extent> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      if (!rank.arrivals.empty())
        mine.push_back({rank.clock.session_time(rank.arrivals.front().enter),
                        rank.clock.session_time(rank.arrivals.back().enter)});
    }
  }
  std::vector<SessionTime> firsts, lasts;
  for (const Extent& extent : communicator.all_gather(std::span<const Extent>(mine)).values) {
    firsts.push_back(extent.first);
    lasts.push_back(extent.last);
  }
  if (firsts.empty()) return {};
  const SessionTime first = upper_median(firsts);
  return first + (upper_median(lasts) - first) / 2;
}

/// What host clocks tell about sessions, as far as the user lets them.
std::vector<clock::SessionTie> session_ties(const std::vector<Session>& sessions, const clock::ClockOptions& options) {
  const clock::LevelZero level = clock::level_zero(sessions, {.method = options.method, .utc_uncertainty_ns = {}});
  std::vector<clock::SessionTie> ties;
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const bool is_tied = level.clocks[s].method == ClockMethod::host_clock;
    ties.push_back({is_tied ? level.units[s] : -1, level.clocks[s].offset_ns});
  }
  return ties;
}

/// Collective: operations of all trace ranks, of each key at most `per_key`, those nearest to `centre`.
std::vector<collectives::SampledOperation> gather_samples(const exchange::Communicator& communicator,
                                                          const std::vector<LocalTrace>& local_traces,
                                                          SessionTime centre, std::size_t per_key) {
  std::vector<collectives::SampledOperation> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const auto sample = collectives::sample_streams(rank.arrivals, rank.clock,
                                                      static_cast<std::int32_t>(rank.session), centre, per_key);
      mine.insert(mine.end(), sample.begin(), sample.end());
    }
  }
  return communicator.all_gather(std::span<const collectives::SampledOperation>(mine)).values;
}

/// Collective: compares sessions until all that can be related are.
clock::CoarseClocks relate_sessions(const exchange::Communicator& communicator, clock::CoarseClocks clocks) {
  for (auto round = clocks.next_round(); !round.empty(); round = clocks.next_round()) {
    std::vector<clock::SessionRelation> found;
    for (std::size_t c = static_cast<std::size_t>(communicator.rank()); c < round.size();
         c += static_cast<std::size_t>(communicator.size())) {
      if (const auto relation = clocks.compare(round[c])) found.push_back(*relation);
    }
    clocks.accept(communicator.all_gather(std::span<const clock::SessionRelation>(found)).values);
  }
  return clocks;
}

/// Whether operations lack the call that would have named their communicator.
bool lack_calls(std::span<const collectives::SampledOperation> samples) {
  const auto is_named = [](const auto& o) { return collectives::names_communicator(o.key); };
  const auto lacks_call = [&](const auto& o) { return o.is_without_call && !is_named(o); };
  return std::any_of(samples.begin(), samples.end(), is_named) &&
         std::any_of(samples.begin(), samples.end(), lacks_call);
}

/// Collective: coarse clocks from samples of what all trace ranks communicated; where no payload names communicators,
/// also which keys of different trace ranks are one: their arrivals get its key, others are withheld.
clock::CoarseClocks infer_communicators(const exchange::Communicator& communicator, const JobRanks& job,
                                        const clock::ClockOptions& clock_options,
                                        std::span<const SequenceSummary> summaries, collectives::GivenNames& names,
                                        std::vector<LocalTrace>& local_traces) {
  constexpr std::size_t most_sampled = 3'000'000;  // on every tool rank: about two hundred megabytes
  const std::size_t usual_keys = 4 * job.numbers.size() + 1;
  const std::size_t per_key = std::clamp<std::size_t>(most_sampled / usual_keys, 64, 8192);
  const SessionTime centre = sampling_centre(communicator, local_traces);
  const collectives::SequenceDigests digests = collectives::digests_of(summaries);
  auto samples = gather_samples(communicator, local_traces, centre, per_key);
  clock::CoarseClocks clocks = relate_sessions(communicator, {collectives::recorded_sequences(samples, digests),
                                                              session_ties(job.sessions, clock_options), centre.ns});
  const auto for_each_rank = [&](const auto& change) {
    for (LocalTrace& trace : local_traces) {
      for (LocalRank& rank : trace.ranks) change(rank.arrivals);
    }
  };
  if (lack_calls(samples)) {
    const auto named = collectives::name_kernels_without_call(samples, clocks);
    for_each_rank([&](auto& arrivals) { collectives::apply_operation_keys(arrivals, named); });
  }
  if (job.numbers.size() < 2) return clocks;
  if (const auto streams = collectives::name_streams_without_calls(samples, summaries, job.sessions, clocks);
      !streams.empty()) {
    for_each_rank([&](auto& arrivals) { collectives::apply_stream_names(arrivals, streams); });
    std::erase_if(samples, [&](const auto& operation) { return streams.contains(collectives::part_of(operation)); });
  }
  for (const collectives::KeyRange& range : {collectives::category_keys, collectives::stream_keys}) {
    const collectives::Layout layout =
        collectives::choose_layout(samples, digests, clocks, names, range, job.is_whole());
    names = collectives::apply_layout(names, layout);
    for_each_rank([&](auto& arrivals) { collectives::apply_layout(arrivals, layout, range); });
  }
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

analysis::RankTimeline rank_timeline_of(const LocalRank& rank, const RoutesOfRank& routes,
                                        std::span<const PlannedCommunicator> planned) {
  std::vector<analysis::TimelineCommunicator> members;
  for (const auto& [key, route] : routes) {
    members.push_back({key, planned[route.communicator].size, planned[route.communicator].trace_ranks});
  }
  const auto is_withheld = [](const TraceArrival& a) { return a.communicator == collectives::withheld_key; };
  if (std::any_of(rank.arrivals.begin(), rank.arrivals.end(), is_withheld)) {
    const auto place = std::partition_point(
        members.begin(), members.end(),
        [](const analysis::TimelineCommunicator& member) { return member.key < collectives::withheld_key; });
    members.insert(place, {collectives::withheld_key, 1, std::span(&rank.trace_rank, 1)});
  }
  analysis::RankTimeline timeline =
      analysis::make_timeline(rank.arrivals, std::move(members), rank.steps, rank.kernel_names);
  timeline.trace_rank = rank.trace_rank;
  return timeline;
}

/// What the clock wants to know of every communicator: the sessions of its members.
clock::Observations observations_of(const JobRanks& job, std::span<const PlannedCommunicator> communicators) {
  clock::Observations observations;
  for (const PlannedCommunicator& planned : communicators) {
    std::vector<std::int32_t>& sessions = observations.communicators.emplace_back();
    for (const std::int32_t trace_rank : planned.trace_ranks) {
      sessions.push_back(static_cast<std::int32_t>(job.session_of(trace_rank)));
    }
  }
  return observations;
}

/// The instances of a block, whose clocks are as recorded, as the clock wants to see them.
void observe(const JobRanks& job, const MatchedBlock& block, clock::Observations& observations) {
  for (const Instance& instance : block.instances) {
    // A host that sends may leave before the other enters.
    const InstanceArrival& first = block.arrivals[static_cast<std::size_t>(instance.first_arrival)];
    if (instance.operation == Operation::send_recv && first.timing_source == TimingSource::host_call) continue;
    observations.instances.push_back({.operation = instance.operation,
                                      .kernel_name_hash = instance.kernel_name_hash,
                                      .by_tree = instance.by_tree,
                                      .message_bytes = instance.message_bytes,
                                      .first_member = static_cast<std::int64_t>(observations.members.size()),
                                      .members = instance.arrivals,
                                      .communicator = block.communicator});
    for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
      const InstanceArrival& arrival = block.arrivals[static_cast<std::size_t>(a)];
      const std::size_t session = job.session_of(arrival.trace_rank);
      observations.members.push_back({arrival.enter.ns, arrival.exit.ns, static_cast<std::int32_t>(session)});
    }
  }
}

/// The rough clock where it relates all of these trace ranks; else empty.
collectives::RoughTime rough_time(const clock::CoarseClocks* clocks, const JobRanks& job,
                                  std::span<const std::int32_t> trace_ranks) {
  if (clocks == nullptr) return {};
  const auto session_of = [&job](std::int32_t trace_rank) {
    return static_cast<std::int32_t>(job.session_of(trace_rank));
  };
  const std::int32_t component = clocks->component_of(session_of(trace_ranks.front()));
  const bool related = std::all_of(trace_ranks.begin(), trace_ranks.end(), [&](std::int32_t trace_rank) {
    return clocks->component_of(session_of(trace_rank)) == component;
  });
  if (!related) return {};
  return [clocks, session_of](std::int32_t trace_rank, JobTime as_recorded) {
    return JobTime(clocks->to_common(session_of(trace_rank), SessionTime(as_recorded.ns)));
  };
}

/// Matches the owned units for the first time, for what the clock wants to see of them: those of one session relate
/// nothing.
void observe(const JobRanks& job, const clock::CoarseClocks* clocks, CrossRank& cross) {
  cross.observations = observations_of(job, cross.communicators);
  const auto is_silent = [&](std::size_t i) {
    const auto c = static_cast<std::size_t>(cross.units[cross.owned[i]].communicator);
    const std::vector<std::int32_t>& sessions = cross.observations.communicators[c];
    return std::all_of(sessions.begin(), sessions.end(), [&](std::int32_t s) { return s == sessions.front(); });
  };
  const ClockOfRank clock_of = [&](std::int32_t trace_rank) { return job.trace_clock(job.session_of(trace_rank), {}); };
  std::size_t members = 0;
  for (std::size_t i = 0; i < cross.owned.size(); ++i) members += is_silent(i) ? 0 : cross.arrivals.size(i);
  cross.observations.members.reserve(members);
  for (std::size_t i = 0; i < cross.owned.size(); ++i) {
    if (is_silent(i)) continue;
    const MatchUnit& unit = cross.units[cross.owned[i]];
    const auto& planned = cross.communicators[static_cast<std::size_t>(unit.communicator)];
    observe(job,
            collectives::match_unit(unit, planned, cross.arrivals.of(i, clock_of), {},
                                    rough_time(clocks, job, planned.trace_ranks)),
            cross.observations);
  }
}

}  // namespace

CrossRank match_collectives(const exchange::Communicator& communicator, const JobRanks& job,
                            const clock::ClockOptions& clock_options, std::vector<LocalTrace>& local_traces) {
  CrossRank cross;
  exchange::Gathered<SequenceSummary> summaries = gather_summaries(communicator, local_traces);
  const std::vector<std::int32_t> readers = readers_of(communicator, job, summaries);
  cross.communicators = collectives::plan_communicators(summaries.values, job.is_whole());
  collectives::GivenNames names = gather_names(communicator, local_traces);
  std::optional<clock::CoarseClocks> clocks;
  if (!is_told_by_order(cross.communicators)) {
    clocks = infer_communicators(communicator, job, clock_options, summaries.values, names, local_traces);
    summaries = gather_summaries(communicator, local_traces);
    for (const SequenceSummary& summary : summaries.values)
      cross.withheld_arrivals += summary.communicator == collectives::withheld_key ? summary.arrivals : 0;
    cross.communicators = collectives::plan_communicators(std::move(summaries.values), job.is_whole());
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

void make_timelines(const CrossRank& cross, std::vector<LocalTrace>& local_traces) {
  const Routes routes(cross.communicators, cross.units);
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      rank.timeline = rank_timeline_of(rank, routes.of(rank), cross.communicators);
      release(rank.arrivals);
    }
  }
}

}  // namespace nsys_explain::pipeline
