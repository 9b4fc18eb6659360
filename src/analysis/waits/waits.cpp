#include "analysis/waits/waits.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {

namespace {

/// A wrong match, or a wrong clock: whichever it is, its numbers mean nothing.
void withdraw_claims(Instance& instance) {
  instance.resolved = false;
  instance.transfer_ns = 0;
}

}  // namespace

void compute_waits(MatchedBlock& block, const ClockKnowledge& clock) {
  std::vector<Nanoseconds> scratch;
  for (Instance& instance : block.instances) {
    const std::span<const InstanceArrival> members = members_of(std::as_const(block), instance);
    // Last and second-last; ties go to the lower trace rank, which members are sorted by. An instance has two at least.
    const InstanceArrival* first = &members[0];
    const InstanceArrival* second = &members[members[1].enter > members[0].enter ? 0 : 1];
    const InstanceArrival* last = &members[members[1].enter > members[0].enter ? 1 : 0];
    if (members[1].enter < members[0].enter) first = &members[1];
    for (const InstanceArrival& member : members.subspan(2)) {
      if (member.enter < first->enter) first = &member;
      if (member.enter > last->enter) {
        second = last;
        last = &member;
      } else if (member.enter > second->enter) {
        second = &member;
      }
    }
    instance.first_enter = first->enter;
    instance.last_enter = last->enter;
    instance.last_trace_rank = last->trace_rank;
    const std::int32_t component = clock.component(last->trace_rank);
    instance.comparable = std::all_of(members.begin(), members.end(), [&](const InstanceArrival& member) {
      return clock.component(member.trace_rank) == component;
    });
    if (!instance.comparable) continue;
    const Nanoseconds u = clock.uncertainty(last->trace_rank, second->trace_rank, instance.last_enter);
    instance.skew_uncertainty_ns = u;
    instance.resolved = last->enter - second->enter > resolution_factor * u;

    scratch.clear();
    JobTime earliest_exit = members[0].exit, latest_exit = members[0].exit;
    for (const InstanceArrival& member : members) {
      scratch.push_back(std::max<Nanoseconds>(0, member.exit - instance.last_enter));
      earliest_exit = std::min(earliest_exit, member.exit);
      latest_exit = std::max(latest_exit, member.exit);
    }
    instance.end_residual_ns = latest_exit - earliest_exit;
    instance.transfer_ns = lower_median(scratch);
    instance.feasible =
        !is_synchronising(instance.operation) || earliest_exit + resolution_factor * u >= instance.last_enter;
    if (!instance.feasible) withdraw_claims(instance);
  }
}

bool stayed_for_last(const Instance& instance, const InstanceArrival& member) {
  return member.exit + resolution_factor * instance.skew_uncertainty_ns >= instance.last_enter;
}

void split_lateness(const Instance& instance, InstanceArrival& member, Nanoseconds excess_work_ns) {
  const Nanoseconds lateness = member.enter - instance.first_enter;
  member.own_lateness_ns = std::clamp<Nanoseconds>(excess_work_ns, 0, lateness);
  member.lateness_split = true;
}

Nanoseconds most_caused_wait(const Instance& instance, std::span<const InstanceArrival> members) {
  if (!instance.resolved) return 0;
  Nanoseconds own = 0;
  JobTime second(std::numeric_limits<Nanoseconds>::min());
  for (const InstanceArrival& member : members) {
    if (member.trace_rank == instance.last_trace_rank) {
      own = member.own_lateness_ns;
    } else {
      second = std::max(second, member.enter);
    }
  }
  return instance.last_enter - std::max(second, instance.last_enter - own);
}

void compute_caused_wait(Instance& instance, std::span<const InstanceArrival> members) {
  instance.caused_wait_ns = 0;
  const Nanoseconds most_ns = most_caused_wait(instance, members);
  if (most_ns == 0) return;
  for (const InstanceArrival& member : members)
    if (stayed_for_last(instance, member)) instance.caused_wait_ns += std::min(wait_ns(instance, member), most_ns);
}

Totals make_totals(std::size_t trace_ranks) {
  Totals totals;
  totals.ranks.resize(trace_ranks);
  totals.spans.resize(trace_ranks);
  totals.operations.resize(operation_count);
  return totals;
}

namespace {

bool is_own_last(const Instance& instance, const InstanceArrival& arrival) {
  return arrival.trace_rank == instance.last_trace_rank && arrival.own_lateness_ns > 0 &&
         arrival.own_lateness_ns * 2 >= arrival.enter - instance.first_enter;
}

std::int64_t bus_bytes_of(const Instance& instance) {
  return static_cast<std::int64_t>(static_cast<double>(instance.message_bytes) *
                                   bus_bandwidth_factor(instance.operation, instance.members));
}

}  // namespace

