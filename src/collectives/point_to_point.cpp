#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "collectives/bundles.hpp"
#include "collectives/exit_agreement.hpp"

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

/// What an exchange moves, the same seen from both of its ends.
std::uint64_t exchange_symbol(const Arrival& arrival, bool is_lower) {
  const bool up = is_lower ? sends(arrival.directions) : receives(arrival.directions);
  const bool down = is_lower ? receives(arrival.directions) : sends(arrival.directions);
  return (up ? 1U : 0U) | (down ? 2U : 0U);
}

std::size_t member_of(const PlannedCommunicator& communicator, const Arrival& arrival) {
  const auto found =
      std::lower_bound(communicator.trace_ranks.begin(), communicator.trace_ranks.end(), arrival.trace_rank);
  return static_cast<std::size_t>(found - communicator.trace_ranks.begin());
}

/// Exits do not agree better than this; a few may by chance.
constexpr Nanoseconds least_spread_ns = 150;

/// Two members whose exchanges end together.
struct Channel {
  std::size_t a = 0, b = 0;
  ExitAgreement agreement;
};

/// How exchanges that were matched lie between their two members; where they are few, what is usual.
Channel channel_of(std::size_t a, std::size_t b, std::span<const Arrival> arrivals, std::span<const Bundle> matched,
                   const PlannedCommunicator& communicator) {
  std::array<std::vector<TimedOperation>, 2> ends;
  for (const Bundle& bundle : matched) {
    for (const std::size_t e : bundle) {
      if (bundle.size() == 2)
        ends[member_of(communicator, arrivals[e]) == a ? 0 : 1].push_back({arrivals[e].enter_ns, arrivals[e].exit_ns});
    }
  }
  for (std::vector<TimedOperation>& end : ends) {
    std::sort(end.begin(), end.end(),
              [](const TimedOperation& x, const TimedOperation& y) { return x.exit_ns < y.exit_ns; });
  }
  constexpr Nanoseconds usual_spread_ns = 2'000;
  return {a, b, exit_agreement(ends[0], ends[1]).value_or(ExitAgreement{.exit_spread_ns = usual_spread_ns})};
}

/// Finds the peers of exchanges whose calls do not tell them.
class PeerFinder {
 public:
  PeerFinder(const PlannedCommunicator& communicator, std::span<const Arrival> arrivals,
             std::span<const std::size_t> exchanges, std::map<std::size_t, std::size_t> peer_of,
             const AlignmentOptions& alignment)
      : trace_ranks_(communicator.trace_ranks),
        arrivals_(arrivals),
        peer_of_(std::move(peer_of)),
        alignment_(alignment),
        by_exit_(communicator.trace_ranks.size()) {
    for (const std::size_t e : exchanges) by_exit_[member_of(communicator, arrivals[e])].push_back(e);
    for (std::vector<std::size_t>& member : by_exit_) {
      std::sort(member.begin(), member.end(), [&](std::size_t x, std::size_t y) {
        return std::tuple(arrivals[x].exit_ns, x) < std::tuple(arrivals[y].exit_ns, y);
      });
    }
  }

  /// `told`: between members that calls tell; others are looked for.
  std::vector<Bundle> run(const std::vector<Channel>& told) {
    std::vector<Candidate> candidates;
    const auto is_told = [&](const Channel& found) {
      return std::any_of(told.begin(), told.end(), [&](const Channel& t) { return t.a == found.a && t.b == found.b; });
    };
    // What is left between told peers lies at the windows' edges, where the clock's drift counts.
    constexpr Nanoseconds sought_reach_ns = 5'000, told_reach_ns = 20'000;
    for (const Channel& channel : told) add_candidates(channel, told_reach_ns, false, candidates);
    const std::vector<Channel> sought = channels();
    const std::int32_t usual = usual_distance(sought);
    for (const Channel& channel : sought) {
      if (!is_told(channel)) add_candidates(channel, sought_reach_ns, distance(channel) != usual, candidates);
    }
    // The closest pairs first: an exchange has one counterpart only.
    std::sort(candidates.begin(), candidates.end());
    std::vector<Bundle> bundles;
    std::vector<bool> taken(arrivals_.size(), false);
    std::size_t exchanges = 0;
    for (const std::vector<std::size_t>& member : by_exit_) exchanges += member.size();
    for (const auto& [is_unusual, distance_ns, a, b] : candidates) {
      if (taken[a] || taken[b]) continue;
      taken[a] = taken[b] = true;
      bundles.push_back({a, b});
    }
    // Where peers of most are not here, those of the few that seem to meet are hardly either.
    constexpr double least_paired = 0.4;
    if (told.empty() && 2 * static_cast<double>(bundles.size()) < least_paired * static_cast<double>(exchanges)) {
      bundles.clear();
      taken.assign(arrivals_.size(), false);
    }
    for (const std::vector<std::size_t>& member : by_exit_) {
      for (const std::size_t e : member) {
        if (!taken[e]) bundles.push_back({e});
      }
    }
    return bundles;
  }

