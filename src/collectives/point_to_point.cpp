#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "collectives/exchange_links.hpp"
#include "collectives/member_matching.hpp"

namespace nsys_explain::collectives {
namespace {

bool sends(Directions directions) {
  return directions == Directions::sends || directions == Directions::both;
}
bool receives(Directions directions) {
  return directions == Directions::receives || directions == Directions::both;
}

/// True where one sends what the other receives, as far as calls tell.
bool are_complementary(Directions a, Directions b) {
  if (a == Directions::unknown || b == Directions::unknown) return true;
  return sends(a) == receives(b) && receives(a) == sends(b);
}

/// What an exchange moves, the same seen from both of its ends. A host's messages have a tag.
std::uint64_t exchange_symbol(const JobArrival& arrival, bool is_lower) {
  const bool up = is_lower ? sends(arrival.directions) : receives(arrival.directions);
  const bool down = is_lower ? receives(arrival.directions) : sends(arrival.directions);
  const std::uint64_t tag = arrival.timing_source == TimingSource::host_call ? arrival.kernel_name_hash : 0;
  return (up ? 1U : 0U) | (down ? 2U : 0U) | tag << 2U;
}

std::size_t member_of(const PlannedCommunicator& communicator, const JobArrival& arrival) {
  const auto found =
      std::lower_bound(communicator.trace_ranks.begin(), communicator.trace_ranks.end(), arrival.trace_rank);
  return static_cast<std::size_t>(found - communicator.trace_ranks.begin());
}

/// Hosts name each other by number in the job.
std::size_t member_of(const PlannedCommunicator& communicator, std::int32_t trace_rank, std::size_t if_none) {
  const auto& ranks = communicator.trace_ranks;
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), trace_rank);
  return found != ranks.end() && *found == trace_rank ? static_cast<std::size_t>(found - ranks.begin()) : if_none;
}

/// Matches exchanges of which no call tells the peer: those that are linked.
std::vector<MatchedArrivals> match_linked(const PlannedCommunicator& communicator, std::span<const JobArrival> arrivals,
                                          std::span<const std::size_t> exchanges, const AlignmentOptions& alignment) {
  std::vector<std::vector<std::size_t>> by_exit(communicator.trace_ranks.size());
  for (const std::size_t e : exchanges) by_exit[member_of(communicator, arrivals[e])].push_back(e);
  std::vector<MemberExchanges> members;
  for (std::vector<std::size_t>& member : by_exit) {
    std::sort(member.begin(), member.end(), [&](std::size_t x, std::size_t y) {
      return std::tuple(arrivals[x].exit, x) < std::tuple(arrivals[y].exit, y);
    });
    MemberExchanges& of_member = members.emplace_back();
    for (const std::size_t e : member) {
      of_member.enter_ns.push_back(arrivals[e].enter.ns);
      of_member.exit_ns.push_back(arrivals[e].exit.ns);
    }
  }
  std::vector<MatchedArrivals> matches;
  std::vector<bool> is_matched(arrivals.size(), false);
  for (const LinkedPair& pair : link_exchanges(members).pairs) {
    const std::size_t a = by_exit[pair.a][pair.i], b = by_exit[pair.b][pair.j];
    if (!are_complementary(arrivals[a].directions, arrivals[b].directions)) continue;
    if (!is_feasible(arrivals[a], arrivals[b], alignment)) continue;
    is_matched[a] = is_matched[b] = true;
    matches.push_back({std::min(a, b), std::max(a, b)});
  }
  for (const std::size_t e : exchanges) {
    if (!is_matched[e]) matches.push_back({e});
  }
  return matches;
}

/// The exchanges of two members with each other.
using Ends = std::array<MemberArrivals, 2>;

