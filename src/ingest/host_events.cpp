#include "ingest/event_readers.hpp"

#include <algorithm>

namespace nsys_explain::ingest {
namespace {

constexpr std::int64_t no_id = 0xFFFFFFFF;  ///< how CUPTI writes "none"

std::uint32_t id_or_zero(std::int64_t value) {
  return value == no_time || value == no_id ? 0 : static_cast<std::uint32_t>(value);
}

bool is_profilers(OverheadKind kind) {
  switch (kind) {
    case OverheadKind::jit_compilation:
    case OverheadKind::module_loading:
    case OverheadKind::lazy_function_loading:
    case OverheadKind::command_buffer_full:
      return false;
    default:
      return true;
  }
}

void read_synchronizations(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_pid = scan.integer("globalPid", Presence::required);
  const auto kind = scan.integer("syncType");
  const auto context_id = scan.integer("contextId");
  const auto stream_id = scan.integer("streamId");
  const auto correlation_id = scan.integer("correlationId");
  const auto event_id = scan.integer("eventId");
  const auto event_sync_id = scan.integer("eventSyncId");
  for_each_event(reading, table, scan, global_pid, start, end,
                 [&](ProcessTrace& process, const Interval& time, std::size_t row) {
                   Synchronization sync{time.start_ns, time.end_ns};
                   sync.correlation_id = value_or<std::uint32_t>(correlation_id[row], 0);
                   sync.context_id = value_or<std::uint32_t>(context_id[row], 0);
                   sync.stream_id = value_or<std::uint32_t>(stream_id[row], no_stream);
                   sync.event_id = id_or_zero(event_id[row]);
                   sync.event_sync_id = id_or_zero(event_sync_id[row]);
                   if (kind[row] >= 0 && kind[row] <= static_cast<int>(SyncKind::context))
                     sync.kind = static_cast<SyncKind>(kind[row]);
                   append_event(process.synchronizations, sync, [&] { return scan.share_read(row); });
                 });
}

void read_event_records(const Reading& reading) {
  TableScan scan(reading.database, "CUPTI_ACTIVITY_KIND_CUDA_EVENT");
  const auto global_pid = scan.integer("globalPid", Presence::required);
  const auto context_id = scan.integer("contextId");
  const auto stream_id = scan.integer("streamId");
  const auto correlation_id = scan.integer("correlationId");
  const auto event_id = scan.integer("eventId");
  const auto event_sync_id = scan.integer("eventSyncId");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      ProcessTrace* process = process_in(reading, global_pid[row]);
      if (process == nullptr) continue;
      append_event(process->event_records,
                   {value_or<std::uint32_t>(correlation_id[row], 0), value_or<std::uint32_t>(context_id[row], 0),
                    value_or<std::uint32_t>(stream_id[row], no_stream), id_or_zero(event_id[row]),
                    id_or_zero(event_sync_id[row])},
                   [&] { return scan.share_read(row); });
    }
  });
}

void read_graph_nodes(const Reading& reading) {
  constexpr const char* table = "CUDA_GRAPH_NODE_EVENTS";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto node_id = scan.integer("graphNodeId", Presence::required);
  const auto original_id = scan.integer("originalGraphNodeId");
  for_each_event(
      reading, table, scan, global_tid, start, start,
      [&](ProcessTrace& process, const Interval& time, std::size_t row) {
        process.graph_nodes.push_back({time.start_ns, value_or<std::uint64_t>(node_id[row], 0),
                                       value_or<std::uint64_t>(original_id[row], 0), thread_id_of(global_tid[row])});
      });
}

