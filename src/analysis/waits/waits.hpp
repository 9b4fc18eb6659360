#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// What the job clock knows about differences between trace ranks.
struct ClockKnowledge {
  /// Times of trace ranks can be compared if this is equal.
  std::function<std::int32_t(std::int32_t trace_rank)> component;
  /// One standard uncertainty of the difference of two times near `at` of comparable trace ranks.
  std::function<Nanoseconds(std::int32_t trace_rank_a, std::int32_t trace_rank_b, JobTime at)> uncertainty;
};

/// An arrival is resolved as the last one beyond this many standard uncertainties.
inline constexpr std::int64_t resolution_factor = 3;

/// Last arrivers and transfers of every instance of a block; its arrivals' waits follow from
/// them. Of members without comparable clocks, and of infeasible instances, nothing is claimed: waits are 0, and none
/// is resolved.
void compute_waits(MatchedBlock& block, const ClockKnowledge& clock);

/// True where a member was still there when the last one entered, as far as the clocks tell. Who left before (the root
/// of a broadcast, or who only sends to that of a reduce) did not wait for the last one: in Scalasca's terms, late
/// broadcast and early reduce are waits of those who receive. Its wait is nobody's fault.
bool stayed_for_last(const Instance& instance, const InstanceArrival& member);

/// Splits the lateness of one member: own is its work before this enter beyond that of its peers (docs/method.md,
/// Lateness; see rank_timeline.hpp), at most the lateness; the rest was inherited.
void split_lateness(const Instance& instance, InstanceArrival& member, Nanoseconds excess_work_ns);

/// How much the waiting of each who stayed shrinks at most if the last arriver had come without its own lateness (but
/// not before the second-last); 0 where the instance is not resolved.
Nanoseconds most_caused_wait(const Instance& instance, std::span<const InstanceArrival> members);

/// Caused wait of the last arriver of a resolved instance whose lateness has been split: how much the others' waiting
/// shrinks if it had come without its own lateness (but not before the second-last); of those who stayed for it.
void compute_caused_wait(Instance& instance, std::span<const InstanceArrival> members);

// Sums over instances that can be added up across tool ranks in any order: integers only.

/// What the instances say about one trace rank. A plain run of int64 so that a vector of them can be summed
/// element-wise.
struct RankTotals {
  std::int64_t arrivals = 0;
  std::int64_t resolved = 0;           ///< resolved instances it took part in
  std::int64_t last_arrivals = 0;      ///< of those, the ones it was last in
  std::int64_t own_last_arrivals = 0;  ///< of those, the ones in which at least half of its lateness was its own
  std::int64_t expected_last_ppb = 0;  ///< sum over resolved instances of 1e9 / arrivals: last by chance
  Nanoseconds wait_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds inherited_lateness_ns = 0;
  Nanoseconds caused_lateness_ns = 0;  ///< own lateness in the instances in which it was last by its own
  std::int64_t sized_bus_bytes = 0;    ///< as of OperationTotals, over the instances it took part in
  Nanoseconds sized_transfer_ns = 0;
};

/// Sums of one operation.
struct OperationTotals {
  std::int64_t instances = 0;
  Nanoseconds wait_ns = 0;
  Nanoseconds transfer_ns = 0;
  std::int64_t sized_instances = 0;  ///< complete and feasible, with known message size: those that bandwidths rest on
  std::int64_t sized_bytes = 0;
  std::int64_t sized_bus_bytes = 0;  ///< message size times the bus bandwidth factor
  Nanoseconds sized_transfer_ns = 0;
};

struct CommunicatorTotals {
  std::int64_t instances = 0, complete = 0, unmatched_arrivals = 0;
  std::int64_t infeasible = 0;
  std::int64_t unjudged = 0;            ///< infeasible, or of clocks that cannot be compared
  std::int64_t pair_exchanges = 0;      ///< sends and receives between two members
  std::int64_t all_to_alls = 0;         ///< also those made of sends and receives among more than two
  std::int64_t blocking_instances = 0;  ///< compute of most members waited for them
};

/// First and last time at which a trace rank delayed others by its own lateness; combined by minimum and maximum.
struct RankSpan {
  Nanoseconds first_ns = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds last_ns = std::numeric_limits<Nanoseconds>::min();
};

inline constexpr std::size_t operation_count = 11;

struct Totals {
  std::vector<RankTotals> ranks;  ///< by index of the trace rank in `trace_ranks`
  std::vector<RankSpan> spans;
  std::vector<OperationTotals> operations;
  std::vector<CommunicatorTotals> communicators;  ///< count_instances
  Nanoseconds largest_skew_uncertainty_ns = -1;   ///< of all comparable instances; -1 where there is none
};

Totals make_totals(std::size_t trace_ranks);

/// Adds the instances of a block to those of its communicator.
void count_instances(CommunicatorTotals& totals, const MatchedBlock& block);

/// Adds a block whose waits were computed, all but its communicator's instances. `trace_ranks` is ascending.
void accumulate(Totals& totals, const MatchedBlock& block, std::span<const std::int32_t> trace_ranks);

/// GB/s with GB = 1e9; empty where nothing of known size was transferred.
std::optional<double> bus_bandwidth_gbs(const RankTotals& totals);

/// Rows of report.json `by_operation`, in the order of the enumeration, operations without instances left out.
std::vector<OperationSummary> summarise_operations(std::span<const OperationTotals> totals);

}  // namespace nsys_explain::analysis
