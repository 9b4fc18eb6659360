#include "collectives/lanes.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "collectives/matching.hpp"
#include "collectives/rank_clocks.hpp"
#include "collectives/shift_candidates.hpp"

namespace nsys_explain::collectives {
namespace {

/// What every kernel shows of an operation (see may_be_one).
std::uint64_t kind_of(std::uint64_t symbol) {
  return symbol >> 32U;
}

/// Enough operations to tell groups apart: the same stretch of time on every lane of a like pace.
void keep_central(std::vector<TimedOperation>& by_exit, Nanoseconds centre_ns) {
  constexpr std::size_t enough = 512;
  const auto centre = std::lower_bound(by_exit.begin(), by_exit.end(), centre_ns,
                                       [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  const Sample kept = sample_around(static_cast<std::size_t>(centre - by_exit.begin()), enough, by_exit.size());
  by_exit.erase(by_exit.begin() + static_cast<std::ptrdiff_t>(kept.end), by_exit.end());
  by_exit.erase(by_exit.begin(), by_exit.begin() + static_cast<std::ptrdiff_t>(kept.first));
}

/// Difference of the lane's nearest exit; NaN beyond the reach.
double exit_difference(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns, Nanoseconds reach_ns) {
  const auto found = lane.exits.find(symbol);
  if (found == lane.exits.end()) return std::nan("");
  const Nanoseconds difference_ns = nearest_exit(found->second, exit_ns).exit_ns - exit_ns;
  return std::abs(difference_ns) <= reach_ns ? static_cast<double>(difference_ns) : std::nan("");
}

}  // namespace

std::vector<Lane> make_lanes(std::span<const SampledOperation> samples, const RoughClocks& clocks, std::uint64_t first,
                             std::uint64_t end, bool is_fine) {
  std::map<std::int32_t, FineClock> fine;
  if (is_fine) fine = fine_clocks_of_ranks(samples, clocks);
  std::map<std::pair<std::int32_t, std::uint64_t>, Lane> lanes;
  std::map<std::pair<std::int32_t, std::uint64_t>, std::int64_t> point_to_point;
  std::set<std::pair<std::int32_t, std::uint64_t>> named_kinds;
  for (const SampledOperation& operation : samples) {
    if (names_communicator(operation.lane)) named_kinds.emplace(operation.trace_rank, kind_of(operation.symbol));
  }
  for (const SampledOperation& operation : samples) {
    if (operation.lane < first || operation.lane >= end) continue;
    const std::pair key(operation.trace_rank, operation.lane);
    Lane& lane = lanes[key];
    lane.trace_rank = operation.trace_rank;
    lane.lane = operation.lane;
    lane.component = clocks.component_of(operation.session);
    point_to_point[key] += operation.operation == Operation::send_recv ? 1 : -1;
    if (!may_end_together(operation.operation)) continue;
    // Calls name the communicators of this kind of operation here, so this is one of those; only which is not known.
    if (operation.is_orphan && named_kinds.contains({operation.trace_rank, kind_of(operation.symbol)})) {
      lane.is_named_elsewhere = true;
      continue;
    }
    lane.operation_of[operation.symbol] = operation.operation;
    const FineClock& clock = fine[operation.trace_rank];
    lane.exits[operation.symbol].push_back({clock.corrected(clocks.to_common(operation.session, operation.enter_ns)),
                                            clock.corrected(clocks.to_common(operation.session, operation.exit_ns))});
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

bool ends_sharply(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

Nanoseconds least_spread_ns(Operation operation) {
  return operation == Operation::reduce_scatter || operation == Operation::all_gather ? 500 : 150;
}

bool covers(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns) {
  const auto found = lane.exits.find(symbol);
  return found != lane.exits.end() && found->second.front().exit_ns <= exit_ns &&
         exit_ns <= found->second.back().exit_ns;
}

bool ends_near(const Lane& lane, std::uint64_t symbol, Nanoseconds exit_ns, Nanoseconds tolerance_ns) {
  const auto found = lane.exits.find(symbol);
  if (found == lane.exits.end()) return false;
  const auto next = std::lower_bound(found->second.begin(), found->second.end(), exit_ns - tolerance_ns,
                                     [](const TimedOperation& o, Nanoseconds t) { return o.exit_ns < t; });
  return next != found->second.end() && next->exit_ns <= exit_ns + tolerance_ns;
}

ExitTable exits_of(std::span<const Lane> lanes, std::span<const std::size_t> group,
                   std::optional<std::uint64_t> symbol) {
  constexpr Nanoseconds reach_ns = 20'000;
  ExitTable table{group.size(), {}};
  std::vector<Nanoseconds> times;
  const Lane& first = lanes[group.front()];
  for (const auto& [own_symbol, operations] : first.exits) {
    if (!ends_sharply(first.operation_of.at(own_symbol)) || (symbol && own_symbol != *symbol)) continue;
    for (const TimedOperation& operation : operations) {
      times.push_back(operation.exit_ns);
      for (const std::size_t l : group)
        table.exits.push_back(exit_difference(lanes[l], own_symbol, operation.exit_ns, reach_ns));
    }
  }
  remove_trends(table, times);
  return table;
}

}  // namespace nsys_explain::collectives