 private:
  /// Whether it lies across the layout, how far exits are apart, and two exchanges.
  using Candidate = std::tuple<bool, Nanoseconds, std::size_t, std::size_t>;

  std::int32_t distance(const Channel& channel) const { return trace_ranks_[channel.b] - trace_ranks_[channel.a]; }

  /// Programs lay pipelines out with equal distances between stages. Neighbours that tensor groups hold in step
  /// exchange at one time, so that who lies across seems to be a peer as well.
  std::int32_t usual_distance(std::span<const Channel> channels) const {
    std::map<std::int32_t, double> exchanges;
    for (const Channel& channel : channels)
      exchanges[distance(channel)] += channel.agreement.shared_part * static_cast<double>(channel.agreement.pairs);
    const auto most = std::max_element(exchanges.begin(), exchanges.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == exchanges.end() ? 0 : most->first;
  }

  /// False where the call of an exchange tells another peer.
  bool may_meet(std::size_t exchange, std::size_t member) const {
    const auto told = peer_of_.find(exchange);
    return told == peer_of_.end() || told->second == member;
  }

  /// Members that others hold in step agree, too, though their peers are elsewhere, but neither sharply nor much better
  /// than their enters do.
  static bool is_channel(const ExitAgreement& agreement) {
    constexpr Nanoseconds widest_spread_ns = 5'000, times = 5;
    return ends_together(agreement) && agreement.exit_spread_ns <= widest_spread_ns &&
           times * agreement.exit_spread_ns <= agreement.enter_spread_ns;
  }

  std::vector<TimedOperation> timed(std::size_t member) const {
    std::vector<TimedOperation> operations;
    for (const std::size_t e : by_exit_[member]) operations.push_back({arrivals_[e].enter_ns, arrivals_[e].exit_ns});
    return operations;
  }

  std::vector<Channel> channels() const {
    std::vector<std::vector<TimedOperation>> operations;
    for (std::size_t m = 0; m < by_exit_.size(); ++m) operations.push_back(timed(m));
    std::vector<Channel> found;
    for (std::size_t a = 0; a < operations.size(); ++a) {
      for (std::size_t b = a + 1; b < operations.size(); ++b) {
        const auto agreement = exit_agreement(operations[a], operations[b]);
        if (agreement && is_channel(*agreement)) found.push_back({a, b, *agreement});
      }
    }
    std::vector<Nanoseconds> best_ns(operations.size(), std::numeric_limits<Nanoseconds>::max());
    for (const Channel& channel : found) {
      for (const std::size_t m : {channel.a, channel.b})
        best_ns[m] = std::min(best_ns[m], std::max(least_spread_ns, channel.agreement.exit_spread_ns));
    }
    const auto is_as_good = [&](const Channel& channel) {
      const auto reference_ns = static_cast<double>(std::min(best_ns[channel.a], best_ns[channel.b]));
      // Pairs have links of their own, so good ones differ among themselves.
      return static_cast<double>(channel.agreement.exit_spread_ns) <=
             2 * worst_spread_ratio(channel.agreement.pairs) * reference_ns;
    };
    const auto first_worse = std::stable_partition(found.begin(), found.end(), is_as_good);
    std::vector<Channel> worse(first_worse, found.end());
    found.erase(first_worse, found.end());
    drop_rivals(found);
    add_where_room(std::move(worse), found);
    return found;
  }

  /// How often an exchange of each member is claimed, on average.
  std::vector<double> parts_taken(const std::vector<Channel>& channels) const {
    std::vector<double> taken(by_exit_.size(), 0);
    for (const Channel& channel : channels) {
      for (const std::size_t m : {channel.a, channel.b}) taken[m] += channel.agreement.shared_part;
    }
    return taken;
  }

  /// Channels that agree worse than others of their members, but take what all others leave, and whose enters have
  /// nothing to do with each other: members that others hold in step enter together, too.
  void add_where_room(std::vector<Channel> worse, std::vector<Channel>& channels) const {
    constexpr Nanoseconds far_wider = 100;
    constexpr double all = 1.05;
    std::erase_if(worse, [](const Channel& channel) {
      return channel.agreement.enter_spread_ns < far_wider * channel.agreement.exit_spread_ns;
    });
    std::vector<Channel> together = channels;
    together.insert(together.end(), worse.begin(), worse.end());
    const std::vector<double> taken = parts_taken(together);
    std::copy_if(worse.begin(), worse.end(), std::back_inserter(channels),
                 [&](const Channel& channel) { return taken[channel.a] <= all && taken[channel.b] <= all; });
  }

  /// Channels that would take most of a member's exchanges twice: peers that others hold in step leave alike, and which
  /// of them is whose cannot be told.
  void drop_rivals(std::vector<Channel>& channels) const {
    constexpr double most_taken = 1.5;
    const std::vector<double> taken = parts_taken(channels);
    std::erase_if(channels, [&](const Channel& channel) {
      return taken[channel.a] > most_taken || taken[channel.b] > most_taken;
    });
  }

  void add_candidates(const Channel& channel, Nanoseconds reach_ns, bool is_unusual,
                      std::vector<Candidate>& candidates) const {
    const Nanoseconds tolerance_ns = std::max(reach_ns, 10 * channel.agreement.exit_spread_ns);
    const std::vector<std::size_t>& others = by_exit_[channel.b];
    for (const std::size_t a : by_exit_[channel.a]) {
      const Nanoseconds expected_ns = arrivals_[a].exit_ns + channel.agreement.shift_ns;
      auto b = std::lower_bound(others.begin(), others.end(), expected_ns - tolerance_ns,
                                [&](std::size_t e, Nanoseconds t) { return arrivals_[e].exit_ns < t; });
      for (; b != others.end() && arrivals_[*b].exit_ns <= expected_ns + tolerance_ns; ++b) {
        if (!may_meet(a, channel.b) || !may_meet(*b, channel.a)) continue;
        if (!are_complementary(arrivals_[a].directions, arrivals_[*b].directions)) continue;
        if (!is_feasible(arrivals_[a], arrivals_[*b], alignment_)) continue;
        candidates.emplace_back(is_unusual, std::abs(arrivals_[*b].exit_ns - expected_ns), a, *b);
      }
    }
  }

  std::span<const std::int32_t> trace_ranks_;  ///< of the members
  std::span<const Arrival> arrivals_;
  std::map<std::size_t, std::size_t> peer_of_;  ///< exchange: member that its call tells
  const AlignmentOptions& alignment_;
  std::vector<std::vector<std::size_t>> by_exit_;  ///< exchanges of each member
};

}  // namespace

