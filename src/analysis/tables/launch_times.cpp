#include "analysis/tables/tables.hpp"

#include <numeric>

#include <fmt/format.h>

#include "analysis/statistics/statistics.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

/// Launches of one kernel by one call of one thread.
using LaunchingCallKey = std::tuple<std::uint32_t, StringIndex, StringIndex>;  ///< thread, call, kernel

/// Numbers what launches are told apart by, in the order in which it is met.
class LaunchGroups {
 public:
  explicit LaunchGroups(const DeviceTrace& device) : device_(device), latest_(device.kernel_kinds.size(), none) {}

  std::uint32_t number_of(const Kernel& kernel, const ApiCall& call) {
    const LaunchingCallKey key(call.thread_id, call.name, device_.kind_of(kernel).demangled_name);
    std::uint32_t& group = latest_[kernel.kind];
    if (group == none || keys_[group] != key) {
      const auto [entry, is_new] = number_of_.try_emplace(key, static_cast<std::uint32_t>(keys_.size()));
      if (is_new) keys_.push_back(key);
      group = entry->second;
    }
    return group;
  }
  const std::vector<LaunchingCallKey>& keys() const { return keys_; }

 private:
  static constexpr std::uint32_t none = static_cast<std::uint32_t>(-1);
  const DeviceTrace& device_;
  std::vector<LaunchingCallKey> keys_;
  std::map<LaunchingCallKey, std::uint32_t> number_of_;
  std::vector<std::uint32_t> latest_;  ///< by kernel kind: mostly right for the next, too
};

/// All launches, by group. Groups and durations are worked out from the events when they are needed: a device has
/// millions.
struct AllLaunches {
  explicit AllLaunches(const DeviceTrace& device) : groups(device) {}

  LaunchGroups groups;
  std::vector<std::size_t> counts, queue_counts;  ///< by group: kernels; those that started after the call had returned
  std::array<std::int64_t, bucket_count> latencies{};
};

/// Calls `use(group, kernel, call)` for each kernel whose call is in the trace.
template <class Use>
void for_each_launch(const RankEvents& events, LaunchGroups& groups, const Use& use) {
  for (const Kernel& kernel : events.device.kernels) {
    const auto call = events.launches.find(kernel.correlation_id, kernel.start_ns);
    if (call) use(groups.number_of(kernel, *call), kernel, *call);
  }
}

AllLaunches collect(const RankEvents& events) {
  AllLaunches all(events.device);
  for_each_launch(events, all.groups, [&](std::uint32_t group, const Kernel& kernel, const ApiCall& call) {
    if (group == all.counts.size()) {
      all.counts.push_back(0);
      all.queue_counts.push_back(0);
    }
    ++all.latencies[bucket_index(kernel.start_ns - call.start_ns)];
    ++all.counts[group];
    all.queue_counts[group] += kernel.start_ns >= call.end_ns ? 1 : 0;
  });
  return all;
}

/// Statistics by group, of what there are `counts`: `put(values, group, kernel, call)` puts a kernel's value, or none.
/// Several at once, so that kernels and calls are looked up once; but room for all four would be much.
template <std::size_t Count, class Put>
std::array<std::vector<Statistics>, Count> summarise_launches(const RankEvents& events, LaunchGroups& groups,
                                                              std::array<GroupedValues, Count> values, const Put& put) {
  for_each_launch(events, groups, [&](std::uint32_t group, const Kernel& kernel, const ApiCall& call) {
    put(values, group, kernel, call);
  });
  std::array<std::vector<Statistics>, Count> statistics;
  for (std::size_t i = 0; i < Count; ++i) statistics[i] = summarise_groups(values[i]);
  return statistics;
}

void write_short_statistics(RowWriter& row, const Statistics& s) {
  row << s.mean << s.median << s.min << s.max << s.deviation;
}

