#include "analysis/tables/tables.hpp"

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/host.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds shortest_launcher_gap_ns = 100'000;

bool is_os_wait(std::string_view name) {
  constexpr auto waits = std::to_array<std::string_view>(
      {"poll", "ppoll", "epoll_wait", "select", "pselect", "futex", "pthread_cond_wait", "pthread_cond_timedwait",
       "pthread_cond_clockwait", "pthread_join", "sem_wait", "sem_timedwait", "sem_clockwait", "nanosleep",
       "clock_nanosleep", "usleep", "sleep"});
  return std::find(waits.begin(), waits.end(), name) != waits.end();
}

/// nsys takes a suffix off where it has exactly four digits.
std::string name_in_nsys(std::string_view name, std::uint16_t version) {
  const bool four_digits = version >= 1000 && version <= 9999;
  return version == 0 || four_digits ? std::string(name) : fmt::format("{}_v{}", name, version);
}

/// Calls of one function.
struct Calls {
  CompactValues durations_ns;
  Nanoseconds in_window_ns = 0;
};

/// Calls by the name that nsys shows.
std::map<std::string, Calls> calls_by_name(const RankEvents& events) {
  const Interval window = gpu_window(events.process);
  std::unordered_map<std::uint64_t, Calls> by_id;
  for (const ApiCall& call : events.process.api_calls) {
    Calls& calls = by_id[std::uint64_t{call.name} << 16 | call.name_version];
    calls.durations_ns.push_back(call.end_ns - call.start_ns);
    calls.in_window_ns += within(window, call.start_ns, call.end_ns);
  }
  std::map<std::string, Calls> by_name;  // every id has a name of its own
  for (auto& [id, calls] : by_id) {
    const std::string_view name = events.trace.strings[static_cast<StringIndex>(id >> 16)];
    by_name[name_in_nsys(name, static_cast<std::uint16_t>(id & 0xFFFF))] = std::move(calls);
  }
  return by_name;
}

using NamedStatistics = std::pair<std::string, Statistics>;

/// Names without a suffix of digits decide what a call is.
std::string_view base_of(std::string_view name) {
  const std::size_t mark = name.rfind("_v");
  if (mark == std::string_view::npos || mark + 2 == name.size()) return name;
  return name.find_first_not_of("0123456789", mark + 2) == std::string_view::npos ? name.substr(0, mark) : name;
}

struct Barrier {
  std::string kind, name;
};

bool operator<(const Barrier& a, const Barrier& b) {
  return std::tie(a.kind, a.name) < std::tie(b.kind, b.name);
}

using Barriers = std::map<Barrier, std::vector<std::int64_t>>;

void add_call_barriers(const RankEvents& events, Barriers& barriers) {
  std::vector<const std::string*> kind_of_name(events.trace.strings.size(), nullptr);
  static const std::string sync = "sync_api", copy = "blocking_memcpy", launch = "launch", none;
  std::set<std::uint32_t> launching_threads;
  std::optional<Nanoseconds> launched_until_ns;
  for (const ApiCall& call : events.process.api_calls) {
    const std::string*& kind = kind_of_name[call.name];
    if (kind == nullptr) {
      const std::string_view name = events.trace.strings[call.name];
      kind = is_sync_call(name) ? &sync : is_blocking_copy_call(name) ? &copy : is_launch_call(name) ? &launch : &none;
    }
    if (kind == &sync || kind == &copy) {
      barriers[{*kind, events.trace.strings[call.name]}].push_back(call.end_ns - call.start_ns);
    } else if (kind == &launch) {
      launching_threads.insert(call.thread_id);
      if (launched_until_ns && call.start_ns - *launched_until_ns >= shortest_launcher_gap_ns)
        barriers[{"launcher_gap", "between launching calls"}].push_back(call.start_ns - *launched_until_ns);
      launched_until_ns = std::max(launched_until_ns.value_or(call.end_ns), call.end_ns);
    }
  }
  // Waiting in the operating system matters on threads that launch; service threads wait all the time.
  for (const OsCall& call : events.process.os_calls) {
    const std::string& name = events.trace.strings[call.name];
    if (call.is_nested || !launching_threads.contains(call.thread_id) || !is_os_wait(name)) continue;
    barriers[{"host_wait", name}].push_back(call.end_ns - call.start_ns);
  }
}

}  // namespace

bool is_sync_call(std::string_view api_name) {
  return contains(api_name, "Synchronize");
}

bool is_launch_call(std::string_view api_name) {
  return contains(api_name, "LaunchKernel") || contains(api_name, "LaunchCooperativeKernel") ||
         contains(api_name, "GraphLaunch");
}

bool is_blocking_copy_call(std::string_view api_name) {
  const bool copies = api_name.starts_with("cudaMemcpy") || api_name.starts_with("cuMemcpy");
  return copies && !contains(api_name, "Async");
}

