#include "pipeline/investigate/report_detail.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "model/schema/job.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Enough for a wide screen; at 1,024 trace ranks half a million cells.
constexpr std::int32_t heat_bins = 240, fewest_heat_bins = 24;
constexpr std::size_t most_heat_cells = 480'000;  ///< a megabyte of report.html

/// A collective of the whole job shows its first and its last comers; the middle looks like the middle.
constexpr std::size_t listed_arrivals = 64;

/// The page shows one by one the costliest collective of the job in each of so many spans of time, and so many of those
/// before which somebody's work was looked into.
constexpr std::int64_t job_spans = 80;
constexpr std::size_t most_looked_into = 80;

/// Arrivals that the page may hold so that every trace rank finds collectives of its own at most times; what else is
/// said of a collective is as long as `header_arrivals` of them. Together about 0.2 megabytes.
constexpr std::int64_t arrivals_of_all_communicators = 4'000;
constexpr std::int64_t header_arrivals = 3;

/// A collective on its way to rank 0, followed by its arrivals.
struct RoutedInstance {
  std::int64_t instance = 0;
  std::int64_t communicator = 0;
  std::int64_t listed = 0;
  std::int64_t left_out = 0;
  Nanoseconds wait_ns = 0;
  Instance summary;
};

/// Every instance of this tool rank's blocks: visit(block, instance).
template <class Visit>
void for_each_instance(const CrossRank& cross, const Visit& visit) {
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) visit(block, instance);
  }
}

Nanoseconds total_wait(const MatchedBlock& block, const Instance& instance) {
  Nanoseconds sum = 0;
  for (const InstanceArrival& arrival : members_of(block, instance)) sum += wait_ns(instance, arrival);
  return sum;
}

/// Collective: where the bins lie. bins is 0 where no tool rank has an instance.
HeatMap plan_bins(const exchange::Communicator& communicator, const CrossRank& cross, std::size_t trace_ranks) {
  // Minimum as the maximum of the negated values.
  constexpr std::int64_t none = -std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> range{none, none};
  for_each_instance(cross, [&](const MatchedBlock&, const Instance& instance) {
    range[0] = std::max(range[0], -instance.last_enter.ns);
    range[1] = std::max(range[1], instance.last_enter.ns);
  });
  range = communicator.maximum(range);
  HeatMap map;
  if (range[1] == none) return map;
  map.start_ns = -range[0];
  map.bins = std::clamp(static_cast<std::int32_t>(most_heat_cells / trace_ranks), fewest_heat_bins, heat_bins);
  map.bin_ns = (range[1] - map.start_ns) / map.bins + 1;
  return map;
}

std::int64_t bin_of(const HeatMap& map, const Instance& instance) {
  return (instance.last_enter.ns - map.start_ns) / map.bin_ns;
}

/// The earliest and the latest arrivals, by enter; ties by trace rank.
std::vector<InstanceArrival> first_and_last(std::span<const InstanceArrival> arrivals) {
  std::vector<InstanceArrival> chosen(arrivals.begin(), arrivals.end());
  std::sort(chosen.begin(), chosen.end(), [](const InstanceArrival& a, const InstanceArrival& b) {
    return std::pair(a.enter, a.trace_rank) < std::pair(b.enter, b.trace_rank);
  });
  if (chosen.size() > listed_arrivals) {
    chosen.erase(chosen.begin() + listed_arrivals / 2, chosen.end() - listed_arrivals / 2);
  }
  return chosen;
}

/// Number of an instance of the job.
std::int64_t number_of(const MatchedBlock& block, const Instance& instance,
                       std::span<const std::int64_t> first_instance) {
  return first_instance[static_cast<std::size_t>(block.communicator)] + instance.sequence;
}

/// Collective: for every slot the number of the instance with the most waiting, the lowest among equals.
/// slot_of(block, instance) is below `slots`.
template <class SlotOf>
std::set<std::int64_t> find_costliest(const exchange::Communicator& communicator, const CrossRank& cross,
                                      std::span<const std::int64_t> first_instance, std::int64_t slots,
                                      const SlotOf& slot_of) {
  constexpr std::int64_t none = -std::numeric_limits<std::int64_t>::max();
  std::vector<std::int64_t> most(static_cast<std::size_t>(slots), -1);
  for_each_instance(cross, [&](const MatchedBlock& block, const Instance& instance) {
    std::int64_t& best = most[static_cast<std::size_t>(slot_of(block, instance))];
    best = std::max(best, total_wait(block, instance));
  });
  most = communicator.maximum(most);
  std::vector<std::int64_t> lowest(most.size(), none);  // negated: maximum() finds it
  for_each_instance(cross, [&](const MatchedBlock& block, const Instance& instance) {
    const auto slot = static_cast<std::size_t>(slot_of(block, instance));
    if (total_wait(block, instance) == most[slot])
      lowest[slot] = std::max(lowest[slot], -number_of(block, instance, first_instance));
  });
  std::set<std::int64_t> numbers;
  for (const std::int64_t negated : communicator.maximum(lowest))
    if (negated != none) numbers.insert(-negated);
  return numbers;
}

