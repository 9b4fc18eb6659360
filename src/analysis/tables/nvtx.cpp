#include "analysis/tables/nvtx.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>

#include "analysis/statistics/small_numbers.hpp"
#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/gpu_activity.hpp"
#include "analysis/trace/kernel_surroundings.hpp"
#include "analysis/trace/launches.hpp"
#include "analysis/trace/nvtx_names.hpp"
#include "analysis/trace/nvtx_nesting.hpp"
#include "model/schema/host.hpp"
#include "nsys_explain/model/release.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
namespace {

using enum ColumnKind;

bool any_open(const NvtxRanges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const NvtxRange& range) { return range.kind != NvtxKind::mark && range.end_ns == no_time; });
}

/// What all tables here look at.
struct Ranges {
  explicit Ranges(const RankEvents& rank)
      : events(rank),
        ranges(rank.process.nvtx_ranges),
        names(group_ranges(rank.trace, rank.process)),
        open_end_ns(any_open(ranges) ? last_time(rank.trace) : 0) {}

  Nanoseconds end_ns(std::size_t i) const { return end_of(ranges[i], open_end_ns); }
  Nanoseconds duration(std::size_t i) const { return end_ns(i) - ranges[i].start_ns; }
  std::string_view domain(const RangeGroup& group) const { return events.trace.strings[group.domain]; }

  const RankEvents& events;
  const NvtxRanges& ranges;
  RangeGroups names;
  Nanoseconds open_end_ns;  ///< where those that were never closed end
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
          {"style", ColumnKind::text, "", "PushPop or StartEnd"}};
}

/// What is told of groups: statistics of their values, and one sum beside them.
struct GroupSums {
  std::vector<Statistics> statistics;
  std::vector<std::int64_t> extra;
};

/// One row for each of the groups with the most time, and one for the rest together: `write_names(group)`, the
/// statistics, the extra sum. Groups without values have no row. `append_values(values, groups)`: those of these
/// groups.
template <class AppendValues, class WriteNames, class WriteOther, class Key>
void write_groups(Table& table, const GroupSums& sums, const AppendValues& append_values, const WriteNames& write_names,
                  const WriteOther& write_other, const Key& key) {
  const std::vector<Statistics>& statistics = sums.statistics;
  std::vector<std::uint32_t> order;
  for (std::uint32_t g = 0; g < statistics.size(); ++g) {
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
    row << sums.extra[order[i]];
  }
  if (shown == order.size()) return;
  std::int64_t extra = 0;
  std::vector<std::int64_t> others;
  const auto rest = std::span<const std::uint32_t>(order).subspan(shown);
  for (const std::uint32_t g : rest) extra += sums.extra[g];
  append_values(others, rest);
  write_other(row);
  write_statistics(row, summarise(others));
  row << extra;
}

