#include "analysis/tables/tables.hpp"

#include <limits>
#include <numeric>
#include <queue>

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/work_profile.hpp"
#include "model/schema/gpu.hpp"
#include "nsys_explain/model/intervals.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
Budget compute_budget(const DeviceTrace& device, const std::vector<bool>& communication_kinds,
                      std::span<const Interval> holes) {
  std::array<Nanoseconds, gpu_part_count> parts_ns{};
  const auto add = [&](GpuPart part, const Interval& interval) {
    parts_ns[static_cast<std::size_t>(part)] += interval.end_ns - interval.start_ns;
  };
  for_each_gpu_part(device, communication_kinds, add, holes);
  const auto of = [&](GpuPart part) { return parts_ns[static_cast<std::size_t>(part)]; };
  UnionLength communication;
  for (const Kernel& kernel : device.kernels)
    if (communication_kinds[kernel.kind]) communication.add({kernel.start_ns, kernel.end_ns});
  const Interval window = gpu_window(device);
  Budget budget;
  budget.window_start_ns = window.start_ns;
  budget.window_ns = std::accumulate(parts_ns.begin(), parts_ns.end(), Nanoseconds{0});
  budget.compute_ns = of(GpuPart::compute);
  budget.communication_ns = communication.length_ns();
  budget.exposed_communication_ns = of(GpuPart::communication);
  budget.overlapped_ns = budget.communication_ns - budget.exposed_communication_ns;
  budget.copy_ns = of(GpuPart::copy);
  budget.opaque_graph_ns = of(GpuPart::opaque_graph);
  budget.idle_ns = of(GpuPart::idle);
  return budget;
}

namespace {

constexpr std::int64_t stream_time_spans = 256;

using StreamKey = std::pair<std::uint32_t, std::uint32_t>;  ///< context, stream

struct StreamUse {
  std::int64_t kernels = 0, communication = 0, memory_operations = 0, graph_launches = 0;
  Nanoseconds first_ns = 0, last_ns = 0, busy_ns = 0;
  bool is_busy = false;
};

/// Counts how many streams are busy while activities come in by start. A stream is busy until the latest end of its
/// activities so far, so each stream stands in the queue once.
class ConcurrencyCounter {
 public:
  void add(const StreamKey& key, StreamUse& use, const GpuActivity& activity) {
    if (!started_) now_ns_ = activity.start_ns;
    started_ = true;
    advance(activity.start_ns);
    if (!use.is_busy) {
      use.is_busy = true;
      use.busy_ns += activity.end_ns - activity.start_ns;
      use.last_ns = activity.end_ns;
      ends_.emplace(use.last_ns, key, &use);
    } else if (activity.end_ns > use.last_ns) {
      use.busy_ns += activity.end_ns - use.last_ns;
      use.last_ns = activity.end_ns;  // advance() finds its queue entry too early and puts it back
    }
  }

  /// Time at each number of busy streams.
  const std::vector<Nanoseconds>& finish() {
    advance(std::numeric_limits<Nanoseconds>::max());
    return at_level_ns_;
  }

 private:
  void advance(Nanoseconds to_ns) {
    while (!ends_.empty() && std::get<0>(ends_.top()) <= to_ns) {
      auto [end_ns, key, use] = ends_.top();
      ends_.pop();
      if (use->last_ns > end_ns) {
        ends_.emplace(use->last_ns, key, use);
        continue;
      }
      count(end_ns, ends_.size() + 1);
      use->is_busy = false;
    }
    if (to_ns != std::numeric_limits<Nanoseconds>::max()) count(to_ns, ends_.size());
  }

  void count(Nanoseconds until_ns, std::size_t level) {
    if (at_level_ns_.size() <= level) at_level_ns_.resize(level + 1, 0);
    at_level_ns_[level] += until_ns - now_ns_;
    now_ns_ = until_ns;
  }

  using Entry = std::tuple<Nanoseconds, StreamKey, StreamUse*>;
  struct Later {
    bool operator()(const Entry& a, const Entry& b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) > std::tie(std::get<0>(b), std::get<1>(b));
    }
  };
  bool started_ = false;
  Nanoseconds now_ns_ = 0;
  std::priority_queue<Entry, std::vector<Entry>, Later> ends_;
  std::vector<Nanoseconds> at_level_ns_{0};
};

/// Sums of time by span of time, of pieces that come by start.
class TimeSpans {
 public:
  TimeSpans(Nanoseconds begin_ns, Nanoseconds span_ns, std::size_t spans)
      : next_ns_(begin_ns + span_ns), span_ns_(span_ns), sums_(spans, 0) {}

