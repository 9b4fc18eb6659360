#include "nsys_explain/analysis/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "nsys_explain/analysis/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t progress_names = 16;
constexpr std::int64_t progress_points = 64;

/// What kernels of one group have in common.
struct Group {
  std::string_view name;
  const Kernel* example = nullptr;
};

struct Grouping {
  std::vector<std::uint32_t> group_of;  ///< by kernel
  std::vector<Group> groups;
};

Grouping group_by_name(const RankEvents& events, StringIndex Kernel::*name) {
  Grouping result;
  const std::vector<Kernel>& kernels = events.device.kernels;
  std::vector<std::uint32_t> group_of_name(events.trace.strings.size(), 0);  // 0: none yet, else group + 1
  result.group_of.reserve(kernels.size());
  for (const Kernel& kernel : kernels) {
    std::uint32_t& group = group_of_name[kernel.*name];
    if (group == 0) {
      result.groups.push_back({events.trace.strings[kernel.*name], &kernel});
      group = static_cast<std::uint32_t>(result.groups.size());
    }
    result.group_of.push_back(group - 1);
  }
  return result;
}

using LaunchKey = std::array<std::int32_t, 7>;

LaunchKey launch_key(const Kernel& k) {
  return {static_cast<std::int32_t>(k.demangled_name), k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z};
}

struct LaunchKeyHash {
  std::size_t operator()(const LaunchKey& key) const {
    std::uint64_t hash = 0;
    for (const std::int32_t part : key) hash = (hash ^ static_cast<std::uint32_t>(part)) * 0x9E3779B97F4A7C15ULL;
    return hash ^ hash >> 32;
  }
};

Grouping group_by_launch(const RankEvents& events) {
  Grouping result;
  std::unordered_map<LaunchKey, std::uint32_t, LaunchKeyHash> group_of_key;
  result.group_of.reserve(events.device.kernels.size());
  for (const Kernel& kernel : events.device.kernels) {
    const auto [entry, is_new] =
        group_of_key.try_emplace(launch_key(kernel), static_cast<std::uint32_t>(result.groups.size()));
    if (is_new) result.groups.push_back({events.trace.strings[kernel.demangled_name], &kernel});
    result.group_of.push_back(entry->second);
  }
  return result;
}

std::vector<std::int64_t> durations_of(const std::vector<Kernel>& kernels) {
  std::vector<std::int64_t> durations;
  durations.reserve(kernels.size());
  for (const Kernel& kernel : kernels) durations.push_back(kernel.end_ns - kernel.start_ns);
  return durations;
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::string_view tail_of(const Statistics& s) {
  if (s.p99 > 1.5 * s.median) return "systematic";
  return static_cast<double>(s.max) > 2 * s.median ? "outliers" : "none";
}

/// Groups by falling total, then name, then launch shape.
std::vector<std::size_t> by_total(const Grouping& grouping, const std::vector<Statistics>& statistics) {
  std::vector<std::size_t> order(grouping.groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (statistics[a].total != statistics[b].total) return statistics[a].total > statistics[b].total;
    if (grouping.groups[a].name != grouping.groups[b].name) return grouping.groups[a].name < grouping.groups[b].name;
    return launch_key(*grouping.groups[a].example) < launch_key(*grouping.groups[b].example);
  });
  return order;
}

std::vector<ColumnSchema> shape_columns() {
  return {{"grid_x", ColumnKind::integer, "", "thread blocks"},
          {"grid_y", ColumnKind::integer, "", ""},
          {"grid_z", ColumnKind::integer, "", ""},
          {"block_x", ColumnKind::integer, "", "threads"},
          {"block_y", ColumnKind::integer, "", ""},
          {"block_z", ColumnKind::integer, "", ""}};
}

enum class Shape { left_out, written };

Table summary_table(const RankEvents& events, const std::vector<std::int64_t>& durations, const Grouping& grouping,
                    const char* name, const char* description, Shape shape) {
  const std::vector<Statistics> statistics = summarise_groups(grouping.group_of, durations, grouping.groups.size());
  std::int64_t total_ns = 0;
  for (const Statistics& s : statistics) total_ns += s.total;

  TableSchema schema{name, description, {{"name", ColumnKind::text, "", "kernel"}}};
  if (shape == Shape::written) {
    for (ColumnSchema& column : shape_columns()) schema.columns.push_back(std::move(column));
  }
  schema.columns.push_back({"communication", ColumnKind::integer, "", "1: it moves data between ranks"});
  schema.columns.push_back({"share_percent", ColumnKind::real, "%", "of the sum of all kernel durations"});
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  schema.columns.push_back(
      {"tail", ColumnKind::label, "", "none, outliers (max > 2 medians) or systematic (p99 > 1.5)"});
  schema.columns.push_back({"tail_score_ns", ColumnKind::real, "ns", "(p99 - median) x count"});

  Table table = make_table(std::move(schema));
  RowWriter row(table);
  for (const std::size_t g : by_total(grouping, statistics)) {
    const Statistics& s = statistics[g];
    const Kernel& k = *grouping.groups[g].example;
    row << grouping.groups[g].name;
    if (shape == Shape::written) {
      for (const std::int32_t size : {k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z}) {
        row << std::int64_t{size};
      }
    }
    row << events.is_communication(k) << percent(s.total, total_ns);
    write_statistics(row, s);
    row << tail_of(s) << (s.p99 - s.median) * static_cast<double>(s.count);
  }
  return table;
}

}  // namespace

