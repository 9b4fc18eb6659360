#include "attribution.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "job_steps.hpp"
#include "nsys_explain/analysis/path.hpp"
#include "nsys_explain/analysis/waits.hpp"
#include "work_surplus.hpp"

namespace nsys_explain::pipeline {
namespace {

using analysis::Outcome;
using analysis::PathArrival;

/// Arrivals of the local paths in the order in which their owners told what became of them, which is that in which
/// the owners await answers. Trivially copyable.
struct ArrivalPlace {
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;
};

/// Arrivals of a block in the order in which their homes are told: several of one trace rank follow each other, so that
/// a path is not visited anew for each of its arrivals, far from the one before. `visit(i, member)`: of instance i.
template <class Visit>
void for_each_arrival(MatchedBlock& block, const Visit& visit) {
  constexpr std::size_t at_once = 16;
  for (std::size_t first = 0; first < block.instances.size(); first += at_once) {
    const std::size_t end = std::min(first + at_once, block.instances.size());
    std::int32_t most = 0;
    for (std::size_t i = first; i < end; ++i) most = std::max(most, block.instances[i].arrivals);
    for (std::int32_t m = 0; m < most; ++m) {
      for (std::size_t i = first; i < end; ++i) {
        const Instance& instance = block.instances[i];
        if (m < instance.arrivals) visit(i, block.arrivals[static_cast<std::size_t>(instance.first_arrival + m)]);
      }
    }
  }
}

std::span<InstanceArrival> members_of(MatchedBlock& block, const Instance& instance) {
  return std::span(block.arrivals)
      .subspan(static_cast<std::size_t>(instance.first_arrival), static_cast<std::size_t>(instance.arrivals));
}

/// What all members of an instance are told.
Outcome common_outcome(const MatchedBlock& block, const Instance& instance, std::span<const InstanceArrival> members,
                       std::size_t captured_members, std::span<const std::uint64_t> slow_groups) {
  Outcome outcome;
  outcome.sequence = instance.sequence;
  outcome.last_trace_rank = instance.last_trace_rank;
  outcome.communicator = block.communicator;
  outcome.complete = members.size() == captured_members;
  std::size_t blocking = 0;
  for (const InstanceArrival& member : members) {
    if (member.trace_rank == instance.last_trace_rank) outcome.last_index = member.index;
    outcome.partners = analysis::digest_of_partners(outcome.partners, member.trace_rank);
    blocking += member.blocking ? 1 : 0;
  }
  outcome.blocking = 2 * blocking > members.size();
  outcome.tied = !analysis::has_lateness(instance) ||
                 std::all_of(members.begin(), members.end(), [&](const InstanceArrival& member) {
                   return analysis::stayed_for_last(instance, member);
                 });
  outcome.slow_link = std::binary_search(slow_groups.begin(), slow_groups.end(), outcome.partners);
  return outcome;
}

Outcome outcome_of(Outcome outcome, const Instance& instance, const InstanceArrival& member) {
  outcome.wait_ns = member.wait_ns;
  outcome.lateness_ns = analysis::has_lateness(instance) ? member.enter_ns - instance.first_enter_ns : 0;
  outcome.trace_rank = member.trace_rank;
  outcome.index = member.index;
  outcome.judged = analysis::has_lateness(instance) && member.trace_rank != instance.last_trace_rank &&
                   analysis::stayed_for_last(instance, member) &&
                   member.wait_ns > analysis::resolution_factor * instance.skew_uncertainty_ns;
  return outcome;
}

/// How many arrivals of the owned blocks have their home on each tool rank.
std::vector<std::size_t> count_by_home(const exchange::Communicator& communicator, const JobRanks& job,
                                       const Homes& homes, const CrossRank& cross) {
  std::vector<std::size_t> counts(static_cast<std::size_t>(communicator.size()), 0);
  for (const MatchedBlock& block : cross.blocks)
    for (const InstanceArrival& arrival : block.arrivals)
      ++counts[static_cast<std::size_t>(homes.tool_rank[job.index_of(arrival.trace_rank)])];
  return counts;
}

/// Outcome::partners of the slow groups, ascending.
std::vector<std::uint64_t> digests_of_slow_groups(const LinkAnalysis& links) {
  std::vector<std::uint64_t> digests;
  for (const std::vector<std::int32_t>& slow : links.slow_groups)
    digests.push_back(std::accumulate(slow.begin(), slow.end(), std::uint64_t{0}, analysis::digest_of_partners));
  std::sort(digests.begin(), digests.end());
  return digests;
}

/// Collective: tells every path what its instances tell. Returns the arrivals by the owners that told.
exchange::Gathered<ArrivalPlace> send_outcomes(const exchange::Communicator& communicator, const JobRanks& job,
                                               const Homes& homes, const LinkAnalysis& links, CrossRank& cross) {
  const std::vector<std::uint64_t> slow_groups = digests_of_slow_groups(links);
  auto outgoing = nothing_for<Outcome>(communicator);
  const std::vector<std::size_t> counts = count_by_home(communicator, job, homes, cross);
  for (std::size_t home = 0; home < counts.size(); ++home) outgoing[home].reserve(counts[home]);
  for (MatchedBlock& block : cross.blocks) {
    const auto captured = cross.communicators[static_cast<std::size_t>(block.communicator)].trace_ranks.size();
    std::vector<Outcome> common;
    common.reserve(block.instances.size());
    for (const Instance& instance : block.instances)
      common.push_back(common_outcome(block, instance, members_of(block, instance), captured, slow_groups));
    for_each_arrival(block, [&](std::size_t i, const InstanceArrival& member) {
      const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
      outgoing[home].push_back(outcome_of(common[i], block.instances[i], member));
    });
  }
  const exchange::Gathered<Outcome> received = communicator.all_to_all(std::move(outgoing));
  exchange::Gathered<ArrivalPlace> places;
  places.offsets = received.offsets;
  places.values.reserve(received.values.size());
  for (const Outcome& outcome : received.values) {
    places.values.push_back({outcome.trace_rank, outcome.index});
    analysis::take_outcome(homes.of_index[job.index_of(outcome.trace_rank)]->path, outcome);
  }
  for (LocalRank* const rank : homes.local) analysis::measure(rank->path, rank->profiles);
  return places;
}

/// Collective: compares every segment of work with those of its peers, where samples of one role and step meet.
void compare_with_peers(const exchange::Communicator& communicator, const Homes& homes) {
  auto outgoing = nothing_for<analysis::WorkSample>(communicator);
  std::size_t most = 0;
  for (const LocalRank* const rank : homes.local) most += rank->path.arrivals.size();
  for (auto& part : outgoing) part.reserve(most / outgoing.size() + 1);
  for (const LocalRank* const rank : homes.local) {
    for (const analysis::WorkSample& sample : analysis::work_samples(rank->path)) {
      const std::uint64_t key = sample.role + static_cast<std::uint64_t>(sample.step + 1);
      outgoing[key % outgoing.size()].push_back(sample);
    }
  }
  auto answers = nothing_for<analysis::UsualWork>(communicator);
  {
    const exchange::Gathered<analysis::WorkSample> samples = communicator.all_to_all(std::move(outgoing));
    const std::vector<analysis::UsualWork> usual = analysis::usual_work(samples.values);
    for (std::size_t r = 0; r < answers.size(); ++r)
      answers[r].assign(usual.begin() + static_cast<std::ptrdiff_t>(samples.offsets[r]),
                        usual.begin() + static_cast<std::ptrdiff_t>(samples.offsets[r + 1]));
  }
  const exchange::Gathered<analysis::UsualWork> usual = communicator.all_to_all(std::move(answers));
  // Every tool rank answers in the order in which it was asked, which was by trace rank.
  std::vector<std::size_t> next(usual.offsets.begin(), usual.offsets.end() - 1);
  std::vector<analysis::UsualWork> own;
  for (LocalRank* const rank : homes.local) {
    own.clear();
    for (std::size_t r = 0; r < next.size(); ++r)
      for (; next[r] < usual.offsets[r + 1] && usual.values[next[r]].trace_rank == rank->trace_rank; ++next[r])
        own.push_back(usual.values[next[r]]);
    analysis::set_excess(rank->path, own);
  }
}

/// Collective: own lateness from the paths back to the blocks, in the order in which outcomes were sent.
void return_lateness(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                     const exchange::Gathered<ArrivalPlace>& places, CrossRank& cross) {
  auto answers = nothing_for<Nanoseconds>(communicator);
  for (int r = 0; r < communicator.size(); ++r) {
    std::vector<Nanoseconds>& answer = answers[static_cast<std::size_t>(r)];
    answer.reserve(places.of(r).size());
    for (const ArrivalPlace& place : places.of(r)) {
      const analysis::Path& path = homes.of_index[job.index_of(place.trace_rank)]->path;
      const PathArrival& arrival = path.arrivals[static_cast<std::size_t>(place.index)];
      answer.push_back(arrival.compared ? arrival.own_excess_ns : no_time);
    }
  }
  const auto received = communicator.all_to_all(std::move(answers));
  std::vector<std::size_t> next(received.offsets.begin(), received.offsets.end() - 1);
  for (MatchedBlock& block : cross.blocks) {
    for_each_arrival(block, [&](std::size_t i, InstanceArrival& member) {
      const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
      const Nanoseconds excess_ns = received.values[next[home]++];
      if (excess_ns != no_time && analysis::has_lateness(block.instances[i]))
        analysis::split_lateness(block.instances[i], member, excess_ns);
    });
    for (Instance& instance : block.instances) analysis::compute_caused_wait(instance, members_of(block, instance));
  }
}

/// By index of the trace rank.
std::vector<analysis::SlowRank> slow_ranks(const JobRanks& job, const LinkAnalysis& links) {
  std::vector<analysis::SlowRank> slow;
  for (const std::int32_t trace_rank : links.slow_ranks) {
    std::set<std::size_t> partners;
    for (const std::vector<std::int32_t>& group : links.slow_groups) {
      if (!std::binary_search(group.begin(), group.end(), trace_rank)) continue;
      for (const std::int32_t member : group) partners.insert(job.index_of(member));
    }
    slow.push_back({job.index_of(trace_rank), {partners.begin(), partners.end()}});
  }
  return slow;
}

}  // namespace

Attribution attribute_delays(const exchange::Communicator& communicator, const ClockReport& clock, const JobRanks& job,
                             CrossRank& cross, std::vector<LocalTrace>& local_traces,
                             const std::vector<Table>& rank_tables, std::span<const analysis::Grouping> groupings,
                             const LinkAnalysis& links) {
  const Homes homes = find_homes(communicator, job, local_traces);
  const exchange::Gathered<ArrivalPlace> places = send_outcomes(communicator, job, homes, links, cross);
  analysis::Steps steps = agree_on_steps(communicator, job, homes);
  for (LocalRank* const rank : homes.local) count_steps_by(steps, *rank);
  if (const analysis::Grouping* stages = analysis::find_grouping(groupings, Level::pipeline_stage))
    for (LocalRank* const rank : homes.local)
      analysis::tell_stages_apart(rank->path, stages->place_of_rank[job.index_of(rank->trace_rank)]);
  WorkSurplus surplus = find_surplus(communicator, job, rank_tables, groupings, steps.start_ns.size(), local_traces);
  compare_with_peers(communicator, homes);
  return_lateness(communicator, job, homes, places, cross);
  SettledDelays settled = settle_delays(communicator, clock, job, homes, steps);
  Attribution attribution;
  attribution.step_rows = make_step_rows(communicator, job, homes, cross, steps, settled.costs);
  attribution.delays = std::move(settled.delays);
  attribution.ranks = std::move(settled.ranks);
  attribution.waits = std::move(settled.waits);
  attribution.delays.speed = std::move(surplus.speed);
  attribution.delays.stages = std::move(surplus.stages);
  attribution.delays.slow_ranks = slow_ranks(job, links);
  attribution.steps = std::move(steps);
  return attribution;
}

}  // namespace nsys_explain::pipeline
