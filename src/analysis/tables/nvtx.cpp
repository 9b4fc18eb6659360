#include "analysis/tables/nvtx_rows.hpp"

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
namespace {

bool any_open(const NvtxRanges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const NvtxRange& range) { return range.kind != NvtxKind::mark && range.end_ns == no_time; });
}

}  // namespace

NamedRanges::NamedRanges(const RankEvents& rank)
    : events(rank),
      ranges(rank.process.nvtx_ranges),
      names(group_ranges(rank.trace, rank.process)),
      open_end_ns(any_open(ranges) ? last_time(rank.trace) : 0) {}

TableSchema with_columns(TableSchema schema, std::vector<ColumnSchema> before, std::vector<ColumnSchema> after) {
  schema.columns = std::move(before);
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  for (ColumnSchema& column : after) schema.columns.push_back(std::move(column));
  return schema;
}

std::vector<ColumnSchema> range_columns() {
  return {{"domain", ColumnKind::text, "", "NVTX domain; empty: the default one"},
          {"range", ColumnKind::text, "", "label, without PyTorch's operator number"},
          {"style", ColumnKind::text, "", "PushPop or StartEnd"}};
}

void write_range_groups(Table& table, const NamedRanges& r, GroupedValues values, std::vector<std::int64_t> extra) {
  std::vector<Statistics> statistics = summarise_groups(values);
  write_groups(
      table, {std::move(statistics), std::move(extra)},
      [&](std::vector<std::int64_t>& all, std::span<const std::uint32_t> groups) {
        for (const std::uint32_t g : groups) values.append_to(all, g);
      },
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

namespace {

using enum ColumnKind;

Table sum_table(const NamedRanges& r, const Parents& parents) {
  Table table = make_table(with_columns(
      {"nvtx_sum",
       "Host time of NVTX ranges, most time first; open ranges end at the last event of the trace. With the first trace rank of each process",
       {}},
      range_columns(),
      {{"own_ns", integer, "ns", "sum without push/pop ranges directly inside; that of StartEnd as it is"}}));
  if (!speaks_for_process(r.events.process, r.events.device)) return table;
  std::vector<std::int64_t> own_ns(r.names.groups.size(), 0);
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    if (r.names.group_of[i] == no_group) continue;
    const Nanoseconds duration_ns = r.duration(i);
    own_ns[r.names.group_of[i]] += duration_ns;
    if (parents[i] != no_parent) own_ns[r.names.group_of[parents[i]]] -= duration_ns;
  }
  write_range_groups(table, r,
                     GroupedValues(
                         r.ranges.size(), r.names.groups.size(), [&](std::size_t i) { return r.names.group_of[i]; },
                         [&](std::size_t i) { return r.duration(i); }),
                     std::move(own_ns));
  return table;
}

/// The `most_traced` ranges of largest value, ties by smaller index.
class LargestRanges {
 public:
  struct Range {
    std::uint32_t index = 0;
    std::int64_t value = 0;
    Projection projection;  ///< where there is one
  };
  void add(const Range& range) {
    if (was_shortened_ && !is_larger(range, smallest_)) return;
    ranges_.push_back(range);
    if (ranges_.size() >= 4 * most_traced) shorten();
  }
  /// By index.
  std::vector<Range> take() {
    shorten();
    std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.index < b.index; });
    return std::move(ranges_);
  }

 private:
  static bool is_larger(const Range& a, const Range& b) {
    return a.value != b.value ? a.value > b.value : a.index < b.index;
  }
  void shorten() {
    if (ranges_.size() <= most_traced) return;
    const auto end = ranges_.begin() + static_cast<std::ptrdiff_t>(most_traced);
    std::nth_element(ranges_.begin(), end - 1, ranges_.end(), is_larger);
    ranges_.erase(end, ranges_.end());
    smallest_ = ranges_.back();
    was_shortened_ = true;
  }
  std::vector<Range> ranges_;
  bool was_shortened_ = false;
  Range smallest_;  ///< of those kept when there were too many: what is smaller cannot count any more
};

Table trace_table(const NamedRanges& r, const Parents& parents) {
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
  LargestRanges longest;
  for (std::size_t i = 0; i < r.ranges.size(); ++i)
    if (r.ranges[i].kind == NvtxKind::push_pop) longest.add({static_cast<std::uint32_t>(i), r.duration(i), {}});
  const std::vector<LargestRanges::Range> chosen = longest.take();
  struct Children {
    std::int64_t count = 0;
    Nanoseconds time_ns = 0;
  };
  std::unordered_map<std::uint32_t, Children> children;
  for (const auto& range : chosen) children[range.index] = {};
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const auto of_parent = children.find(parents[i]);
    if (of_parent == children.end()) continue;
    ++of_parent->second.count;
    of_parent->second.time_ns += r.duration(i);
  }
  RowWriter row(table);
  for (const auto& [i, duration_ns, none] : chosen) {
    const NvtxRange& range = r.ranges[i];
    const Children& inside = children[i];
    row << std::int64_t{i} << (parents[i] == no_parent ? std::int64_t{-1} : std::int64_t{parents[i]})
        << level_of(i, parents) << std::string_view(r.events.trace.strings[range.domain])
        << std::string_view(r.events.trace.strings[range.text]) << std::int64_t{range.thread_id} << range.start_ns
        << r.end_ns(i) << duration_ns << inside.time_ns << duration_ns - inside.time_ns << inside.count;
  }
  return table;
}

