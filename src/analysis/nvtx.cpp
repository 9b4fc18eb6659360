#include "nsys_explain/analysis/nvtx.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>

#include "nsys_explain/analysis/gpu_activity.hpp"
#include "nsys_explain/analysis/launches.hpp"
#include "nsys_explain/analysis/nvtx_names.hpp"
#include "nsys_explain/analysis/statistics.hpp"
#include "nvtx_nesting.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr auto integer = ColumnKind::integer;
constexpr auto text = ColumnKind::text;

/// What all tables here look at.
struct Ranges {
  explicit Ranges(const RankEvents& rank)
      : events(rank),
        ranges(rank.process.nvtx_ranges),
        names(group_ranges(rank.trace, rank.process)),
        nesting(nest_ranges(ranges, ranges.empty() ? 0 : last_time(rank.trace))) {}

  Nanoseconds duration(std::size_t i) const { return nesting.end_ns[i] - ranges[i].start_ns; }
  std::string_view domain(const RangeGroup& group) const { return events.trace.strings[group.domain]; }

  const RankEvents& events;
  const std::vector<NvtxRange>& ranges;
  RangeGroups names;
  Nesting nesting;
};

TableSchema with_columns(TableSchema schema, std::vector<ColumnSchema> before, std::vector<ColumnSchema> after) {
  schema.columns = std::move(before);
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  for (ColumnSchema& column : after) schema.columns.push_back(std::move(column));
  return schema;
}

std::vector<ColumnSchema> range_columns() {
  return {{"domain", text, "", "NVTX domain; empty: the default one"},
          {"range", text, "", "label, without PyTorch's operator number"},
          {"style", ColumnKind::label, "", "PushPop or StartEnd"}};
}

/// Values of groups, and one sum beside them.
struct GroupedSamples {
  std::vector<std::uint32_t> group_of;
  std::vector<std::int64_t> values;
  std::vector<std::int64_t> extra;  ///< by group

  explicit GroupedSamples(std::size_t groups) : extra(groups, 0) {}
  void add(std::uint32_t group, std::int64_t value, std::int64_t more) {
    group_of.push_back(group);
    values.push_back(value);
    extra[group] += more;
  }
};

/// One row for each of the groups with the most time, and one for the rest together: `write_names(group)`, the
/// statistics, the extra sum. Groups without values have no row.
template <class WriteNames, class WriteOther, class Key>
void write_groups(Table& table, GroupedSamples samples, const WriteNames& write_names, const WriteOther& write_other,
                  const Key& key) {
  const std::size_t groups = samples.extra.size();
  const std::vector<Statistics> statistics = summarise_groups(samples.group_of, samples.values, groups);
  std::vector<std::uint32_t> order;
  for (std::uint32_t g = 0; g < groups; ++g) {
    if (statistics[g].count > 0) order.push_back(g);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (statistics[a].total != statistics[b].total) return statistics[a].total > statistics[b].total;
    return key(a) < key(b);
  });
  RowWriter row(table);
  const std::size_t shown = order.size() > most_names ? most_names - 1 : order.size();
  for (std::size_t i = 0; i < shown; ++i) {
    write_names(row, order[i]);
    write_statistics(row, statistics[order[i]]);
    row << samples.extra[order[i]];
  }
  if (shown == order.size()) return;
  std::vector<bool> is_other(groups, false);
  std::int64_t extra = 0;
  for (std::size_t i = shown; i < order.size(); ++i) {
    is_other[order[i]] = true;
    extra += samples.extra[order[i]];
  }
  std::vector<std::int64_t> others;
  for (std::size_t i = 0; i < samples.values.size(); ++i) {
    if (is_other[samples.group_of[i]]) others.push_back(samples.values[i]);
  }
  write_other(row);
  write_statistics(row, summarise(others));
  row << extra;
}

/// The same for tables whose groups are those of the ranges.
void write_range_groups(Table& table, const Ranges& r, GroupedSamples samples) {
  write_groups(
      table, std::move(samples),
      [&](RowWriter& row, std::uint32_t g) {
        const RangeGroup& group = r.names.groups[g];
        row << r.domain(group) << group.name << range_style(group.kind);
      },
      [](RowWriter& row) { row << std::string_view() << other_ranges << std::string_view("-"); },
      [&](std::uint32_t g) {
        const RangeGroup& group = r.names.groups[g];
        return std::tuple(r.domain(group), group.name, group.kind);
      });
}