/// The same for tables whose groups are those of the ranges.
void write_range_groups(Table& table, const Ranges& r, GroupedValues values, std::vector<std::int64_t> extra) {
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

Table sum_table(const Ranges& r, const Parents& parents) {
  Table table = make_table(with_columns(
      {"nvtx_sum",
       "Host time of NVTX ranges, most time first; open ranges end at the last event of the trace. With "
       "the first trace rank of each process",
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

Table trace_table(const Ranges& r, const Parents& parents) {
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
  for (std::size_t i = 0; i < r.ranges.size(); ++i) {
    if (r.ranges[i].kind == NvtxKind::push_pop) longest.add({static_cast<std::uint32_t>(i), r.duration(i), {}});
  }
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

bool can_be_projected(const NvtxRange& range) {
  return range.kind != NvtxKind::mark && range.thread_id == range.end_thread_id;
}

/// What the tables of projections need of the projections of all ranges.
struct Projections {
  GroupedValues lengths_ns;              ///< of the ranges of each group that have one
  std::vector<std::int64_t> operations;  ///< by group
  LargestRanges longest;
};

Projections project_ranges(const Ranges& r, const DeviceLaunches& launches) {
  std::vector<std::size_t> counts(r.names.groups.size(), 0);  // room for all: what is not used costs nothing
  for (const std::uint32_t group : r.names.group_of) {
    if (group != no_group) ++counts[group];
  }
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

Table projection_table(const Ranges& r, Projections& projections) {
  Table table = make_table(with_columns(
      {"nvtx_gpu_projection",
       "From the first start to the last end of GPU work launched inside a range on its thread, gaps included",
       {}},
      range_columns(), {{"gpu_operations", integer, "", "kernels, copies, sets and graphs launched inside"}}));
  write_range_groups(table, r, std::move(projections.lengths_ns), std::move(projections.operations));
  return table;
}

Table projection_trace_table(const Ranges& r, const Parents& parents, Projections& projections) {
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

struct Coverage {
  std::int64_t kernels = 0, covered = 0;
  Nanoseconds kernel_ns = 0, covered_ns = 0;
};

/// A range that is open when a launching call starts.
struct OpenRange {
  std::uint32_t group = 0;
  std::uint32_t path = RangePaths::outside;  ///< down to this one, through the open ranges before it
  std::int64_t position = 0;                 ///< in the order of starts
  Nanoseconds end_ns = 0;
};

/// The ranges that are open, outer ones first.
class OpenRanges {
 public:
  explicit OpenRanges(RangePaths& paths) : paths_(paths) {}

  const std::vector<OpenRange>& all() const { return open_; }
  void open(std::uint32_t group, std::int64_t position, Nanoseconds end_ns) {
    open_.push_back({group, paths_.within(innermost(open_.size()), group), position, end_ns});
  }
  void close_before(Nanoseconds time_ns) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (open_[i].end_ns < time_ns) continue;
      if (kept != i) {
        open_[kept] = open_[i];
        open_[kept].path = paths_.within(innermost(kept), open_[i].group);
      }
      ++kept;
    }
    open_.resize(kept);
  }
  /// Of those that are open until then.
  std::uint32_t path_until(Nanoseconds time_ns) const {
    std::uint32_t path = RangePaths::outside;
    bool all = true;
    for (const OpenRange& range : open_) {
      if (range.end_ns < time_ns) {
        all = false;
      } else {
        path = all ? range.path : paths_.within(path, range.group);
      }
    }
    return path;
  }

 private:
  std::uint32_t innermost(std::size_t count) const { return count == 0 ? RangePaths::outside : open_[count - 1].path; }

  RangePaths& paths_;
  std::vector<OpenRange> open_;
};

/// Walks through the launches of every thread with the ranges that are open: `use(launch, open ranges)`, outer ranges
/// first.
template <class Use>
void walk_launches(const Ranges& r, const DeviceLaunches& launches, RangePaths& paths, const Use& use) {
  RunMap<std::uint32_t, std::vector<std::uint32_t>> of_thread;
  RunMap<std::uint32_t, std::size_t> counts;
  for (const auto& [thread, of_this] : launches.threads) counts[thread] = 0;
  for (const NvtxRange& range : r.ranges) {
    std::size_t* count = can_be_projected(range) ? counts.find(range.thread_id) : nullptr;
    if (count != nullptr) ++*count;
  }
  for (const auto& [thread, count] : counts.all()) of_thread[thread].reserve(count);
  for_each_outer_first(r.ranges, r.open_end_ns, [&](std::uint32_t i) {
    const NvtxRange range = r.ranges[i];
    if (!can_be_projected(range)) return;
    if (auto* of_this = of_thread.find(range.thread_id)) of_this->push_back(i);
  });
  std::int64_t position = 0;
  for (const auto& [thread, of_this] : launches.threads) {
    const std::vector<std::uint32_t>& order = of_thread[thread];
    OpenRanges open(paths);
    std::size_t next = 0;
    for (std::size_t i = 0; i < of_this.size(); ++i) {
      const Launch launch = of_this[i];
      open.close_before(launch.call_start_ns);
      for (; next < order.size() && r.ranges[order[next]].start_ns <= launch.call_start_ns; ++next, ++position) {
        const Nanoseconds end_ns = r.end_ns(order[next]);
        if (end_ns >= launch.call_start_ns) open.open(r.names.group_of[order[next]], position, end_ns);
      }
      use(launch, open);
    }
  }
}

/// Kernels that were launched in ranges.
struct SurroundedKernels {
  KernelSurroundings found;
  SmallNumbers of_launch;  ///< launches thread by thread: number of the surroundings after `none`
  Coverage coverage;

  static constexpr std::uint32_t none = 0;  ///< no kernel, or outside of all ranges
};

SurroundedKernels find_surroundings(const Ranges& r, const DeviceLaunches& launches) {
  SurroundedKernels result;
  KernelSurroundings& found = result.found;
  Coverage& coverage = result.coverage;
  const DeviceTrace& device = r.events.device;
  for (const Kernel& kernel : device.kernels) coverage.kernel_ns += kernel.end_ns - kernel.start_ns;
  coverage.kernels = static_cast<std::int64_t>(device.kernels.size());
  std::size_t count = 0;
  for (const auto& [thread, of_this] : launches.threads) count += of_this.size();
  result.of_launch.reserve(count);
  std::vector<bool> is_of_nccl;  // by group
  for (const RangeGroup& group : r.names.groups) is_of_nccl.push_back(r.domain(group) == "NCCL");
  RangePaths paths;
  walk_launches(r, launches, paths, [&](const Launch& launch, const OpenRanges& open_ranges) {
    const std::uint32_t path = launch.kernel < 0 ? RangePaths::outside : open_ranges.path_until(launch.call_end_ns);
    if (path == RangePaths::outside) return result.of_launch.push_back(SurroundedKernels::none);
    const Kernel kernel = device.kernels[static_cast<std::size_t>(launch.kernel)];
    const std::uint32_t number = found.number_of(device.kind_of(kernel).demangled_name, path, paths);
    result.of_launch.push_back(SurroundedKernels::none + 1 + number);
    Surroundings& around = found.all[number];
    if (around.count == 0) {
      around.is_covered = std::any_of(around.pairs.begin(), around.pairs.end(),
                                      [&](std::uint32_t p) { return !is_of_nccl[found.pairs[p].group]; });
    }
    const Nanoseconds duration_ns = launch.gpu_end_ns - launch.gpu_start_ns;
    around.add(duration_ns);
    coverage.covered += around.is_covered ? 1 : 0;
    coverage.covered_ns += around.is_covered ? duration_ns : 0;
    std::size_t next = 0;
    for (const OpenRange& open : open_ranges.all()) {
      if (open.end_ns < launch.call_end_ns) continue;
      KernelPair& pair = found.pairs[around.pairs[next++]];
      if (open.position <= pair.last_range) continue;
      pair.last_range = open.position;
      ++pair.ranges;
    }
  });
  return result;
}

/// Durations of the kernels that were launched by threads with ranges, by pair of range group and kernel.
class PairDurations {
 public:
  PairDurations(const SurroundedKernels& kernels, const DeviceLaunches& launches)
      : found_(kernels.found), of_launch_(kernels.of_launch), launches_(launches) {
    combine();
    std::vector<std::size_t> counts;
    for (const Surroundings& s : found_.all) counts.push_back(static_cast<std::size_t>(s.count));
    GroupedValues durations(counts);
    // Squares are added up in the order of launches, as summarise() would, whose values are in that order, too.
    std::vector<double> squares(found_.pairs.size(), 0);
    for_each_kernel([&](std::uint32_t number, Nanoseconds duration_ns) {
      durations.put(number, duration_ns);
      for (const std::uint32_t p : found_.all[number].pairs) {
        const double distance = static_cast<double>(duration_ns) - statistics_[p].mean;
        squares[p] += distance * distance;
      }
    });
    std::vector<std::int64_t> values;
    for (std::uint32_t p = 0; p < statistics_.size(); ++p) {
      Statistics& of_pair = statistics_[p];
      if (of_pair.count > 1) of_pair.deviation = std::sqrt(squares[p] / static_cast<double>(of_pair.count - 1));
      values.clear();
      for (const std::uint32_t number : surroundings_of_[p]) durations.append_to(values, number);
      set_percentiles(of_pair, values);
    }
  }

  const std::vector<Statistics>& statistics() const { return statistics_; }
  /// Pair by pair, each in the order of launches.
  void append_to(std::vector<std::int64_t>& values, std::span<const std::uint32_t> pairs) const {
    std::vector<std::optional<std::size_t>> place(statistics_.size());
    for (const std::uint32_t p : pairs) {
      place[p] = values.size();
      values.resize(values.size() + static_cast<std::size_t>(statistics_[p].count));
    }
    for_each_kernel([&](std::uint32_t number, Nanoseconds duration_ns) {
      for (const std::uint32_t p : found_.all[number].pairs) {
        if (place[p]) values[(*place[p])++] = duration_ns;
      }
    });
  }

 private:
  /// Calls `use(number of surroundings, duration)` for kernels in ranges, in the order of launches.
  template <class Use>
  void for_each_kernel(const Use& use) const {
    std::size_t next = 0;
    for (const auto& [thread, of_this] : launches_.threads) {
      for (std::size_t i = 0; i < of_this.size(); ++i) {
        const std::uint32_t number = of_launch_[next++];
        if (number == SurroundedKernels::none) continue;
        use(number - SurroundedKernels::none - 1, of_this.gpu_ns(i));
      }
    }
  }

  /// All of the statistics of pairs that does not depend on the order of their values.
  void combine() {
    statistics_.resize(found_.pairs.size());
    surroundings_of_.resize(found_.pairs.size());
    for (std::uint32_t number = 0; number < found_.all.size(); ++number) {
      const Surroundings& around = found_.all[number];
      for (const std::uint32_t p : around.pairs) {
        Statistics& of_pair = statistics_[p];
        of_pair.min = of_pair.count == 0 ? around.min_ns : std::min(of_pair.min, around.min_ns);
        of_pair.max = of_pair.count == 0 ? around.max_ns : std::max(of_pair.max, around.max_ns);
        of_pair.count += around.count;
        of_pair.total += around.total_ns;
        surroundings_of_[p].push_back(number);
      }
    }
    for (Statistics& s : statistics_) s.mean = static_cast<double>(s.total) / static_cast<double>(s.count);
  }

  const KernelSurroundings& found_;
  const SmallNumbers& of_launch_;
  const DeviceLaunches& launches_;
  std::vector<Statistics> statistics_;                       ///< by pair
  std::vector<std::vector<std::uint32_t>> surroundings_of_;  ///< by pair
};

Table kernels_in_ranges_table(const Ranges& r, const SurroundedKernels& kernels, const DeviceLaunches& launches) {
  Table table = make_table(with_columns({"nvtx_kernels",
                                         "Kernels launched inside NVTX ranges on the same thread, most time first; a "
                                         "kernel counts for every range around "
                                         "it",
                                         {}},
                                        {{"domain", text, "", "NVTX domain; empty: the default one"},
                                         {"range", text, "", "label, without PyTorch's operator number"},
                                         {"style", ColumnKind::text, "", "PushPop or StartEnd"},
                                         {"kernel", text, "", "kernel with its template and argument lists"}},
                                        {{"ranges", integer, "", "ranges of that name that launched the kernel"}}));
  const PairDurations durations(kernels, launches);
  const auto& strings = r.events.trace.strings;
  const std::vector<KernelPair>& pairs = kernels.found.pairs;
  std::vector<std::int64_t> ranges;
  for (const KernelPair& pair : pairs) ranges.push_back(pair.ranges);
  write_groups(
      table, {durations.statistics(), std::move(ranges)},
      [&](std::vector<std::int64_t>& values, std::span<const std::uint32_t> groups) {
        durations.append_to(values, groups);
      },
      [&](RowWriter& row, std::uint32_t p) {
        const RangeGroup& group = r.names.groups[pairs[p].group];
        row << r.domain(group) << group.name << range_style(group.kind) << std::string_view(strings[pairs[p].kernel]);
      },
      [](RowWriter& row) {
        row << std::string_view() << other_ranges << std::string_view("-") << std::string_view("(all other kernels)");
      },
      [&](std::uint32_t p) {
        const RangeGroup& group = r.names.groups[pairs[p].group];
        return std::tuple(r.domain(group), group.name, group.kind, std::string_view(strings[pairs[p].kernel]));
      });
  return table;
}

Table coverage_table(const Ranges& r, const DeviceLaunches& launches, const Coverage& coverage) {
  Table table = make_table(schema::nvtx_coverage);
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

/// Each step needs much memory for a while: what is done with goes before the next one begins.
std::vector<Table> nvtx_tables(const RankEvents& events, const DeviceLaunches& launches) {
  Ranges r(events);
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
  const SurroundedKernels kernels = find_surroundings(r, launches);
  release(r.names.group_of);
  tables.push_back(kernels_in_ranges_table(r, kernels, launches));
  tables.push_back(coverage_table(r, launches, kernels.coverage));
  return tables;
}

}  // namespace nsys_explain::analysis
