#include "collectives/matching.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "collectives/member_matching.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::collectives {
namespace {

std::vector<MemberArrivals> by_member(const PlannedCommunicator& communicator, std::span<const JobArrival> arrivals,
                                      std::span<const std::size_t> chosen) {
  std::vector<MemberArrivals> members(communicator.trace_ranks.size());
  auto rank = communicator.trace_ranks.begin();
  for (const std::size_t a : chosen) {
    if (*rank != arrivals[a].trace_rank)
      rank = std::lower_bound(communicator.trace_ranks.begin(), communicator.trace_ranks.end(), arrivals[a].trace_rank);
    MemberArrivals& member = members[static_cast<std::size_t>(rank - communicator.trace_ranks.begin())];
    member.indices.push_back(a);
    member.symbols.push_back(arrival_symbol(arrivals[a]));
  }
  return members;
}

/// NCCL counts each kind of operation by itself.
std::vector<MatchedArrivals> by_number(std::span<const JobArrival> arrivals, std::span<const std::size_t> chosen) {
  std::map<std::pair<Operation, std::int64_t>, MatchedArrivals> matches;
  for (const std::size_t a : chosen) matches[{arrivals[a].operation, arrivals[a].sequence}].push_back(a);
  std::vector<MatchedArrivals> result;
  for (auto& [key, match] : matches) result.push_back(std::move(match));
  return result;
}

/// A number that one member has twice is no number of its operations.
bool is_sound(std::span<const JobArrival> arrivals, const MatchedArrivals& match) {
  for (std::size_t i = 1; i < match.size(); ++i) {
    if (arrivals[match[i]].trace_rank == arrivals[match[i - 1]].trace_rank) return false;
  }
  return true;
}

/// By NCCL's numbers where members recorded them, else by what they did when.
std::vector<MatchedArrivals> match_collectives(const PlannedCommunicator& communicator,
                                               std::span<const JobArrival> arrivals,
                                               std::span<const std::size_t> chosen, const AlignmentOptions& alignment) {
  std::vector<std::size_t> numbered, others;
  for (const std::size_t a : chosen) (communicator.is_numbered(arrivals[a].operation) ? numbered : others).push_back(a);
  std::vector<MatchedArrivals> matches = by_number(arrivals, numbered);
  const auto sound = [&](const MatchedArrivals& match) { return is_sound(arrivals, match); };
  if (!std::all_of(matches.begin(), matches.end(), sound))
    return match_members(arrivals, by_member(communicator, arrivals, chosen), alignment);
  if (others.empty()) return matches;
  for (MatchedArrivals& match : match_members(arrivals, by_member(communicator, arrivals, others), alignment))
    matches.push_back(std::move(match));
  return matches;
}

/// The arrivals on a rough common clock.
std::vector<JobArrival> roughly_timed(std::span<const JobArrival> arrivals, const RoughTime& rough_time) {
  std::vector<JobArrival> timed(arrivals.begin(), arrivals.end());
  for (JobArrival& arrival : timed) {
    arrival.enter = rough_time(arrival.trace_rank, arrival.enter);
    arrival.exit = rough_time(arrival.trace_rank, arrival.exit);
  }
  return timed;
}

std::vector<MatchedArrivals> by_latest_enter(std::span<const JobArrival> arrivals,
                                             std::vector<MatchedArrivals> matches) {
  struct Place {
    JobTime last_enter;
    std::size_t first_arrival, match;
  };
  std::vector<Place> places;
  places.reserve(matches.size());
  for (std::size_t b = 0; b < matches.size(); ++b) {
    Place place{arrivals[matches[b].front()].enter, matches[b].front(), b};
    for (const std::size_t a : matches[b]) place.last_enter = std::max(place.last_enter, arrivals[a].enter);
    places.push_back(place);
  }
  std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
    return std::pair(a.last_enter, a.first_arrival) < std::pair(b.last_enter, b.first_arrival);
  });
  std::vector<MatchedArrivals> ordered;
  ordered.reserve(matches.size());
  for (const Place& place : places) ordered.push_back(std::move(matches[place.match]));
  return ordered;
}