Table sum_table(const Ranges& r) {
  Table table = make_table(with_columns(
      {"nvtx_sum",
       "Host time of NVTX ranges, most time first; open ranges end at the last event of the trace. With "
       "the first trace rank of each process",
       {}},
      range_columns(),
      {{"own_ns", integer, "ns", "sum without push/pop ranges directly inside; that of StartEnd as it is"}}));
  if (!speaks_for_process(r.events.process, r.events.device)) return table;
  GroupedSamples samples(r.names.groups.size());
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    if (r.names.group_of[i] == no_group) continue;
    samples.add(r.names.group_of[i], r.duration(i), r.duration(i) - r.nesting.children_ns[i]);
  }
  write_range_groups(table, r, std::move(samples));
  return table;
}

/// The `most` indices of largest value, ties by smaller index, in ascending order of index.
std::vector<std::uint32_t> largest(std::vector<std::uint32_t> indices, std::size_t most,
                                   const std::vector<std::int64_t>& value) {
  if (indices.size() > most) {
    const auto before = [&](std::uint32_t a, std::uint32_t b) {
      return value[a] != value[b] ? value[a] > value[b] : a < b;
    };
    std::nth_element(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(most), indices.end(), before);
    indices.resize(most);
    std::sort(indices.begin(), indices.end());
  }
  return indices;
}

Table trace_table(const Ranges& r) {
  Table table =
      make_table({"nvtx_trace",
                  "The longest push/pop ranges of each process (at most 1,000), by start. With its first trace rank",
                  {{"range_id", integer, "", "number of the range in its process"},
                   {"parent_id", integer, "", "range around it on the same thread and domain; -1: none"},
                   {"level", integer, "", "0: outermost"},
                   {"domain", text, "", ""},
                   {"range", text, "", "label as recorded"},
                   {"thread_id", integer, "", ""},
                   {"start_ns", ColumnKind::time, "ns", ""},
                   {"end_ns", ColumnKind::time, "ns", ""},
                   {"duration_ns", integer, "ns", ""},
                   {"children_ns", integer, "ns", "of the ranges directly inside"},
                   {"own_ns", integer, "ns", "duration without them"},
                   {"children", integer, "", "ranges directly inside"}}});
  if (!speaks_for_process(r.events.process, r.events.device)) return table;
  std::vector<std::uint32_t> chosen;
  std::vector<std::int64_t> durations(r.ranges.size());
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    durations[i] = r.duration(i);
    if (r.ranges[i].kind == NvtxKind::push_pop) chosen.push_back(static_cast<std::uint32_t>(i));
  }
  RowWriter row(table);
  for (const std::uint32_t i : largest(std::move(chosen), most_traced, durations)) {
    const NvtxRange& range = r.ranges[i];
    row << std::int64_t{i} << (r.nesting.parent[i] == no_parent ? std::int64_t{-1} : std::int64_t{r.nesting.parent[i]})
        << std::int64_t{r.nesting.level[i]} << std::string_view(r.events.trace.strings[range.domain])
        << std::string_view(r.events.trace.strings[range.text]) << std::int64_t{range.thread_id} << range.start_ns
        << r.nesting.end_ns[i] << durations[i] << r.nesting.children_ns[i] << durations[i] - r.nesting.children_ns[i]
        << std::int64_t{r.nesting.children[i]};
  }
  return table;
}

bool can_be_projected(const NvtxRange& range) {
  return range.kind != NvtxKind::mark && range.thread_id == range.end_thread_id;
}

/// The projection of every range, parallel to the ranges; without operations where there is none.
std::vector<Projection> project_ranges(const Ranges& r, const DeviceLaunches& launches) {
  std::vector<Projection> projections(r.ranges.size());
  std::unordered_map<std::uint32_t, std::size_t> hints;
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    const NvtxRange& range = r.ranges[i];
    if (!can_be_projected(range)) continue;
    const auto thread = launches.threads.find(range.thread_id);
    if (thread == launches.threads.end()) continue;
    projections[i] = thread->second.project(range.start_ns, r.nesting.end_ns[i], hints[range.thread_id]);
  }
  return projections;
}

Table projection_table(const Ranges& r, const std::vector<Projection>& projections) {
  Table table = make_table(with_columns(
      {"nvtx_gpu_projection",
       "From the first start to the last end of GPU work launched inside a range on its thread, gaps included",
       {}},
      range_columns(), {{"gpu_operations", integer, "", "kernels, copies, sets and graphs launched inside"}}));
  GroupedSamples samples(r.names.groups.size());
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    const Projection& p = projections[i];
    if (p.operations > 0) samples.add(r.names.group_of[i], p.end_ns - p.start_ns, p.operations);
  }
  write_range_groups(table, r, std::move(samples));
  return table;
}