std::vector<Bundle> match_pair_exchanges(const PlannedCommunicator& communicator, std::span<const Arrival> arrivals,
                                         std::span<const std::size_t> exchanges, const AlignmentOptions& alignment) {
  const std::size_t size = communicator.trace_ranks.size();
  std::map<std::int32_t, std::size_t> member_of_rank;
  for (std::size_t m = 0; m < communicator.ranks.size(); ++m) {
    if (communicator.ranks[m] >= 0) member_of_rank[communicator.ranks[m]] = m;
  }
  std::vector<Bundle> bundles;
  std::map<std::pair<std::size_t, std::size_t>, std::array<MemberArrivals, 2>> pairs;
  std::vector<std::size_t> peer_unknown;
  for (const std::size_t e : exchanges) {
    const Arrival& arrival = arrivals[e];
    const std::size_t own = member_of(communicator, arrival);
    const auto told = member_of_rank.find(arrival.peer_or_root);
    std::size_t peer = told == member_of_rank.end() ? own : told->second;
    if (communicator.size == 2 && size == 2) peer = 1 - own;
    if (peer != own) {
      MemberArrivals& end = pairs[std::minmax(own, peer)][own < peer ? 0 : 1];
      end.indices.push_back(e);
      end.symbols.push_back(exchange_symbol(arrival, own < peer));
    } else if (arrival.peer_or_root >= 0 && !member_of_rank.empty()) {
      bundles.push_back({e});  // its peer was not captured
    } else {
      peer_unknown.push_back(e);
    }
  }
  const bool are_peers_sought = !peer_unknown.empty() && alignment.time_scale_ns != no_time;
  std::vector<Channel> told;
  std::map<std::size_t, std::size_t> peer_of;
  for (const auto& [key, ends] : pairs) {
    std::vector<Bundle> matched = match_members(arrivals, ends, alignment);
    if (are_peers_sought) told.push_back(channel_of(key.first, key.second, arrivals, matched, communicator));
    for (Bundle& bundle : matched) {
      // What its peer did may be one of those that do not tell theirs.
      if (are_peers_sought && bundle.size() == 1) {
        const std::size_t e = bundle.front(), own = member_of(communicator, arrivals[e]);
        peer_of[e] = own == key.first ? key.second : key.first;
        peer_unknown.push_back(e);
      } else {
        bundles.push_back(std::move(bundle));
      }
    }
  }
  if (are_peers_sought) {
    for (Bundle& bundle : PeerFinder(communicator, arrivals, peer_unknown, std::move(peer_of), alignment).run(told))
      bundles.push_back(std::move(bundle));
  } else {
    for (const std::size_t e : peer_unknown) bundles.push_back({e});
  }
  return bundles;
}

}  // namespace nsys_explain::collectives