/// What the tables of projections need of the projections of all ranges.
struct Projections {
  GroupedValues lengths_ns;              ///< of the ranges of each group that have one
  std::vector<std::int64_t> operations;  ///< by group
  LargestRanges longest;
};

Projections project_ranges(const NamedRanges& r, const DeviceLaunches& launches) {
  std::vector<std::size_t> counts(r.names.groups.size(), 0);  // room for all: what is not used costs nothing
  for (const std::uint32_t group : r.names.group_of)
    if (group != no_group) ++counts[group];
  Projections all{GroupedValues(counts), std::vector<std::int64_t>(r.names.groups.size(), 0), {}};
  struct Thread {
    const ThreadLaunches* launches = nullptr;
    std::size_t hint = 0;
  };
  RunMap<std::uint32_t, Thread> threads;
  for (const auto& [id, of_thread] : launches.threads) threads[id] = {&of_thread};
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    const NvtxRange& range = r.ranges[i];
    if (!can_be_projected(range)) continue;
    Thread* thread = threads.find(range.thread_id);
    if (thread == nullptr) continue;
    const Projection p = thread->launches->project(range.start_ns, r.end_ns(i), thread->hint);
    if (p.operations == 0) continue;
    const Nanoseconds length_ns = p.end_ns - p.start_ns;
    if (length_ns >= 0) all.lengths_ns.put(r.names.group_of[i], length_ns);
    all.operations[r.names.group_of[i]] += p.operations;
    all.longest.add({static_cast<std::uint32_t>(i), length_ns, p});
  }
  return all;
}

Table projection_table(const NamedRanges& r, Projections& projections) {
  Table table = make_table(with_columns(
      {"nvtx_gpu_projection",
       "From the first start to the last end of GPU work launched inside a range on its thread, gaps included",
       {}},
      range_columns(), {{"gpu_operations", integer, "", "kernels, copies, sets and graphs launched inside"}}));
  write_range_groups(table, r, std::move(projections.lengths_ns), std::move(projections.operations));
  return table;
}

Table projection_trace_table(const NamedRanges& r, const Parents& parents, Projections& projections) {
  Table table = make_table({"nvtx_gpu_projection_trace",
                            "The ranges with the longest GPU projections of each trace rank (at most 1,000), by start",
                            {{"range_id", integer, "", "number of the range in its process"},
                             {"domain", text, "", ""},
                             {"range", text, "", "label as recorded"},
                             {"style", ColumnKind::text, "", "PushPop or StartEnd"},
                             {"thread_id", integer, "", ""},
                             {"level", integer, "", "0: outermost"},
                             {"start_ns", ColumnKind::time, "ns", "first start of its GPU work"},
                             {"end_ns", ColumnKind::time, "ns", "last end"},
                             {"duration_ns", integer, "ns", "between the two"},
                             {"host_start_ns", ColumnKind::time, "ns", "of the range itself"},
                             {"host_ns", integer, "ns", "its duration"},
                             {"gpu_operations", integer, "", ""}}});
  RowWriter row(table);
  for (const auto& [i, length_ns, projection] : projections.longest.take()) {
    const NvtxRange& range = r.ranges[i];
    row << std::int64_t{i} << std::string_view(r.events.trace.strings[range.domain])
        << std::string_view(r.events.trace.strings[range.text]) << range_style(range.kind)
        << std::int64_t{range.thread_id} << level_of(i, parents) << projection.start_ns << projection.end_ns
        << length_ns << range.start_ns << r.duration(i) << projection.operations;
  }
  return table;
}

}  // namespace

/// Each step needs much memory for a while: what is done with goes before the next one begins.
std::vector<Table> nvtx_tables(const RankEvents& events, const DeviceLaunches& launches) {
  NamedRanges r(events);
  std::vector<Table> tables;
  {
    Projections projections = project_ranges(r, launches);
    Table projection = projection_table(r, projections);
    const Parents parents = nest_ranges(r.ranges, r.open_end_ns);
    tables.push_back(sum_table(r, parents));
    tables.push_back(trace_table(r, parents));
    tables.push_back(std::move(projection));
    tables.push_back(projection_trace_table(r, parents, projections));
  }
  for (Table& table : nvtx_kernel_tables(r, launches)) tables.push_back(std::move(table));
  return tables;
}

std::vector<Table> host_range_tables(const RankEvents& events) {
  const NamedRanges r(events);
  const Parents parents = nest_ranges(r.ranges, r.open_end_ns);
  return {sum_table(r, parents), trace_table(r, parents)};
}

}  // namespace nsys_explain::analysis