Table projection_trace_table(const Ranges& r, const std::vector<Projection>& projections) {
  Table table = make_table({"nvtx_gpu_projection_trace",
                            "The ranges with the longest GPU projections of each trace rank (at most 1,000), by start",
                            {{"range_id", integer, "", "number of the range in its process"},
                             {"domain", text, "", ""},
                             {"range", text, "", "label as recorded"},
                             {"style", ColumnKind::label, "", "PushPop or StartEnd"},
                             {"thread_id", integer, "", ""},
                             {"level", integer, "", "0: outermost"},
                             {"start_ns", ColumnKind::time, "ns", "first start of its GPU work"},
                             {"end_ns", ColumnKind::time, "ns", "last end"},
                             {"duration_ns", integer, "ns", "between the two"},
                             {"host_start_ns", ColumnKind::time, "ns", "of the range itself"},
                             {"host_ns", integer, "ns", "its duration"},
                             {"gpu_operations", integer, "", ""}}});
  std::vector<std::uint32_t> chosen;
  std::vector<std::int64_t> durations(r.ranges.size());
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    if (projections[i].operations == 0) continue;
    durations[i] = projections[i].end_ns - projections[i].start_ns;
    chosen.push_back(static_cast<std::uint32_t>(i));
  }
  RowWriter row(table);
  for (const std::uint32_t i : largest(std::move(chosen), most_traced, durations)) {
    const NvtxRange& range = r.ranges[i];
    row << std::int64_t{i} << std::string_view(r.events.trace.strings[range.domain])
        << std::string_view(r.events.trace.strings[range.text]) << range_style(range.kind)
        << std::int64_t{range.thread_id} << std::int64_t{r.nesting.level[i]} << projections[i].start_ns
        << projections[i].end_ns << durations[i] << range.start_ns << r.duration(i) << projections[i].operations;
  }
  return table;
}

struct Coverage {
  std::int64_t kernels = 0, covered = 0;
  Nanoseconds kernel_ns = 0, covered_ns = 0;
};

/// Samples of (range group, kernel name) pairs.
struct KernelPairs {
  struct Pair {
    std::uint32_t group = 0;
    StringIndex kernel = 0;
    std::int64_t last_range = -1;  ///< position in the thread's order, so that instances count once
  };
  std::vector<Pair> pairs;
  std::unordered_map<std::uint64_t, std::uint32_t> number_of;
  GroupedSamples samples{0};

  void add(std::uint32_t group, StringIndex kernel, std::int64_t range_position, Nanoseconds duration_ns) {
    const std::uint64_t key = static_cast<std::uint64_t>(group) << 32 | kernel;
    const auto [entry, is_new] = number_of.try_emplace(key, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) {
      pairs.push_back({group, kernel});
      samples.extra.push_back(0);
    }
    Pair& pair = pairs[entry->second];
    const bool new_instance = range_position > pair.last_range;
    if (new_instance) pair.last_range = range_position;
    samples.add(entry->second, duration_ns, new_instance ? 1 : 0);
  }
};

/// Walks through the launches of every thread with the ranges that are open: `use(launch, open ranges)`, outer ranges
/// first, each as (range, position in the order of starts).
template <class Use>
void walk_launches(const Ranges& r, const DeviceLaunches& launches, const Use& use) {
  struct Open {
    std::uint32_t range;
    std::int64_t position;
  };
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> of_thread;
  for (const std::uint32_t i : outer_first(r.ranges, r.nesting.end_ns)) {
    if (can_be_projected(r.ranges[i]) && launches.threads.contains(r.ranges[i].thread_id)) {
      of_thread[r.ranges[i].thread_id].push_back(i);
    }
  }
  std::int64_t position = 0;
  for (const auto& [thread, of_this] : launches.threads) {
    const std::vector<std::uint32_t>& order = of_thread[thread];
    std::vector<Open> open, around;
    std::size_t next = 0;
    for (const Launch& launch : of_this.launches()) {
      std::erase_if(open, [&](const Open& o) { return r.nesting.end_ns[o.range] < launch.call_start_ns; });
      for (; next < order.size() && r.ranges[order[next]].start_ns <= launch.call_start_ns; ++next, ++position) {
        if (r.nesting.end_ns[order[next]] >= launch.call_start_ns) open.push_back({order[next], position});
      }
      around.clear();
      for (const Open& o : open) {
        if (r.nesting.end_ns[o.range] >= launch.call_end_ns) around.push_back(o);
      }
      use(launch, around);
    }
  }
}