/// All matches of a unit, in the order of their latest enters.
std::vector<MatchedArrivals> match_arrivals(const PlannedCommunicator& communicator,
                                            std::span<const JobArrival> arrivals, const AlignmentOptions& alignment) {
  const auto in_pairs = [&](const JobArrival& arrival) {
    return is_pair_exchange(arrival) && (communicator.size > 2 || arrival.directions != Directions::unknown);
  };
  std::vector<std::size_t> collective, exchanges;
  for (std::size_t a = 0; a < arrivals.size(); ++a) (in_pairs(arrivals[a]) ? exchanges : collective).push_back(a);
  std::vector<MatchedArrivals> matches = match_collectives(communicator, arrivals, collective, alignment);
  for (MatchedArrivals& match : match_pair_exchanges(communicator, arrivals, exchanges, alignment))
    matches.push_back(std::move(match));
  return by_latest_enter(arrivals, std::move(matches));
}

Instance make_instance(const PlannedCommunicator& communicator, std::int64_t sequence,
                       std::span<const JobArrival> arrivals, const MatchedArrivals& match,
                       std::vector<std::int64_t>& call_bytes) {
  const JobArrival& first = arrivals[match.front()];
  Instance instance;
  instance.sequence = sequence;
  instance.members = is_pair_exchange(first) ? 2 : communicator.size;
  instance.arrivals = static_cast<std::int32_t>(match.size());
  instance.complete = instance.arrivals == instance.members && !communicator.may_lack_members;
  instance.operation = first.operation;
  instance.kernel_name_hash = first.kernel_name_hash;
  instance.by_tree = first.by_tree;
  call_bytes.clear();
  for (const std::size_t a : match) {
    if (arrivals[a].call_bytes >= 0) call_bytes.push_back(arrivals[a].call_bytes);
    if (instance.operation == Operation::unknown) instance.operation = arrivals[a].operation;
  }
  if (!call_bytes.empty()) {
    instance.message_bytes = message_size_bytes(instance.operation, lower_median(call_bytes), instance.members);
    // Of two members, who exchanges with several exchanges with itself, too, and that half crosses no link.
    if (instance.operation == Operation::send_recv && first.peer_or_root == several_peers && instance.members == 2)
      instance.message_bytes /= 2;
  }
  return instance;
}

MatchedBlock match_sorted(const MatchUnit& unit, const PlannedCommunicator& communicator,
                          std::span<const JobArrival> arrivals, const AlignmentOptions& alignment,
                          const RoughTime& rough_time) {
  constexpr Nanoseconds rough_scale_ns = 20'000;
  const bool is_rough = alignment.time_scale_ns == no_time && rough_time;
  const std::vector<MatchedArrivals> matches =
      is_rough ? match_arrivals(communicator, roughly_timed(arrivals, rough_time), {rough_scale_ns})
               : match_arrivals(communicator, arrivals, alignment);
  MatchedBlock block;
  block.communicator = unit.communicator;
  block.instances.reserve(matches.size());
  block.arrivals.reserve(arrivals.size());
  std::int64_t next_sequence = unit.first_position;
  std::vector<std::int64_t> call_bytes;
  for (const MatchedArrivals& match : matches) {
    if (match.size() < 2) {
      block.unmatched_arrivals += static_cast<std::int64_t>(match.size());
      continue;
    }
    Instance instance = make_instance(communicator, next_sequence++, arrivals, match, call_bytes);
    instance.first_arrival = static_cast<std::int64_t>(block.arrivals.size());
    for (const std::size_t a : match) {
      const JobArrival& member = arrivals[a];
      block.arrivals.push_back({.enter = member.enter,
                                .exit = member.exit,
                                .work_ns = member.work_ns,
                                .trace_rank = member.trace_rank,
                                .index = member.index,
                                .timing_source = member.timing_source,
                                .blocking = member.blocking,
                                .step = member.step});
    }
    block.instances.push_back(instance);
  }
  return block;
}

}  // namespace

MatchedBlock match_unit(const MatchUnit& unit, const PlannedCommunicator& communicator,
                        std::span<const JobArrival> arrivals, const AlignmentOptions& alignment,
                        const RoughTime& rough_time) {
  const auto earlier = [](const JobArrival& a, const JobArrival& b) {
    return std::pair(a.trace_rank, a.position) < std::pair(b.trace_rank, b.position);
  };
  if (std::is_sorted(arrivals.begin(), arrivals.end(), earlier))
    return match_sorted(unit, communicator, arrivals, alignment, rough_time);
  std::vector<JobArrival> sorted(arrivals.begin(), arrivals.end());
  std::sort(sorted.begin(), sorted.end(), earlier);
  return match_sorted(unit, communicator, sorted, alignment, rough_time);
}

}  // namespace nsys_explain::collectives
