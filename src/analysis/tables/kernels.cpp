#include "analysis/tables/tables.hpp"

#include "analysis/statistics/statistics.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t progress_names = 16;
constexpr std::int64_t progress_points = 64;

/// Kernel kinds that are looked at together.
struct Group {
  std::string_view name;
  std::uint32_t example = 0;  ///< one of its kinds
};

struct Grouping {
  std::vector<std::uint32_t> group_of_kind;
  std::vector<Group> groups;  ///< a window may have left some without kernels
};

Grouping group_by_name(const RankEvents& events, StringIndex KernelKind::*name) {
  Grouping result;
  std::vector<std::uint32_t> group_of_name(events.trace.strings.size(), 0);  // 0: none yet, else group + 1
  for (const KernelKind& kind : events.device.kernel_kinds) {
    std::uint32_t& group = group_of_name[kind.*name];
    if (group == 0) {
      const auto example = static_cast<std::uint32_t>(result.group_of_kind.size());
      result.groups.push_back({events.trace.strings[kind.*name], example});
      group = static_cast<std::uint32_t>(result.groups.size());
    }
    result.group_of_kind.push_back(group - 1);
  }
  return result;
}

using LaunchConfiguration = std::array<std::int32_t, 7>;

LaunchConfiguration launch_key(const KernelKind& k) {
  return {static_cast<std::int32_t>(k.demangled_name), k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z};
}

Grouping group_by_launch(const RankEvents& events) {
  Grouping result;
  std::map<LaunchConfiguration, std::uint32_t> group_of_key;
  for (const KernelKind& kind : events.device.kernel_kinds) {
    const auto [entry, is_new] =
        group_of_key.try_emplace(launch_key(kind), static_cast<std::uint32_t>(result.groups.size()));
    if (is_new) {
      const auto example = static_cast<std::uint32_t>(result.group_of_kind.size());
      result.groups.push_back({events.trace.strings[kind.demangled_name], example});
    }
    result.group_of_kind.push_back(entry->second);
  }
  return result;
}

/// Of all kernels, by group, in the order of their starts.
GroupedValues durations_of(const RankEvents& events, const Grouping& grouping) {
  const Kernels& kernels = events.device.kernels;
  const auto duration_ns = [](const Kernel& kernel) { return kernel.end_ns - kernel.start_ns; };
  return GroupedValues(
      kernels.size(), grouping.groups.size(), [&](std::size_t i) { return grouping.group_of_kind[kernels[i].kind]; },
      [&](std::size_t i) { return duration_ns(kernels[i]); });
}

/// Count and total of the durations of each group; nothing else of its statistics.
std::vector<Statistics> totals_of(const RankEvents& events, const Grouping& grouping) {
  std::vector<Statistics> totals(grouping.groups.size());
  for (const Kernel& kernel : events.device.kernels) {
    Statistics& of_group = totals[grouping.group_of_kind[kernel.kind]];
    ++of_group.count;
    of_group.total += kernel.end_ns - kernel.start_ns;
  }
  return totals;
}

std::string_view tail_of(const Statistics& s) {
  if (s.p99 > 1.5 * s.median) return "systematic";
  return static_cast<double>(s.max) > 2 * s.median ? "outliers" : "none";
}

/// Groups with kernels by falling total, then name, then launch configuration.
std::vector<std::size_t> by_total(const RankEvents& events, const Grouping& grouping,
                                  const std::vector<Statistics>& statistics) {
  std::vector<std::size_t> order;
  for (std::size_t g = 0; g < grouping.groups.size(); ++g)
    if (statistics[g].count > 0) order.push_back(g);
  const auto key = [&](std::size_t g) { return launch_key(events.device.kernel_kinds[grouping.groups[g].example]); };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (statistics[a].total != statistics[b].total) return statistics[a].total > statistics[b].total;
    if (grouping.groups[a].name != grouping.groups[b].name) return grouping.groups[a].name < grouping.groups[b].name;
    return key(a) < key(b);
  });
  return order;
}

/// Statistics of durations by group. Groupings that put the same kinds together share theirs: mangled names do so with
/// demangled ones, and often base names, too.
class DurationStatistics {
 public:
  explicit DurationStatistics(const RankEvents& events) : events_(events) {}

  const std::vector<Statistics>& of(const Grouping& grouping) {
    const auto [entry, is_new] = known_.try_emplace(grouping.group_of_kind);
    if (is_new) {
      GroupedValues durations = durations_of(events_, grouping);
      entry->second = summarise_groups(durations);
    }
    return entry->second;
  }

 private:
  const RankEvents& events_;
  std::map<std::vector<std::uint32_t>, std::vector<Statistics>> known_;  ///< by group_of_kind
};

/// When the kernels of a group started.
struct GroupPace {
  Nanoseconds first_ns = 0, last_ns = 0;
  std::int64_t seen = 0;
  std::int64_t points = 0;                                     ///< of its progress that are to be told
  std::vector<std::pair<std::int64_t, Nanoseconds>> progress;  ///< number and start of executions spread evenly

  /// Number of the execution that the next point of the progress tells of.
  std::int64_t next_told(std::int64_t count) const {
    return points == 1 ? 0 : static_cast<std::int64_t>(progress.size()) * (count - 1) / (points - 1);
  }
};

struct Pacing {
  std::vector<GroupPace> groups;
  GroupedValues intervals;  ///< from start to start, by group
};

