#include "analysis/waits/totals.hpp"

#include <algorithm>

#include "nsys_explain/model/trace_rank_index.hpp"

namespace nsys_explain::analysis {

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
         arrival.own_lateness_ns * 2 >= arrival.enter_ns - instance.first_enter_ns;
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
      totals.spans[index].first_ns = std::min(totals.spans[index].first_ns, arrival.enter_ns);
      totals.spans[index].last_ns = std::max(totals.spans[index].last_ns, arrival.enter_ns);
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