void read_memory_events(const Reading& reading) {
  constexpr const char* table = "CUDA_GPU_MEMORY_USAGE_EVENTS";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto global_pid = scan.integer("globalPid", Presence::required);
  const auto device_id = scan.integer("deviceId");
  const auto bytes = scan.integer("bytes", Presence::required);
  const auto memory_kind = scan.integer("memKind");
  const auto operation = scan.integer("memoryOperationType");
  SizeFilter sizes(table);
  for_each_event(reading, table, scan, global_pid, start, start,
                 [&](ProcessTrace& process, const Interval& time, std::size_t row) {
                   append_event(process.memory_events,
                                {time.start_ns, sizes.accept(bytes[row]), value_or<std::int32_t>(device_id[row], 0),
                                 value_or<std::int16_t>(memory_kind[row], -1), operation[row] == 1},
                                [&] { return scan.share_read(row); });
                 });
  sizes.report(reading.warnings);
}

void read_os_calls(const Reading& reading) {
  constexpr std::int64_t tracing_starts = 31, tracing_ends = 32;  // ENUM_NSYS_EVENT_CLASS: no calls
  constexpr const char* table = "OSRT_API";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto name = scan.integer("nameId", Presence::required);
  const auto nesting = scan.integer("nestingLevel");
  const auto event_class = scan.integer("eventClass");
  for_each_event(
      reading, table, scan, global_tid, start, end,
      [&](ProcessTrace& process, const Interval& time, std::size_t row) {
        if (event_class[row] == tracing_starts || event_class[row] == tracing_ends) return;
        append_event(process.os_calls,
                     {time.start_ns, time.end_ns, thread_id_of(global_tid[row]), reading.strings.keep_id(name[row]),
                      nesting[row] > 0},
                     [&] { return scan.share_read(row); });
      },
      program_process_in);
}

void read_overheads(const Reading& reading, const char* table) {
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto name_id = scan.integer("nameId");
  const auto type = scan.integer("overheadType");
  for_each_event(reading, table, scan, global_tid, start, end,
                 [&](ProcessTrace& process, const Interval& time, std::size_t row) {
                   OverheadKind kind = overhead_kind_of_name(reading.strings.value(name_id[row]));
                   if (type[row] > 0 && type[row] <= static_cast<int>(OverheadKind::command_buffer_full))
                     kind = static_cast<OverheadKind>(type[row]);
                   process.overheads.push_back({time.start_ns, time.end_ns, thread_id_of(global_tid[row]),
                                                reading.strings.keep_id(name_id[row]), kind, is_profilers(kind)});
                 });
}

void read_scheduling(const Reading& reading) {
  constexpr const char* table = "SCHED_EVENTS";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto cpu = scan.integer("cpu");
  const auto is_in = scan.integer("isSchedIn", Presence::required);
  const auto state = scan.integer("threadState");
  const auto block = scan.integer("threadBlock");
  for_each_event(reading, table, scan, global_tid, start, start,
                 [&](ProcessTrace& process, const Interval& time, std::size_t row) {
                   append_event(
                       process.scheduling_events,
                       {time.start_ns, thread_id_of(global_tid[row]), value_or<std::int16_t>(cpu[row], -1),
                        value_or<std::int8_t>(state[row], 0), value_or<std::int8_t>(block[row], 0), is_in[row] == 1},
                       [&] { return scan.share_read(row); });
                 });
}

}  // namespace

OverheadKind overhead_kind_of_name(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (has("Buffer flush")) return OverheadKind::buffer_flush;
  if (has("Instrumentation")) return OverheadKind::instrumentation;
  if (has("Resource Management")) return OverheadKind::resource;
  return OverheadKind::undefined;
}

void read_synchronization(const Reading& reading) {
  read_graph_nodes(reading);
  read_synchronizations(reading);
  read_event_records(reading);
  read_memory_events(reading);
}

void read_host_events(const Reading& reading) {
  read_os_calls(reading);
  read_overheads(reading, "PROFILER_OVERHEAD");
  read_overheads(reading, "CUPTI_ACTIVITY_KIND_OVERHEAD");
  read_cpu_samples(reading);
  read_scheduling(reading);
  read_traced_calls(reading);
  read_library_calls(reading);
}