/// What both ends of a pair know the number of (NCCL Inspector) is matched by it, and taken out of `ends`. Nothing
/// where an end has a number twice.
std::vector<MatchedArrivals> match_numbered(std::span<const JobArrival> arrivals, Ends& ends) {
  std::map<std::pair<std::uint64_t, std::int64_t>, MatchedArrivals> matches;
  for (const MemberArrivals& end : ends) {
    std::set<std::pair<std::uint64_t, std::int64_t>> own;
    for (std::size_t i = 0; i < end.indices.size(); ++i) {
      const std::pair key(end.symbols[i], arrivals[end.indices[i]].sequence);
      if (key.second < 0) continue;
      if (!own.insert(key).second) return {};
      matches[key].push_back(end.indices[i]);
    }
  }
  std::vector<MatchedArrivals> result;
  std::set<std::size_t> taken;
  for (auto& [key, match] : matches) {
    if (match.size() < 2) continue;  // its counterpart may have no number
    taken.insert(match.begin(), match.end());
    result.push_back(std::move(match));
  }
  for (MemberArrivals& end : ends) {
    MemberArrivals left;
    for (std::size_t i = 0; i < end.indices.size(); ++i) {
      if (taken.contains(end.indices[i])) continue;
      left.indices.push_back(end.indices[i]);
      left.symbols.push_back(end.symbols[i]);
    }
    end = std::move(left);
  }
  return result;
}

/// NCCL pairs the k-th send of a direction with its k-th receive, whatever goes the other way meanwhile. So each
/// direction is matched by itself, if all calls tell it.
std::vector<Ends> by_direction(std::span<const JobArrival> arrivals, const Ends& ends) {
  std::map<std::uint64_t, Ends> directions;
  for (std::size_t end = 0; end < ends.size(); ++end) {
    for (std::size_t i = 0; i < ends[end].indices.size(); ++i) {
      if (arrivals[ends[end].indices[i]].directions == Directions::unknown) return {ends};
      MemberArrivals& member = directions[ends[end].symbols[i]][end];
      member.indices.push_back(ends[end].indices[i]);
      member.symbols.push_back(ends[end].symbols[i]);
    }
  }
  std::vector<Ends> result;
  for (auto& [symbol, one_way] : directions) result.push_back(std::move(one_way));
  return result;
}

/// MPI's messages of one direction and tag do not overtake each other: the k-th that is sent is the k-th received. None
/// is told where some were not seen, or a receive would be over before its message was sent.
std::vector<MatchedArrivals> match_messages(std::span<const JobArrival> arrivals, const Ends& ends,
                                            const AlignmentOptions& alignment) {
  std::vector<MatchedArrivals> matches, alone;
  bool are_possible = ends[0].indices.size() == ends[1].indices.size();
  for (const MemberArrivals& end : ends)
    for (const std::size_t a : end.indices) alone.push_back({a});
  for (std::size_t k = 0; are_possible && k < ends[0].indices.size(); ++k) {
    matches.push_back({ends[0].indices[k], ends[1].indices[k]});
    are_possible =
        arrivals[ends[0].indices[k]].directions == Directions::both || is_received(arrivals, matches.back(), alignment);
  }
  return are_possible ? matches : alone;
}

/// A call that waits for several messages is matched with the one that was sent last, and what continues it with the
/// others in the order in which they were sent. If one is not known, the call may have waited for it. Matches of calls
/// that wait for one message remain. Times are on one clock.
std::vector<MatchedArrivals> order_completions(std::span<const JobArrival> arrivals,
                                               std::vector<MatchedArrivals> matches) {
  std::map<std::size_t, std::size_t> sent_to;  // by what receives
  std::vector<MatchedArrivals> result;
  for (MatchedArrivals& match : matches) {
    if (match.size() == 2 && is_one_way(arrivals[match.front()].directions)) {
      const bool sends_first = arrivals[match.front()].directions == Directions::sends;
      sent_to[sends_first ? match.back() : match.front()] = sends_first ? match.front() : match.back();
    } else {
      result.push_back(std::move(match));
    }
  }
  for (auto first = sent_to.begin(), end = first; first != sent_to.end(); first = end) {
    std::vector<std::size_t> parts, sends;
    for (end = first; end != sent_to.end(); ++end) {
      const bool is_next = end == first || (arrivals[end->first].continues && end->first == parts.back() + 1);
      if (!is_next) break;
      parts.push_back(end->first);
      sends.push_back(end->second);
    }
    const std::size_t after = parts.back() + 1;
    const bool is_whole =
        !arrivals[parts.front()].continues && (after == arrivals.size() || !arrivals[after].continues ||
                                               arrivals[after].trace_rank != arrivals[parts.back()].trace_rank);
    std::sort(sends.begin(), sends.end(), [&](std::size_t a, std::size_t b) {
      return std::tuple(-arrivals[a].enter.ns, a) < std::tuple(-arrivals[b].enter.ns, b);
    });
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (is_whole) {
        result.push_back({std::min(parts[i], sends[i]), std::max(parts[i], sends[i])});
      } else {
        result.push_back({parts[i]});
        result.push_back({sends[i]});
      }
    }
  }
  return result;
}

}  // namespace