Table kernels_in_ranges_table(const Ranges& r, const DeviceLaunches& launches, Coverage& coverage) {
  Table table = make_table(with_columns({"nvtx_kernels",
                                         "Kernels launched inside NVTX ranges on the same thread, most time first; a "
                                         "kernel counts for every range around "
                                         "it",
                                         {}},
                                        {{"domain", text, "", "NVTX domain; empty: the default one"},
                                         {"range", text, "", "label, without PyTorch's operator number"},
                                         {"style", ColumnKind::label, "", "PushPop or StartEnd"},
                                         {"kernel", text, "", "kernel with its template and argument lists"}},
                                        {{"ranges", integer, "", "ranges of that name that launched the kernel"}}));
  KernelPairs found;
  const auto& kernels = r.events.device.kernels;
  walk_launches(r, launches, [&](const Launch& launch, const auto& around) {
    if (launch.kernel < 0) return;
    const Nanoseconds duration_ns = launch.gpu_end_ns - launch.gpu_start_ns;
    bool covered = false;
    for (const auto& open : around) {
      covered = covered || r.events.trace.strings[r.ranges[open.range].domain] != "NCCL";
      found.add(r.names.group_of[open.range], kernels[static_cast<std::size_t>(launch.kernel)].demangled_name,
                open.position, duration_ns);
    }
    coverage.covered += covered ? 1 : 0;
    coverage.covered_ns += covered ? duration_ns : 0;
  });
  for (const Kernel& kernel : kernels) coverage.kernel_ns += kernel.end_ns - kernel.start_ns;
  coverage.kernels = static_cast<std::int64_t>(kernels.size());
  const auto& strings = r.events.trace.strings;
  write_groups(
      table, std::move(found.samples),
      [&](RowWriter& row, std::uint32_t p) {
        const RangeGroup& group = r.names.groups[found.pairs[p].group];
        row << r.domain(group) << group.name << range_style(group.kind)
            << std::string_view(strings[found.pairs[p].kernel]);
      },
      [](RowWriter& row) {
        row << std::string_view() << other_ranges << std::string_view("-") << std::string_view("(all other kernels)");
      },
      [&](std::uint32_t p) {
        const RangeGroup& group = r.names.groups[found.pairs[p].group];
        return std::tuple(r.domain(group), group.name, group.kind, std::string_view(strings[found.pairs[p].kernel]));
      });
  return table;
}

Table coverage_table(const Ranges& r, const DeviceLaunches& launches, const Coverage& coverage) {
  Table table = make_table(
      {"nvtx_coverage",
       "How much of the kernel time can be attributed: to a launching call, and to an NVTX range of the program",
       {{"ranges", integer, "", "NVTX ranges of the process, NCCL's not counted"},
        {"kernels", integer, "", ""},
        {"kernel_ns", integer, "ns", "sum of their durations"},
        {"launched_kernels", integer, "", "those whose launching call is in the export"},
        {"launched_ns", integer, "ns", "their durations"},
        {"covered_kernels", integer, "", "those launched inside a range on the same thread, NCCL's ranges not counted"},
        {"covered_ns", integer, "ns", "their durations"}}});
  RowWriter row(table);
  const auto is_range = [&](const NvtxRange& range) {
    return range.kind != NvtxKind::mark && r.events.trace.strings[range.domain] != "NCCL";
  };
  row << static_cast<std::int64_t>(std::count_if(r.ranges.begin(), r.ranges.end(), is_range)) << coverage.kernels
      << coverage.kernel_ns << coverage.kernels - launches.kernels_without_call
      << coverage.kernel_ns - launches.kernel_ns_without_call << coverage.covered << coverage.covered_ns;
  return table;
}

}  // namespace

std::vector<Table> nvtx_tables(const RankEvents& events) {
  const Ranges r(events);
  const DeviceLaunches launches = collect_launches(events);
  std::vector<Table> tables;
  tables.push_back(sum_table(r));
  tables.push_back(trace_table(r));
  {
    const std::vector<Projection> projections = project_ranges(r, launches);
    tables.push_back(projection_table(r, projections));
    tables.push_back(projection_trace_table(r, projections));
  }
  Coverage coverage;
  tables.push_back(kernels_in_ranges_table(r, launches, coverage));
  tables.push_back(coverage_table(r, launches, coverage));
  return tables;
}

}  // namespace nsys_explain::analysis