void count_instances(CommunicatorTotals& totals, const MatchedBlock& block) {
  totals.unmatched_arrivals += block.unmatched_arrivals;
  for (const Instance& instance : block.instances) {
    ++totals.instances;
    totals.complete += instance.complete ? 1 : 0;
    totals.infeasible += instance.feasible ? 0 : 1;
    totals.unjudged += instance.feasible && instance.comparable ? 0 : 1;
    totals.pair_exchanges += instance.operation == Operation::send_recv && instance.arrivals == 2 ? 1 : 0;
    const bool among_many = instance.operation == Operation::send_recv && instance.arrivals > 2;
    totals.all_to_alls += among_many || instance.operation == Operation::all_to_all ? 1 : 0;
    const std::span<const InstanceArrival> members = members_of(block, instance);
    const auto blocking =
        std::count_if(members.begin(), members.end(), [](const InstanceArrival& arrival) { return arrival.blocking; });
    totals.blocking_instances += 2 * blocking > instance.arrivals ? 1 : 0;
  }
}

void accumulate(Totals& totals, const MatchedBlock& block, std::span<const std::int32_t> trace_ranks) {
  for (const Instance& instance : block.instances) {
    totals.largest_skew_uncertainty_ns = std::max(totals.largest_skew_uncertainty_ns, instance.skew_uncertainty_ns);
    OperationTotals& operation = totals.operations[static_cast<std::size_t>(instance.operation)];
    ++operation.instances;
    operation.transfer_ns += instance.transfer_ns;
    const bool sized = instance.complete && instance.feasible && instance.message_bytes >= 0;
    const std::int64_t bus_bytes = sized ? bus_bytes_of(instance) : 0;
    if (sized) {
      ++operation.sized_instances;
      operation.sized_bytes += instance.message_bytes;
      operation.sized_bus_bytes += bus_bytes;
      operation.sized_transfer_ns += instance.transfer_ns;
    }

    const std::int64_t expected_last_ppb = 1'000'000'000 / instance.arrivals;
    for (const InstanceArrival& arrival : members_of(block, instance)) {
      const std::size_t index = index_of_trace_rank(trace_ranks, arrival.trace_rank);
      RankTotals& rank = totals.ranks[index];
      ++rank.arrivals;
      const Nanoseconds waited_ns = wait_ns(instance, arrival);
      rank.wait_ns += waited_ns;
      rank.own_lateness_ns += arrival.own_lateness_ns;
      rank.inherited_lateness_ns += inherited_lateness_ns(instance, arrival);
      operation.wait_ns += waited_ns;
      if (sized) {
        rank.sized_bus_bytes += bus_bytes;
        rank.sized_transfer_ns += instance.transfer_ns;
      }
      if (!instance.resolved) continue;
      ++rank.resolved;
      rank.expected_last_ppb += expected_last_ppb;
      if (arrival.trace_rank != instance.last_trace_rank) continue;
      ++rank.last_arrivals;
      rank.caused_wait_ns += instance.caused_wait_ns;
      if (!is_own_last(instance, arrival)) continue;
      ++rank.own_last_arrivals;
      rank.caused_lateness_ns += arrival.own_lateness_ns;
      totals.spans[index].first_ns = std::min(totals.spans[index].first_ns, arrival.enter.ns);
      totals.spans[index].last_ns = std::max(totals.spans[index].last_ns, arrival.enter.ns);
    }
  }
}

std::optional<double> bus_bandwidth_gbs(const RankTotals& totals) {
  if (totals.sized_bus_bytes <= 0 || totals.sized_transfer_ns <= 0) return std::nullopt;
  return static_cast<double>(totals.sized_bus_bytes) / static_cast<double>(totals.sized_transfer_ns);
}

std::vector<OperationSummary> summarise_operations(std::span<const OperationTotals> totals) {
  std::vector<OperationSummary> rows;
  for (std::size_t o = 0; o < totals.size(); ++o) {
    const OperationTotals& operation = totals[o];
    if (operation.instances == 0) continue;
    OperationSummary row;
    row.operation = static_cast<Operation>(o);
    row.instances = operation.instances;
    row.wait_ns = operation.wait_ns;
    row.transfer_ns = operation.transfer_ns;
    if (operation.sized_instances > 0) row.bytes = operation.sized_bytes;
    if (operation.sized_bytes > 0 && operation.sized_transfer_ns > 0) {
      // bytes per nanosecond is GB/s with GB = 1e9.
      const double transfer = static_cast<double>(operation.sized_transfer_ns);
      row.algorithm_bandwidth_gbs = static_cast<double>(operation.sized_bytes) / transfer;
      row.bus_bandwidth_gbs = static_cast<double>(operation.sized_bus_bytes) / transfer;
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace nsys_explain::analysis
