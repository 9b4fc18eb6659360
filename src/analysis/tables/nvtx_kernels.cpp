#include "analysis/tables/nvtx_rows.hpp"

#include "analysis/trace/kernel_surroundings.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/host.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
namespace {

using enum ColumnKind;

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
void walk_launches(const NamedRanges& r, const DeviceLaunches& launches, RangePaths& paths, const Use& use) {
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

SurroundedKernels find_surroundings(const NamedRanges& r, const DeviceLaunches& launches) {
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
      for (const std::uint32_t p : found_.all[number].pairs)
        if (place[p]) values[(*place[p])++] = duration_ns;
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

Table kernels_in_ranges_table(const NamedRanges& r, const SurroundedKernels& kernels, const DeviceLaunches& launches) {
  Table table = make_table(with_columns(
      {"nvtx_kernels",
       "Kernels launched inside NVTX ranges on the same thread, most time first; a kernel counts for every range around it",
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

Table coverage_table(const NamedRanges& r, const DeviceLaunches& launches, const Coverage& coverage) {
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

std::vector<Table> nvtx_kernel_tables(NamedRanges& r, const DeviceLaunches& launches) {
  const SurroundedKernels kernels = find_surroundings(r, launches);
  release(r.names.group_of);
  std::vector<Table> tables;
  tables.push_back(kernels_in_ranges_table(r, kernels, launches));
  tables.push_back(coverage_table(r, launches, kernels.coverage));
  return tables;
}

}  // namespace nsys_explain::analysis