namespace {

/// What a frame tells, best first.
enum class Telling : std::uint8_t { python, function, library, profiler };

struct Frame {
  Telling telling = Telling::profiler;
  std::int64_t depth = std::numeric_limits<std::int64_t>::max();  ///< 0: where the thread was
  std::int64_t symbol = no_time, module = no_time;                ///< ids of strings

  friend bool operator<(const Frame& a, const Frame& b) {
    return std::tie(a.telling, a.depth) < std::tie(b.telling, b.depth);
  }
};

struct Sample {
  std::int64_t id = 0;
  ProcessTrace* process = nullptr;
  CpuSample sample;
  Frame frame;
};

Telling telling_of_module(std::string_view module) {
  if (module.ends_with(".py")) return Telling::python;
  if (module.empty() || module.front() == '[') return Telling::library;  // "[Unknown]", "[kernel.kallsyms]"
  return is_profilers_library(module) ? Telling::profiler : Telling::function;
}

std::vector<Sample> read_samples(const Reading& reading) {
  constexpr const char* table = "COMPOSITE_EVENTS";
  TableScan scan(reading.database, table);
  const auto id = scan.integer("id", Presence::required);
  const auto start = scan.integer("start", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto cpu = scan.integer("cpu");
  std::vector<Sample> samples;
  // Other processes of the system may be sampled, too: they count where nothing else tells which are the program's.
  const bool is_all_there_is = reading.builder.processes().empty();
  for_each_event(
      reading, table, scan, global_tid, start, start,
      [&](ProcessTrace& process, const Interval& time, std::size_t row) {
        const CpuSample sample{time.start_ns, thread_id_of(global_tid[row]), 0, 0,
                               value_or<std::int16_t>(cpu[row], -1)};
        samples.push_back({id[row], &process, sample, {}});
      },
      is_all_there_is ? program_process_in : process_in);
  std::stable_sort(samples.begin(), samples.end(), [](const Sample& a, const Sample& b) { return a.id < b.id; });
  return samples;
}

void read_frames(const Reading& reading, std::vector<Sample>& samples) {
  TableScan scan(reading.database, "SAMPLING_CALLCHAINS");
  const auto id = scan.integer("id", Presence::required);
  const auto symbol = scan.integer("symbol", Presence::required);
  const auto module = scan.integer("module", Presence::required);
  const auto unresolved = scan.integer("unresolved");
  const auto depth = scan.integer("stackDepth", Presence::required);
  std::unordered_map<std::int64_t, Telling> of_module;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto sample = std::lower_bound(samples.begin(), samples.end(), id[row],
                                           [](const Sample& one, std::int64_t wanted) { return one.id < wanted; });
      if (sample == samples.end() || sample->id != id[row]) continue;
      const auto [known, is_new] = of_module.try_emplace(module[row]);
      if (is_new) known->second = telling_of_module(reading.strings.value(module[row]));
      const bool is_named = unresolved[row] == no_time || unresolved[row] == 0;
      const bool is_address = reading.strings.value(symbol[row]).starts_with("0x");
      Frame frame{known->second, value_or<std::int64_t>(depth[row], 0), symbol[row], module[row]};
      if (frame.telling == Telling::function && (!is_named || is_address)) frame.telling = Telling::library;
      sample->frame = std::min(sample->frame, frame);
    }
  });
}

}  // namespace

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

bool is_profilers_library(std::string_view path) {
  const std::string_view file = file_name(path);
  return file.starts_with("libToolsInjection") || file.starts_with("libcupti");
}

void read_cpu_samples(const Reading& reading) {
  std::vector<Sample> samples = read_samples(reading);
  if (samples.empty()) return;
  read_frames(reading, samples);
  for (Sample& one : samples) {
    if (one.frame.telling <= Telling::function) one.sample.function = reading.strings.keep_id(one.frame.symbol);
    one.sample.module = reading.strings.keep(file_name(reading.strings.value(one.frame.module)));
    one.process->cpu_samples.push_back(one.sample);
  }
}

}  // namespace nsys_explain::ingest
