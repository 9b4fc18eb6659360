#include "nsys_explain/analysis/launch_times.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "nsys_explain/analysis/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

/// Launches of one kernel by one call of one thread, as durations.
struct Launches {
  std::vector<std::int64_t> total_ns, api_ns, queue_ns, kernel_ns;
};

using LaunchKey = std::tuple<std::uint32_t, StringIndex, StringIndex>;  ///< thread, call, kernel

void write_short_statistics(RowWriter& row, std::vector<std::int64_t>& values) {
  const Statistics s = summarise(values);
  row << s.mean << s.median << s.min << s.max << s.deviation;
}

struct AllLaunches {
  std::map<LaunchKey, Launches> by_key;
  std::array<std::int64_t, bucket_count> latencies{};
};

AllLaunches collect(const RankEvents& events) {
  AllLaunches all;
  for (const Kernel& kernel : events.device.kernels) {
    const ApiCall* call = events.launches.find(kernel.correlation_id, kernel.start_ns);
    if (call == nullptr) continue;
    Launches& l = all.by_key[{call->thread_id, call->name, events.device.kind_of(kernel).demangled_name}];
    l.total_ns.push_back(std::max(call->end_ns, kernel.end_ns) - call->start_ns);
    l.api_ns.push_back(call->end_ns - call->start_ns);
    if (kernel.start_ns >= call->end_ns) l.queue_ns.push_back(kernel.start_ns - call->end_ns);
    l.kernel_ns.push_back(kernel.end_ns - kernel.start_ns);
    ++all.latencies[bucket_index(kernel.start_ns - call->start_ns)];
  }
  return all;
}

Table kernel_launches_table(const RankEvents& events, std::map<LaunchKey, Launches>& launches) {
  TableSchema schema{"kernel_launches", "How long launches took: in the call, in the queue, on the GPU", {}};
  schema.columns = {{"thread", ColumnKind::integer, "", "that launched"},
                    {"call", ColumnKind::text, "", "launching function"},
                    {"kernel", ColumnKind::text, "", "with its template and argument lists"},
                    {"count", ColumnKind::integer, "", "executions"},
                    {"queue_count", ColumnKind::integer, "", "of them, started after the call had returned"},
                    {"total_sum_ns", ColumnKind::integer, "ns", "sum of total times"}};
  for (const char* part : {"total", "api", "queue", "kernel"}) {
    for (const char* kind : {"mean", "median"}) {
      schema.columns.push_back({fmt::format("{}_{}_ns", part, kind), ColumnKind::real, "ns", ""});
    }
    for (const char* kind : {"min", "max"}) {
      schema.columns.push_back({fmt::format("{}_{}_ns", part, kind), ColumnKind::integer, "ns", ""});
    }
    schema.columns.push_back({fmt::format("{}_stddev_ns", part), ColumnKind::real, "ns", ""});
  }
  std::vector<std::pair<LaunchKey, Nanoseconds>> order;
  for (const auto& [key, l] : launches) {
    Nanoseconds sum_ns = 0;
    for (const Nanoseconds total_ns : l.total_ns) sum_ns += total_ns;
    order.emplace_back(key, sum_ns);
  }
  const auto names = [&](const LaunchKey& key) {
    return std::tuple(std::string_view(events.trace.strings[std::get<2>(key)]),
                      std::string_view(events.trace.strings[std::get<1>(key)]), std::get<0>(key));
  };
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : names(a.first) < names(b.first);
  });
  Table table = make_table(std::move(schema));
  RowWriter row(table);
  for (const auto& [key, sum_ns] : order) {
    Launches& l = launches.at(key);
    const auto& [kernel, call, thread] = names(key);
    row << std::int64_t{thread} << call << kernel << static_cast<std::int64_t>(l.kernel_ns.size())
        << static_cast<std::int64_t>(l.queue_ns.size()) << sum_ns;
    for (auto* values : {&l.total_ns, &l.api_ns, &l.queue_ns, &l.kernel_ns}) write_short_statistics(row, *values);
  }
  return table;
}

Table launch_latency_table(const std::array<std::int64_t, bucket_count>& counts) {
  Table table = make_table({"launch_latency",
                            "From the start of the launching call to the start of the kernel",
                            {{"lower_ns", ColumnKind::integer, "ns", "shortest latency that counts here"},
                             {"upper_ns", ColumnKind::integer, "ns", "first latency that no longer counts here"},
                             {"count", ColumnKind::integer, "", "kernels"}}});
  RowWriter row(table);
  for (std::size_t b = 0; b < bucket_count; ++b) {
    if (counts[b] > 0) row << bucket(b).lower << bucket(b).upper << counts[b];
  }
  return table;
}

Table launch_storm_table(const RankEvents& events) {
  Table table = make_table(
      {"launch_storm",
       "How many kernels were launched and how short they are",
       {{"launches", ColumnKind::integer, "", "kernel executions"},
        {"window_ns", ColumnKind::integer, "ns", "first start to last end of kernels"},
        {"launches_per_second", ColumnKind::real, "1/s", ""},
        {"median_ns", ColumnKind::real, "ns", "of durations"},
        {"p90_ns", ColumnKind::real, "ns", ""},
        {"p99_ns", ColumnKind::real, "ns", ""},
        {"under_5us_percent", ColumnKind::real, "%", "kernels shorter than 5 us"},
        {"under_10us_percent", ColumnKind::real, "%", ""},
        {"under_20us_percent", ColumnKind::real, "%", ""},
        {"storm", ColumnKind::integer, "", "1: at least 1,000, and so many, so short, that launching limits"}}});
  const std::vector<Kernel>& kernels = events.device.kernels;
  if (kernels.empty()) return table;
  std::vector<std::int64_t> durations;
  durations.reserve(kernels.size());
  Nanoseconds last_ns = kernels.front().end_ns;
  for (const Kernel& kernel : kernels) {
    durations.push_back(kernel.end_ns - kernel.start_ns);
    last_ns = std::max(last_ns, kernel.end_ns);
  }
  const Statistics s = summarise(durations);
  const Nanoseconds window_ns = last_ns - kernels.front().start_ns;
  const double per_second = window_ns > 0 ? static_cast<double>(s.count) * 1e9 / static_cast<double>(window_ns) : 0;
  const auto share_under = [&](Nanoseconds limit_ns) {
    const auto below =
        std::count_if(durations.begin(), durations.end(), [&](Nanoseconds d_ns) { return d_ns < limit_ns; });
    return 100.0 * static_cast<double>(below) / static_cast<double>(s.count);
  };
  constexpr std::int64_t fewest = 1'000;  // a few launches in a row are no rate
  const bool storm =
      s.count >= fewest && ((per_second >= 50e3 && s.median <= 10e3) || (per_second >= 100e3 && s.median <= 20e3));
  RowWriter row(table);
  row << s.count << window_ns << per_second << s.median << s.p90 << s.p99 << share_under(5'000) << share_under(10'000)
      << share_under(20'000) << storm;
  return table;
}

}  // namespace

std::vector<Table> launch_tables(const RankEvents& events) {
  AllLaunches all = collect(events);
  std::vector<Table> tables;
  tables.push_back(kernel_launches_table(events, all.by_key));
  tables.push_back(launch_latency_table(all.latencies));
  tables.push_back(launch_storm_table(events));
  return tables;
}

}  // namespace nsys_explain::analysis