/// In one look at all kernels; the first groups of `order` are those whose progress is told.
Pacing find_pacing(const RankEvents& events, const Grouping& grouping, const std::vector<Statistics>& totals,
                   const std::vector<std::size_t>& order) {
  std::vector<std::size_t> intervals;
  for (const Statistics& of_group : totals)
    intervals.push_back(static_cast<std::size_t>(std::max<std::int64_t>(of_group.count - 1, 0)));
  Pacing pacing{std::vector<GroupPace>(totals.size()), GroupedValues(intervals)};
  for (std::size_t place = 0; place < std::min(order.size(), progress_names); ++place)
    pacing.groups[order[place]].points = std::min(totals[order[place]].count, progress_points);
  for (const Kernel& kernel : events.device.kernels) {
    const std::uint32_t g = grouping.group_of_kind[kernel.kind];
    GroupPace& group = pacing.groups[g];
    if (group.seen == 0) group.first_ns = kernel.start_ns;
    if (group.seen > 0) pacing.intervals.put(g, kernel.start_ns - group.last_ns);
    group.last_ns = kernel.start_ns;
    if (static_cast<std::int64_t>(group.progress.size()) < group.points &&
        group.seen == group.next_told(totals[g].count)) {
      group.progress.emplace_back(group.seen, kernel.start_ns);
    }
    ++group.seen;
  }
  return pacing;
}

template <class Shape>
Table summary_table(const RankEvents& events, const Grouping& grouping, const std::vector<Statistics>& statistics,
                    const schema::Kernels<Shape>& declaration) {
  std::int64_t total_ns = 0;
  for (const Statistics& s : statistics) total_ns += s.total;

  Table table = make_table(declaration);
  RowWriter row(table);
  for (const std::size_t g : by_total(events, grouping, statistics)) {
    const Statistics& s = statistics[g];
    const KernelKind& k = events.device.kernel_kinds[grouping.groups[g].example];
    row << grouping.groups[g].name;
    if constexpr (std::is_same_v<Shape, schema::LaunchShape>) {
      for (const std::int32_t size : {k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z})
        row << std::int64_t{size};
    }
    row << bool{events.communication_kinds[grouping.groups[g].example]} << percent(s.total, total_ns);
    write_statistics(row, s);
    row << tail_of(s) << (s.p99 - s.median) * static_cast<double>(s.count);
  }
  return table;
}

}  // namespace

std::vector<Table> kernel_tables(const RankEvents& events) {
  DurationStatistics statistics(events);
  std::vector<Table> tables;
  const auto add = [&](const Grouping& grouping, const auto& declaration) {
    tables.push_back(summary_table(events, grouping, statistics.of(grouping), declaration));
  };
  add(group_by_name(events, &KernelKind::demangled_name), schema::kernels);
  add(group_by_name(events, &KernelKind::short_name), schema::kernels_by_base_name);
  const std::vector<KernelKind>& kinds = events.device.kernel_kinds;
  if (std::any_of(kinds.begin(), kinds.end(), [](const KernelKind& kind) { return kind.mangled_name != 0; }))
    add(group_by_name(events, &KernelKind::mangled_name), schema::kernels_by_mangled_name);
  add(group_by_launch(events), schema::kernels_by_launch);
  return tables;
}

Table kernel_histogram_table(const RankEvents& events) {
  const Grouping grouping = group_by_name(events, &KernelKind::demangled_name);
  const GroupedValues grouped = durations_of(events, grouping);
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
  std::vector<std::int64_t> durations;
  for (const std::size_t g : order) {
    std::array<std::int64_t, bucket_count> counts{};
    durations.clear();
    grouped.append_to(durations, g);
    for (const std::int64_t duration : durations) ++counts[bucket_index(duration)];
    for (std::size_t b = 0; b < bucket_count; ++b)
      if (counts[b] > 0) row << grouping.groups[g].name << bucket(b).lower << bucket(b).upper << counts[b];
  }
  return table;
}

std::vector<Table> kernel_pacing_tables(const RankEvents& events) {
  const Grouping grouping = group_by_name(events, &KernelKind::short_name);
  const std::vector<Statistics> totals = totals_of(events, grouping);
  const std::vector<std::size_t> order = by_total(events, grouping, totals);
  Pacing pacing = find_pacing(events, grouping, totals, order);

  TableSchema schema{"kernel_pacing", "How regularly each kernel started: intervals from start to start", {}};
  schema.columns = {{"name", ColumnKind::text, "", "base name of the kernel"},
                    {"first_ns", ColumnKind::time, "ns", "start of the first execution"},
                    {"last_ns", ColumnKind::time, "ns", "start of the last execution"}};
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  std::vector<Table> tables;
  tables.push_back(make_table(std::move(schema)));
  tables.push_back(make_table({"kernel_progress",
                               "When the kernels with most time were how far: up to 64 executions of each",
                               {{"name", ColumnKind::text, "", "base name of the kernel"},
                                {"execution", ColumnKind::integer, "", "number of the execution, from 0"},
                                {"start_ns", ColumnKind::time, "ns", "when it started"}}}));
  RowWriter pace(tables[0]), progress(tables[1]);
  for (const std::size_t g : order) {
    const GroupPace& of_group = pacing.groups[g];
    for (const auto& [execution, start_ns] : of_group.progress)
      progress << grouping.groups[g].name << execution << start_ns;
    if (totals[g].count < 2) continue;
    pace << grouping.groups[g].name << of_group.first_ns << of_group.last_ns;
    write_statistics(pace, pacing.intervals.summarise(g));
  }
  return tables;
}

}  // namespace nsys_explain::analysis