Table kernel_launches_table(const RankEvents& events, AllLaunches& all) {
  TableSchema schema{"kernel_launches", "How long launches took: in the call, in the queue, on the GPU", {}};
  schema.columns = {{"thread", ColumnKind::integer, "", "that launched"},
                    {"call", ColumnKind::text, "", "launching function"},
                    {"kernel", ColumnKind::text, "", "with its template and argument lists"},
                    {"count", ColumnKind::integer, "", "executions"},
                    {"queue_count", ColumnKind::integer, "", "of them, started after the call had returned"},
                    {"total_sum_ns", ColumnKind::integer, "ns", "sum of total times"}};
  for (const char* part : {"total", "api", "queue", "kernel"}) {
    for (const char* kind : {"mean", "median"})
      schema.columns.push_back({fmt::format("{}_{}_ns", part, kind), ColumnKind::real, "ns", ""});
    for (const char* kind : {"min", "max"})
      schema.columns.push_back({fmt::format("{}_{}_ns", part, kind), ColumnKind::integer, "ns", ""});
    schema.columns.push_back({fmt::format("{}_stddev_ns", part), ColumnKind::real, "ns", ""});
  }
  const auto waits =
      summarise_launches<2>(events, all.groups, {GroupedValues(all.counts), GroupedValues(all.queue_counts)},
                            [](auto& values, std::uint32_t group, const Kernel& kernel, const ApiCall& call) {
                              values[0].put(group, std::max(call.end_ns, kernel.end_ns) - call.start_ns);
                              if (kernel.start_ns >= call.end_ns) values[1].put(group, kernel.start_ns - call.end_ns);
                            });
  const auto runs =
      summarise_launches<2>(events, all.groups, {GroupedValues(all.counts), GroupedValues(all.counts)},
                            [](auto& values, std::uint32_t group, const Kernel& kernel, const ApiCall& call) {
                              values[0].put(group, call.end_ns - call.start_ns);
                              values[1].put(group, kernel.end_ns - kernel.start_ns);
                            });
  const std::vector<Statistics>&total = waits[0], &queue = waits[1], &api = runs[0], &on_gpu = runs[1];
  const auto names = [&](std::size_t group) {
    const auto& [thread, call, kernel] = all.groups.keys()[group];
    return std::tuple(std::string_view(events.trace.strings[kernel]), std::string_view(events.trace.strings[call]),
                      thread);
  };
  std::vector<std::size_t> order(all.groups.keys().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return total[a].total != total[b].total ? total[a].total > total[b].total : names(a) < names(b);
  });
  Table table = make_table(std::move(schema));
  RowWriter row(table);
  for (const std::size_t group : order) {
    const auto& [kernel, call, thread] = names(group);
    row << std::int64_t{thread} << call << kernel << total[group].count << queue[group].count << total[group].total;
    for (const auto* part : {&total, &api, &queue, &on_gpu}) write_short_statistics(row, (*part)[group]);
  }
  return table;
}

Table launch_latency_table(const std::array<std::int64_t, bucket_count>& counts) {
  Table table = make_table(schema::launch_latency);
  RowWriter row(table);
  for (std::size_t b = 0; b < bucket_count; ++b)
    if (counts[b] > 0) row << bucket(b).lower << bucket(b).upper << counts[b];
  return table;
}

Table launch_storm_table(const RankEvents& events) {
  Table table = make_table(schema::launch_storm);
  const Kernels& kernels = events.device.kernels;
  if (kernels.empty()) return table;
  CompactValues durations;
  durations.reserve(kernels.size());
  Nanoseconds last_ns = kernels.front().end_ns;
  std::int64_t under_5us = 0, under_10us = 0, under_20us = 0;
  for (const Kernel& kernel : kernels) {
    const Nanoseconds duration_ns = kernel.end_ns - kernel.start_ns;
    durations.push_back(duration_ns);
    last_ns = std::max(last_ns, kernel.end_ns);
    under_5us += duration_ns < 5'000 ? 1 : 0;
    under_10us += duration_ns < 10'000 ? 1 : 0;
    under_20us += duration_ns < 20'000 ? 1 : 0;
  }
  const Statistics s = durations.summarise();
  const Nanoseconds window_ns = last_ns - kernels.front().start_ns;
  const double per_second = window_ns > 0 ? static_cast<double>(s.count) * 1e9 / static_cast<double>(window_ns) : 0;
  const auto percent = [&](std::int64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(s.count);
  };
  constexpr std::int64_t fewest = 100;  // a rate by n launches is told to 1 / sqrt(n), here 10%
  const bool storm =
      s.count >= fewest && ((per_second >= 50e3 && s.median <= 10e3) || (per_second >= 100e3 && s.median <= 20e3));
  RowWriter row(table);
  row << s.count << window_ns << per_second << s.median << s.p90 << s.p99 << percent(under_5us) << percent(under_10us)
      << percent(under_20us) << storm;
  return table;
}

}  // namespace

std::vector<Table> launch_tables(const RankEvents& events) {
  AllLaunches all = collect(events);
  std::vector<Table> tables;
  tables.push_back(kernel_launches_table(events, all));
  tables.push_back(launch_latency_table(all.latencies));
  tables.push_back(launch_storm_table(events));
  return tables;
}

}  // namespace nsys_explain::analysis
