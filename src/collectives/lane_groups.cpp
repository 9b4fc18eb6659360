#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "exit_agreement.hpp"
#include "nsys_explain/collectives/inference.hpp"
#include "shift_candidates.hpp"

namespace nsys_explain::collectives {
namespace {

constexpr std::size_t no_group = std::numeric_limits<std::size_t>::max();

/// The sampled operations of one lane, on the common clock.
struct Lane {
  std::int32_t trace_rank = -1;
  std::uint64_t lane = 0;
  std::int32_t component = 0;
  bool point_to_point = false;                                 ///< most of its operations are sends and receives
  std::map<std::uint64_t, std::vector<TimedOperation>> exits;  ///< of synchronising operations, by symbol
  std::size_t group = no_group;
  Nanoseconds best_spread_ns = std::numeric_limits<Nanoseconds>::max();  ///< of the exits it shares with another lane
};

/// Exits of all-reduces do not agree better than this; a few may by chance.
constexpr Nanoseconds least_spread_ns = 150;

/// Enough operations to tell groups apart: the same stretch of time on every lane of a like pace.
void keep_central(std::vector<TimedOperation>& by_exit, Nanoseconds centre_ns) {
  constexpr std::size_t enough = 512;
  const auto centre = std::lower_bound(by_exit.begin(), by_exit.end(), centre_ns,
                                       [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  const Sample kept = sample_around(static_cast<std::size_t>(centre - by_exit.begin()), enough, by_exit.size());
  by_exit.erase(by_exit.begin() + static_cast<std::ptrdiff_t>(kept.end), by_exit.end());
  by_exit.erase(by_exit.begin(), by_exit.begin() + static_cast<std::ptrdiff_t>(kept.first));
}

std::vector<Lane> make_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  std::map<std::pair<std::int32_t, std::uint64_t>, Lane> lanes;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int64_t> point_to_point;
  for (const SampledOperation& operation : samples) {
    if (operation.lane >= first_nccl_key) continue;
    const std::pair key(operation.trace_rank, operation.lane);
    Lane& lane = lanes[key];
    lane.trace_rank = operation.trace_rank;
    lane.lane = operation.lane;
    lane.component = clocks.component_of(operation.session);
    point_to_point[key] += operation.operation == Operation::send_recv ? 1 : -1;
    if (!may_end_together(operation.operation)) continue;
    lane.exits[operation.symbol].push_back({clocks.to_common(operation.session, operation.enter_ns),
                                            clocks.to_common(operation.session, operation.exit_ns)});
  }
  std::vector<Lane> result;
  for (auto& [key, lane] : lanes) {
    for (auto& [symbol, operations] : lane.exits) {
      std::sort(operations.begin(), operations.end(), [](const TimedOperation& a, const TimedOperation& b) {
        return std::tie(a.exit_ns, a.enter_ns) < std::tie(b.exit_ns, b.enter_ns);
      });
    }
    for (auto& [symbol, operations] : lane.exits) keep_central(operations, clocks.centre_ns());
    lane.point_to_point = point_to_point[key] > 0;
    result.push_back(std::move(lane));
  }
  return result;
}

/// The agreement of the symbol that tells most: the one whose exits agree best.
std::optional<ExitAgreement> best_agreement(const Lane& a, const Lane& b) {
  std::optional<ExitAgreement> best;
  for (const auto& [symbol, operations] : a.exits) {
    const auto other = b.exits.find(symbol);
    if (other == b.exits.end()) continue;
    const std::optional<ExitAgreement> agreement = exit_agreement(operations, other->second);
    if (!agreement || !ends_together(*agreement)) continue;
    if (!best || agreement->exit_spread_ns < best->exit_spread_ns) best = agreement;
  }
  return best;
}

class Grouper {
 public:
  explicit Grouper(std::vector<Lane> lanes) : lanes_(std::move(lanes)) {}

  LaneKeys run() {
    std::size_t groups = 0;
    bool any = false;
    for (std::size_t l = 0; l < lanes_.size(); ++l) {
      if (lanes_[l].group != no_group) continue;
      any = gather(l, groups) || any;
      ++groups;
    }
    LaneKeys keys;
    if (!any) return keys;
    for (const Lane& lane : lanes_) keys[{lane.trace_rank, lane.lane}] = lane.group;
    return keys;
  }

 private:
  /// Makes the group of one lane. Members of a point-to-point group need not share operations with the first one, and
  /// chance may set apart two that truly agree, so partners are asked in turn: all of them, or a few.
  bool gather(std::size_t first, std::size_t group) {
    constexpr std::size_t most_asked = 8;
    std::vector<std::size_t> members{first};
    std::set<std::int32_t> ranks{lanes_[first].trace_rank};
    lanes_[first].group = group;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if (m >= most_asked && !lanes_[members[m]].point_to_point) break;
      for (const std::size_t partner : partners(members[m])) {
        if (!ranks.insert(lanes_[partner].trace_rank).second) continue;
        lanes_[partner].group = group;
        members.push_back(partner);
      }
    }
    return members.size() > 1;
  }

  /// Lanes without a group that end together with this one, the sharpest first. One that agrees much worse than the
  /// best of any lane does belongs to another group of the same kind.
  std::vector<std::size_t> partners(std::size_t l) {
    std::vector<std::tuple<Nanoseconds, std::size_t, std::size_t>> found;  // spread, lane, pairs
    for (std::size_t other = 0; other < lanes_.size(); ++other) {
      const Lane& candidate = lanes_[other];
      if (candidate.group != no_group || candidate.trace_rank == lanes_[l].trace_rank ||
          candidate.component != lanes_[l].component) {
        continue;
      }
      if (const auto agreement = best_agreement(lanes_[l], candidate)) {
        found.emplace_back(std::max(agreement->exit_spread_ns, least_spread_ns), other, agreement->pairs);
      }
    }
    std::sort(found.begin(), found.end());
    Nanoseconds& best_ns = lanes_[l].best_spread_ns;
    if (!found.empty()) best_ns = std::min(best_ns, std::get<0>(found.front()));
    std::vector<std::size_t> result;
    for (const auto& [spread_ns, other, pairs] : found) {
      const Nanoseconds reference_ns = std::min(best_ns, lanes_[other].best_spread_ns);
      // Where only half of the operations are shared, the spread reaches into the tail of those.
      const double worst_ratio = worst_spread_ratio(pairs) * (lanes_[l].point_to_point ? 2 : 1);
      if (static_cast<double>(spread_ns) > worst_ratio * static_cast<double>(reference_ns)) continue;
      lanes_[other].best_spread_ns = std::min(lanes_[other].best_spread_ns, spread_ns);
      result.push_back(other);
    }
    return result;
  }

  std::vector<Lane> lanes_;
};

}  // namespace

LaneKeys group_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks) {
  return Grouper(make_lanes(samples, clocks)).run();
}

void apply_lane_keys(std::span<Arrival> arrivals, const LaneKeys& keys) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (Arrival& arrival : arrivals) {
    if (arrival.communicator < first_nccl_key) {
      const auto found = keys.find({arrival.trace_rank, arrival.communicator});
      if (found != keys.end()) arrival.communicator = found->second;
    }
    arrival.position = next_position[arrival.communicator]++;
  }
}

}  // namespace nsys_explain::collectives