std::vector<Table> kernel_tables(const RankEvents& events) {
  const std::vector<std::int64_t> durations = durations_of(events.device.kernels);
  std::vector<Table> tables;
  tables.push_back(summary_table(events, durations, group_by_name(events, &Kernel::demangled_name), "kernels",
                                 "Kernels by name with template and argument lists, most time first", Shape::left_out));
  tables.push_back(summary_table(events, durations, group_by_name(events, &Kernel::short_name), "kernels_by_base_name",
                                 "Kernels by base name, most time first", Shape::left_out));
  const bool mangled = std::any_of(events.device.kernels.begin(), events.device.kernels.end(),
                                   [](const Kernel& kernel) { return kernel.mangled_name != 0; });
  if (mangled) {
    tables.push_back(summary_table(events, durations, group_by_name(events, &Kernel::mangled_name),
                                   "kernels_by_mangled_name", "Kernels by mangled name, most time first",
                                   Shape::left_out));
  }
  tables.push_back(summary_table(events, durations, group_by_launch(events), "kernels_by_launch",
                                 "Kernels by name, grid and block, most time first", Shape::written));
  return tables;
}

Table kernel_histogram_table(const RankEvents& events) {
  const Grouping grouping = group_by_name(events, &Kernel::demangled_name);
  const std::vector<std::int64_t> durations = durations_of(events.device.kernels);
  GroupedValues grouped(grouping.group_of, durations, grouping.groups.size());
  std::vector<std::size_t> order(grouping.groups.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return grouping.groups[a].name < grouping.groups[b].name; });
  Table table = make_table({"kernel_histogram",
                            "How long executions of each kernel took, in buckets of a quarter doubling",
                            {{"name", ColumnKind::text, "", "kernel with its template and argument lists"},
                             {"lower_ns", ColumnKind::integer, "ns", "shortest duration that counts here"},
                             {"upper_ns", ColumnKind::integer, "ns", "first duration that no longer counts here"},
                             {"count", ColumnKind::integer, "", "executions"}}});
  RowWriter row(table);
  for (const std::size_t g : order) {
    std::array<std::int64_t, bucket_count> counts{};
    for (const std::int64_t duration : grouped[g]) ++counts[bucket_index(duration)];
    for (std::size_t b = 0; b < bucket_count; ++b) {
      if (counts[b] > 0) row << grouping.groups[g].name << bucket(b).lower << bucket(b).upper << counts[b];
    }
  }
  return table;
}

std::vector<Table> kernel_pacing_tables(const RankEvents& events) {
  const std::vector<Kernel>& kernels = events.device.kernels;
  const Grouping grouping = group_by_name(events, &Kernel::short_name);
  std::vector<std::int64_t> starts;
  starts.reserve(kernels.size());
  for (const Kernel& kernel : kernels) starts.push_back(kernel.start_ns);
  // Kernels are sorted by start, and grouping keeps their order.
  GroupedValues grouped(grouping.group_of, starts, grouping.groups.size());
  const std::vector<Statistics> totals =
      summarise_groups(grouping.group_of, durations_of(kernels), grouping.groups.size());
  const std::vector<std::size_t> order = by_total(grouping, totals);

  TableSchema pacing{"kernel_pacing", "How regularly each kernel started: intervals from start to start", {}};
  pacing.columns = {{"name", ColumnKind::text, "", "base name of the kernel"},
                    {"first_ns", ColumnKind::time, "ns", "start of the first execution"},
                    {"last_ns", ColumnKind::time, "ns", "start of the last execution"}};
  for (ColumnSchema& column : statistics_columns("ns")) pacing.columns.push_back(std::move(column));
  std::vector<Table> tables;
  tables.push_back(make_table(std::move(pacing)));
  tables.push_back(make_table({"kernel_progress",
                               "When the kernels with most time were how far: up to 64 executions of each",
                               {{"name", ColumnKind::text, "", "base name of the kernel"},
                                {"execution", ColumnKind::integer, "", "number of the execution, from 0"},
                                {"start_ns", ColumnKind::time, "ns", "when it started"}}}));
  RowWriter pace(tables[0]), progress(tables[1]);
  for (std::size_t place = 0; place < order.size(); ++place) {
    const std::size_t g = order[place];
    const std::span<std::int64_t> times = grouped[g];
    const auto count = static_cast<std::int64_t>(times.size());
    if (place < progress_names) {
      const std::int64_t points = std::min(count, progress_points);
      for (std::int64_t p = 0; p < points; ++p) {
        const std::int64_t execution = points == 1 ? 0 : p * (count - 1) / (points - 1);
        progress << grouping.groups[g].name << execution << times[static_cast<std::size_t>(execution)];
      }
    }
    if (count < 2) continue;
    std::vector<std::int64_t> intervals;
    intervals.reserve(times.size() - 1);
    for (std::size_t i = 1; i < times.size(); ++i) intervals.push_back(times[i] - times[i - 1]);
    pace << grouping.groups[g].name << times.front() << times.back();
    write_statistics(pace, summarise(intervals));
  }
  return tables;
}

}  // namespace nsys_explain::analysis