  void add(Interval piece) {
    for (; piece.start_ns >= next_ns_; next_ns_ += span_ns_) ++current_;
    Nanoseconds until_ns = next_ns_;
    for (std::size_t span = current_; piece.start_ns < piece.end_ns; ++span, until_ns += span_ns_) {
      const Nanoseconds end_ns = std::min(piece.end_ns, until_ns);
      sums_[span] += end_ns - piece.start_ns;
      piece.start_ns = end_ns;
    }
  }
  Nanoseconds operator[](std::size_t span) const { return sums_[span]; }

 private:
  std::size_t current_ = 0;
  Nanoseconds next_ns_, span_ns_;  ///< end of the current span; length of each
  std::vector<Nanoseconds> sums_;
};

}  // namespace

std::vector<Table> stream_tables(const RankEvents& events) {
  RunMap<StreamKey, StreamUse> streams;
  ConcurrencyCounter concurrency;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    const StreamKey key(activity.context_id, activity.stream_id);
    StreamUse& use = streams[key];
    if (use.kernels + use.memory_operations + use.graph_launches == 0) use.first_ns = activity.start_ns;
    concurrency.add(key, use, activity);
    ++(activity.kind == ActivityKind::kernel             ? use.kernels
       : activity.kind == ActivityKind::memory_operation ? use.memory_operations
                                                         : use.graph_launches);
    const bool is_kernel = activity.kind == ActivityKind::kernel;
    if (is_kernel && events.is_communication(events.device.kernels[activity.index])) ++use.communication;
  });
  std::vector<Table> tables;
  tables.push_back(make_table(schema::streams));
  RowWriter stream_row(tables.back());
  for (const auto& [key, use] : streams.all()) {
    stream_row << std::int64_t{key.first} << std::int64_t{key.second} << use.kernels << use.communication
               << use.memory_operations << use.graph_launches << use.first_ns << use.last_ns << use.busy_ns;
  }
  tables.push_back(make_table(schema::stream_concurrency));
  RowWriter level_row(tables.back());
  const std::vector<Nanoseconds>& at_level_ns = concurrency.finish();
  for (std::size_t level = 0; level < at_level_ns.size(); ++level)
    level_row << static_cast<std::int64_t>(level) << at_level_ns[level];
  return tables;
}

std::vector<Table> communication_overlap_tables(const RankEvents& events, bool with_trace) {
  struct Overlap {
    std::int64_t count = 0;
    Nanoseconds total_ns = 0, overlapped_ns = 0;
  };
  std::vector<Interval> intervals;
  std::vector<std::uint32_t> kinds;
  for (const Kernel& kernel : events.device.kernels) {
    if (!events.is_communication(kernel)) continue;
    intervals.push_back({kernel.start_ns, kernel.end_ns});
    kinds.push_back(kernel.kind);
  }
  const std::vector<Nanoseconds> overlapped_ns = compute_within(events, intervals);
  Table trace = make_table(schema::communication_overlap_trace);
  RowWriter trace_row(trace);
  std::map<std::string_view, Overlap> by_name;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const KernelKind& kind = events.device.kernel_kinds[kinds[i]];
    const std::string_view name = events.trace.strings[kind.short_name];
    const Nanoseconds duration_ns = intervals[i].end_ns - intervals[i].start_ns;
    Overlap& overlap = by_name[name];
    ++overlap.count;
    overlap.total_ns += duration_ns;
    overlap.overlapped_ns += overlapped_ns[i];
    if (with_trace)
      trace_row << name << intervals[i].start_ns << duration_ns << std::int64_t{kind.stream_id} << overlapped_ns[i];
  }
  std::vector<std::pair<std::string_view, Overlap>> order(by_name.begin(), by_name.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.total_ns > b.second.total_ns; });
  Table table = make_table(schema::communication_overlap);
  RowWriter row(table);
  for (const auto& [name, overlap] : order) {
    const auto total_ns = static_cast<double>(overlap.total_ns);
    row << name << overlap.count << overlap.total_ns << overlap.overlapped_ns
        << (total_ns > 0 ? 100 * static_cast<double>(overlap.overlapped_ns) / total_ns : 0.0);
  }
  std::vector<Table> tables;
  tables.push_back(std::move(table));
  if (with_trace) tables.push_back(std::move(trace));
  return tables;
}