/// Into how many spans the run is divided so that the page can hold a collective of every communicator of each.
std::int64_t count_spans(const CrossRank& cross) {
  std::int64_t arrivals = 1;
  for (const auto& one : cross.communicators)
    arrivals += header_arrivals + static_cast<std::int64_t>(std::min(one.trace_ranks.size(), listed_arrivals));
  return std::clamp<std::int64_t>(arrivals_of_all_communicators / arrivals, 0, heat_bins);
}

/// Collective: the instances of these numbers with their arrivals, on rank 0, by latest enter.
std::vector<CollectiveDetail> gather_collectives(const exchange::Communicator& communicator, const CrossRank& cross,
                                                 std::span<const std::int64_t> first_instance,
                                                 const std::set<std::int64_t>& numbers) {
  std::vector<RoutedInstance> instances;
  std::vector<InstanceArrival> arrivals;
  for_each_instance(cross, [&](const MatchedBlock& block, const Instance& instance) {
    const std::int64_t number = number_of(block, instance, first_instance);
    if (!numbers.contains(number)) return;
    const std::vector<InstanceArrival> listed = first_and_last(members_of(block, instance));
    instances.push_back({number, block.communicator, static_cast<std::int64_t>(listed.size()),
                         instance.arrivals - static_cast<std::int64_t>(listed.size()), total_wait(block, instance),
                         instance});
    arrivals.insert(arrivals.end(), listed.begin(), listed.end());
  });
  const auto all_instances = communicator.gather(std::span<const RoutedInstance>(instances)).values;
  const auto all_arrivals = communicator.gather(std::span<const InstanceArrival>(arrivals)).values;
  std::vector<CollectiveDetail> collectives;
  auto next = all_arrivals.begin();
  for (const RoutedInstance& routed : all_instances) {
    const auto end = next + routed.listed;
    collectives.push_back({routed.instance,
                           cross.communicators[static_cast<std::size_t>(routed.communicator)].name,
                           routed.summary,
                           routed.wait_ns,
                           {next, end},
                           routed.left_out});
    next = end;
  }
  std::sort(collectives.begin(), collectives.end(), [](const CollectiveDetail& a, const CollectiveDetail& b) {
    return std::pair(a.summary.last_enter, a.instance) < std::pair(b.summary.last_enter, b.instance);
  });
  return collectives;
}

}  // namespace

std::vector<std::int64_t> instances_looked_into(const std::vector<Table>& tables) {
  std::vector<std::pair<Nanoseconds, std::int64_t>> cases;  // by negated waiting, then number
  for (const schema::Cases* of : {&schema::straggler_cases, &schema::long_waits}) {
    const Table* table = find_table(tables, *of);
    if (table == nullptr) continue;
    const auto& instance = column(*table, of->instance);
    const auto& caused_ns = column(*table, of->caused_wait_ns);
    for (std::size_t r = 0; r < instance.size(); ++r)
      if (instance[r] >= 0) cases.emplace_back(-caused_ns[r], instance[r]);
  }
  std::sort(cases.begin(), cases.end());
  cases.resize(std::min(cases.size(), most_looked_into));
  std::set<std::int64_t> numbers;
  for (const auto& [caused_ns, number] : cases) numbers.insert(number);
  return {numbers.begin(), numbers.end()};
}

ReportDetail gather_detail(const exchange::Communicator& communicator, const CrossRank& cross, const JobRanks& job,
                           std::span<const std::int64_t> first_instance, std::span<const std::int64_t> wanted) {
  ReportDetail detail;
  detail.heat_map = plan_bins(communicator, cross, job.numbers.size());
  HeatMap& map = detail.heat_map;
  if (map.bins == 0) return detail;
  map.trace_ranks = job.numbers;
  const std::size_t cells = job.numbers.size() * static_cast<std::size_t>(map.bins);
  map.wait_ns.assign(cells, 0);
  map.own_lateness_ns.assign(cells, 0);
  for_each_instance(cross, [&](const MatchedBlock& block, const Instance& instance) {
    const std::int64_t bin = bin_of(map, instance);
    for (const InstanceArrival& arrival : members_of(block, instance)) {
      const std::size_t cell =
          job.index_of(arrival.trace_rank) * static_cast<std::size_t>(map.bins) + static_cast<std::size_t>(bin);
      map.wait_ns[cell] += wait_ns(instance, arrival);
      map.own_lateness_ns[cell] += arrival.own_lateness_ns;
    }
  });
  map.wait_ns = communicator.sum(map.wait_ns);
  map.own_lateness_ns = communicator.sum(map.own_lateness_ns);
  const auto span_of = [&](const Instance& instance, std::int64_t spans) {
    return bin_of(map, instance) * spans / map.bins;
  };
  std::set<std::int64_t> numbers =
      find_costliest(communicator, cross, first_instance, job_spans,
                     [&](const MatchedBlock&, const Instance& instance) { return span_of(instance, job_spans); });
  const std::int64_t spans = count_spans(cross);
  const auto communicators = static_cast<std::int64_t>(cross.communicators.size());
  if (spans > 0) {
    numbers.merge(find_costliest(communicator, cross, first_instance, spans * communicators,
                                 [&](const MatchedBlock& block, const Instance& instance) {
                                   return span_of(instance, spans) * communicators + block.communicator;
                                 }));
  }
  for (const std::int64_t number : communicator.broadcast(wanted)) numbers.insert(number);
  detail.collectives = gather_collectives(communicator, cross, first_instance, numbers);
  return detail;
}

}  // namespace nsys_explain::pipeline
