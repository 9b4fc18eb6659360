#include "analysis/tables/tables.hpp"

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/gpu_activity.hpp"
#include "model/schema/host.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr auto overhead_kinds =
    std::to_array<std::string_view>({"undefined", "unknown", "jit_compilation", "buffer_flush", "instrumentation",
                                     "resource", "module_loading", "lazy_function_loading", "command_buffer_full"});

constexpr auto thread_state_names =
    std::to_array<std::string_view>({"unknown", "running", "interruptible", "uninterruptible", "stopped", "terminated",
                                     "unscheduled", "waiting", "os_runtime", "initialized", "transition"});

std::string_view thread_state_name(std::int8_t state) {
  if (state < 0) return thread_state_names[0];
  const std::size_t index = static_cast<std::uint8_t>(state);
  return index < thread_state_names.size() ? thread_state_names[index] : thread_state_names[0];
}

struct ThreadTimes {
  const SchedulingEvent* last = nullptr;
  std::int16_t last_cpu = -1;
  std::int64_t switches = 0, migrations = 0;
  std::map<std::string_view, Nanoseconds> by_state;
};

}  // namespace

Table os_runtime_table(const RankEvents& events) {
  Table table = make_table(schema::os_runtime);
  if (!speaks_for_process(events.process, events.device)) return table;
  struct Calls {
    std::vector<std::int64_t> durations;
    Nanoseconds outermost_ns = 0;
  };
  std::map<std::string_view, Calls> calls;
  for (const OsCall& call : events.process.os_calls) {
    Calls& of_name = calls[events.trace.strings[call.name]];
    of_name.durations.push_back(call.end_ns - call.start_ns);
    if (!call.is_nested) of_name.outermost_ns += call.end_ns - call.start_ns;
  }
  std::vector<std::pair<std::string_view, Statistics>> rows;
  Nanoseconds total_ns = 0;
  for (auto& [name, of_name] : calls) {
    rows.emplace_back(name, summarise(of_name.durations));
    total_ns += rows.back().second.total;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
  RowWriter row(table);
  for (const auto& [name, s] : rows) {
    row << name << (total_ns > 0 ? 100.0 * static_cast<double>(s.total) / static_cast<double>(total_ns) : 0.0)
        << calls[name].outermost_ns;
    write_statistics(row, s);
  }
  return table;
}

Table overhead_table(const RankEvents& events) {
  Table table = make_table(schema::profiler_overhead);
  if (!speaks_for_process(events.process, events.device)) return table;
  using Key = std::tuple<bool, std::string_view, std::string_view>;
  std::map<Key, std::map<std::uint32_t, std::vector<Interval>>> found;
  for (const Overhead& o : events.process.overheads) {
    const Key key(!o.is_profiler, overhead_kinds[static_cast<std::size_t>(o.kind)], events.trace.strings[o.name]);
    found[key][o.thread_id].push_back({o.start_ns, o.end_ns});
  }
  const Interval window = gpu_window(events.process);
  RowWriter row(table);
  for (auto& [key, threads] : found) {
    std::int64_t count = 0;
    Nanoseconds total_ns = 0, union_ns = 0, in_window_ns = 0, max_ns = 0;
    for (auto& [thread, intervals] : threads) {
      for (const Interval& interval : intervals) {
        ++count;
        total_ns += interval.end_ns - interval.start_ns;
        max_ns = std::max(max_ns, interval.end_ns - interval.start_ns);
      }
      for (const Interval& merged : merge_intervals(std::move(intervals))) {
        union_ns += merged.end_ns - merged.start_ns;
        in_window_ns += within(window, merged.start_ns, merged.end_ns);
      }
    }
    row << !std::get<0>(key) << std::get<1>(key) << std::get<2>(key) << count << total_ns << union_ns << in_window_ns
        << max_ns;
  }
  return table;
}

Table thread_states_table(const RankEvents& events) {
  Table table = make_table(schema::thread_states);
  if (!speaks_for_process(events.process, events.device)) return table;
  std::map<std::uint32_t, ThreadTimes> threads;
  for (const SchedulingEvent& event : events.process.scheduling_events) {
    ThreadTimes& times = threads[event.thread_id];
    if (times.last != nullptr) {
      const std::string_view state = times.last->on_cpu ? "on_cpu" : thread_state_name(times.last->thread_state);
      times.by_state[state] += event.time_ns - times.last->time_ns;
    }
    if (event.on_cpu) {
      ++times.switches;
      if (times.last_cpu >= 0 && event.cpu != times.last_cpu) ++times.migrations;
      times.last_cpu = event.cpu;
    }
    times.last = &event;
  }
  RowWriter row(table);
  for (const auto& [thread, times] : threads) {
    for (const auto& [state, duration_ns] : times.by_state) {
      row << std::int64_t{thread} << state << duration_ns << times.switches << times.migrations;
    }
  }
  return table;
}

}  // namespace nsys_explain::analysis