Table utilisation_table(const RankEvents& events) {
  Table table = make_table(schema::gpu_utilisation);
  const Interval window = gpu_window(events.device);
  const Nanoseconds window_ns = window.end_ns - window.start_ns;
  if (window_ns <= 0) return table;
  const Nanoseconds span_ns = (window_ns + stream_time_spans - 1) / stream_time_spans;
  const auto spans = static_cast<std::size_t>((window_ns + span_ns - 1) / span_ns);
  std::vector<TimeSpans> parts(gpu_part_count, TimeSpans(window.start_ns, span_ns, spans));
  const auto add = [&](GpuPart part, const Interval& interval) { parts[static_cast<std::size_t>(part)].add(interval); };
  for_each_gpu_part(events.device, events.communication_kinds, add, events.holes);
  TimeSpans activity_ns(window.start_ns, span_ns, spans);
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    activity_ns.add({activity.start_ns, activity.end_ns});
  });
  const auto of = [&](GpuPart part, std::size_t span) { return parts[static_cast<std::size_t>(part)][span]; };
  RowWriter row(table);
  for (std::size_t s = 0; s < spans; ++s) {
    const Nanoseconds start_ns = window.start_ns + static_cast<Nanoseconds>(s) * span_ns;
    row << start_ns << std::min(span_ns, window.end_ns - start_ns) << of(GpuPart::compute, s)
        << of(GpuPart::communication, s) << of(GpuPart::copy, s) << of(GpuPart::opaque_graph, s) << of(GpuPart::idle, s)
        << activity_ns[s];
  }
  return table;
}

Table cuda_graphs_table(const RankEvents& events) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::int64_t>> durations;
  for (const GraphLaunch& launch : events.device.graph_launches)
    durations[{launch.graph_id, launch.graph_exec_id}].push_back(launch.end_ns - launch.start_ns);
  TableSchema schema{"cuda_graphs", "CUDA graphs recorded as one interval: what runs inside is invisible", {}};
  schema.columns = {{"graph", ColumnKind::integer, "", "id of the graph"},
                    {"executable", ColumnKind::integer, "", "id of its executable form"}};
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  Table table = make_table(std::move(schema));
  RowWriter row(table);
  for (auto& [graph, values] : durations) {
    row << std::int64_t{graph.first} << std::int64_t{graph.second};
    write_statistics(row, summarise(values));
  }
  return table;
}

namespace {

SharedGpu tell_shared_gpu(std::int32_t device_id, const std::vector<const DeviceTrace*>& of_processes) {
  std::vector<Interval> busy;  // in which kernels without a length are not
  Nanoseconds first_ns = std::numeric_limits<Nanoseconds>::max(), last_ns = std::numeric_limits<Nanoseconds>::min();
  CompactValues durations;
  for (const DeviceTrace* device : of_processes) {
    for (const Kernel& kernel : device->kernels) {
      first_ns = std::min(first_ns, kernel.start_ns);
      last_ns = std::max(last_ns, kernel.end_ns);
      busy.push_back({kernel.start_ns, kernel.end_ns});
      durations.push_back(kernel.end_ns - kernel.start_ns);
    }
  }
  busy = merge_intervals(std::move(busy));
  const Nanoseconds window_ns = last_ns - first_ns;
  Nanoseconds busy_ns = 0, longest_gap_ns = 0;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    busy_ns += busy[i].end_ns - busy[i].start_ns;
    if (i > 0) longest_gap_ns = std::max(longest_gap_ns, busy[i].start_ns - busy[i - 1].end_ns);
  }
  const Statistics s = durations.summarise();
  SharedGpu gpu{device_id, shared_gpus_table()};
  RowWriter row(gpu.table);
  row << std::int64_t{device_id} << static_cast<std::int64_t>(of_processes.size()) << s.count << window_ns
      << (window_ns > 0 ? static_cast<double>(s.count) * 1e9 / static_cast<double>(window_ns) : 0.0) << s.median
      << s.p90 << s.p99 << busy_ns << window_ns - busy_ns << percent(window_ns - busy_ns, window_ns) << longest_gap_ns;
  return gpu;
}

}  // namespace

Table shared_gpus_table() {
  return make_table(schema::shared_gpus);
}

std::vector<SharedGpu> shared_gpus(const Trace& trace) {
  std::map<std::int32_t, std::vector<const DeviceTrace*>> processes;
  for (const ProcessTrace& process : trace.processes) {
    for (const DeviceTrace& device : process.devices)
      if (!device.kernels.empty()) processes[device.device_id].push_back(&device);
  }
  std::vector<SharedGpu> gpus;
  for (const auto& [device_id, devices] : processes)
    if (devices.size() > 1) gpus.push_back(tell_shared_gpu(device_id, devices));
  return gpus;
}

}  // namespace nsys_explain::analysis