std::vector<MatchedArrivals> match_pair_exchanges(const PlannedCommunicator& communicator,
                                                  std::span<const JobArrival> arrivals,
                                                  std::span<const std::size_t> exchanges,
                                                  const AlignmentOptions& alignment) {
  const std::size_t size = communicator.trace_ranks.size();
  std::map<std::int32_t, std::size_t> member_of_rank;
  for (std::size_t m = 0; m < communicator.ranks.size(); ++m) {
    if (communicator.ranks[m] >= 0) member_of_rank[communicator.ranks[m]] = m;
  }
  std::vector<MatchedArrivals> matches, messages;
  std::map<std::pair<std::size_t, std::size_t>, Ends> pairs;
  std::vector<std::size_t> peer_unknown;
  for (const std::size_t e : exchanges) {
    const JobArrival& arrival = arrivals[e];
    const std::size_t own = member_of(communicator, arrival);
    const bool is_of_host = arrival.timing_source == TimingSource::host_call;
    const auto told = member_of_rank.find(arrival.peer_or_root);
    std::size_t peer = told == member_of_rank.end() ? own : told->second;
    if (is_of_host)
      peer = arrival.peer_or_root < 0 ? own : member_of(communicator, arrival.peer_or_root, own);
    else if (communicator.size == 2 && size == 2)
      peer = 1 - own;
    if (peer != own) {
      MemberArrivals& end = pairs[std::minmax(own, peer)][own < peer ? 0 : 1];
      end.indices.push_back(e);
      end.symbols.push_back(exchange_symbol(arrival, own < peer));
    } else if (arrival.peer_or_root >= 0 && !member_of_rank.empty()) {
      matches.push_back({e});  // its peer was not captured
    } else {
      peer_unknown.push_back(e);
    }
  }
  for (auto& [key, ends] : pairs) {
    const MemberArrivals& known = ends[ends[0].indices.empty() ? 1 : 0];
    if (arrivals[known.indices.front()].timing_source == TimingSource::host_call) {
      for (const Ends& direction : by_direction(arrivals, ends))
        for (MatchedArrivals& match : match_messages(arrivals, direction, alignment))
          messages.push_back(std::move(match));
      continue;
    }
    std::vector<MatchedArrivals> numbered = match_numbered(arrivals, ends);
    const bool all_are_left = numbered.empty();
    std::move(numbered.begin(), numbered.end(), std::back_inserter(matches));
    const std::vector<Ends> directions = all_are_left ? by_direction(arrivals, ends) : std::vector<Ends>{ends};
    for (const Ends& direction : directions)
      for (MatchedArrivals& match : match_members(arrivals, direction, alignment, all_are_left))
        matches.push_back(std::move(match));
  }
  for (MatchedArrivals& match : order_completions(arrivals, std::move(messages))) matches.push_back(std::move(match));
  if (alignment.time_scale_ns != no_time) {
    for (MatchedArrivals& match : match_linked(communicator, arrivals, peer_unknown, alignment))
      matches.push_back(std::move(match));
  } else {
    for (const std::size_t e : peer_unknown) matches.push_back({e});
  }
  return matches;
}

}  // namespace nsys_explain::collectives