bool is_allocation_call(std::string_view api_name) {
  constexpr auto exact = std::to_array<std::string_view>(
      {"cudaFree",           "cuMemFree",           "cudaFreeHost",     "cuMemFreeHost",     "cudaFreeAsync",
       "cuMemFreeAsync",     "cudaHostAlloc",       "cuMemHostAlloc",   "cudaHostRegister",  "cuMemHostRegister",
       "cudaHostUnregister", "cuMemHostUnregister", "cuMemCreate",      "cuMemRelease",      "cuMemMap",
       "cuMemUnmap",         "cuMemAddressReserve", "cuMemAddressFree", "cudaMemPoolTrimTo", "cuMemPoolTrimTo",
       "cudaFreeArray",      "cuArrayDestroy"});
  if (std::find(exact.begin(), exact.end(), api_name) != exact.end()) return true;
  for (const std::string_view maker :
       {"cudaMalloc", "cuMemAlloc", "cuArrayCreate", "cudaStreamCreate", "cuStreamCreate", "cudaStreamDestroy",
        "cuStreamDestroy", "cudaEventCreate", "cuEventCreate", "cudaEventDestroy", "cuEventDestroy",
        "cudaGraphInstantiate", "cuGraphInstantiate", "cudaGraphExecDestroy", "cuGraphExecDestroy"}) {
    if (api_name.starts_with(maker)) return true;
  }
  return false;
}

std::vector<Table> api_tables(const RankEvents& events) {
  std::vector<Table> tables;
  tables.push_back(make_table(schema::cuda_api));
  tables.push_back(make_table(schema::allocations));
  const ApiCalls& calls = events.process.api_calls;
  if (calls.empty() || !speaks_for_process(events.process, events.device)) return tables;

  Nanoseconds last_ns = calls.front().end_ns, total_ns = 0;
  for (const ApiCall& call : calls) last_ns = std::max(last_ns, call.end_ns);
  const double seconds = static_cast<double>(last_ns - calls.front().start_ns) * 1e-9;
  std::vector<NamedStatistics> rows;
  std::map<std::string, Calls> by_name = calls_by_name(events);
  for (auto& [name, of_name] : by_name) {
    rows.emplace_back(name, of_name.durations_ns.summarise());
    total_ns += rows.back().second.total;
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NamedStatistics& a, const NamedStatistics& b) { return a.second.total > b.second.total; });
  RowWriter api_row(tables[0]), allocation_row(tables[1]);
  for (const auto& [name, s] : rows) {
    api_row << name << (total_ns > 0 ? 100.0 * static_cast<double>(s.total) / static_cast<double>(total_ns) : 0.0);
    write_statistics(api_row, s);
    if (!is_allocation_call(base_of(name))) continue;
    allocation_row << name << s.count << s.total << by_name[name].in_window_ns << s.max
                   << (seconds > 0 ? static_cast<double>(s.count) / seconds : 0.0);
  }
  return tables;
}

std::set<std::uint32_t> launching_threads(const RankEvents& events) {
  std::set<std::uint32_t> threads;
  for (const ApiCall& call : events.process.api_calls)
    if (is_launch_call(events.trace.strings[call.name])) threads.insert(call.thread_id);
  return threads;
}

Table barriers_table(const RankEvents& events) {
  Table table = make_table(schema::barriers);
  if (!speaks_for_process(events.process, events.device)) return table;
  Barriers barriers;
  add_call_barriers(events, barriers);
  std::vector<std::pair<Barrier, Statistics>> rows;
  for (auto& [barrier, durations] : barriers) rows.emplace_back(barrier, summarise(durations));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
  RowWriter row(table);
  for (const auto& [barrier, s] : rows) row << barrier.kind << barrier.name << s.count << s.total << s.mean << s.max;
  return table;
}

namespace {

using CallNames = std::pair<std::string_view, std::string_view>;
using CallSummary = std::pair<CallNames, Statistics>;

/// Most time first.
std::vector<CallSummary> summarised_calls(std::map<CallNames, std::vector<std::int64_t>>& durations) {
  std::vector<CallSummary> rows;
  for (auto& [names, of_names] : durations) rows.emplace_back(names, summarise(of_names));
  std::stable_sort(rows.begin(), rows.end(),
                   [](const CallSummary& a, const CallSummary& b) { return a.second.total > b.second.total; });
  return rows;
}

}  // namespace

Table call_stacks_table(const RankEvents& events) {
  constexpr std::size_t stacks_kept = 50;
  Table table = make_table(schema::call_stacks);
  if (!speaks_for_process(events.process, events.device)) return table;
  const std::vector<std::string>& strings = events.trace.strings;
  std::map<CallNames, std::vector<std::int64_t>> durations;
  for (const TracedCall& call : events.process.traced_calls)
    durations[{strings[call.name], strings[call.stack]}].push_back(call.end_ns - call.start_ns);
  std::vector<CallSummary> rows = summarised_calls(durations);
  rows.resize(std::min(rows.size(), stacks_kept));
  RowWriter row(table);
  for (const auto& [names, s] : rows) row << names.first << names.second << s.count << s.total << s.max;
  return table;
}

Table library_calls_table(const RankEvents& events) {
  Table table = make_table(schema::library_calls);
  if (!speaks_for_process(events.process, events.device)) return table;
  std::map<CallNames, std::vector<std::int64_t>> durations;
  for (const LibraryCall& call : events.process.library_calls)
    durations[{call.is_cudnn ? "cuDNN" : "cuBLAS", events.trace.strings[call.name]}].push_back(call.end_ns -
                                                                                               call.start_ns);
  RowWriter row(table);
  for (const auto& [names, s] : summarised_calls(durations)) {
    row << names.first << names.second;
    write_statistics(row, s);
  }
  return table;
}

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
    for (const auto& [state, duration_ns] : times.by_state)
      row << std::int64_t{thread} << state << duration_ns << times.switches << times.migrations;
  }
  return table;
}

}  // namespace nsys_explain::analysis
