#include "ingest/event_readers.hpp"

#include <bit>
#include <bitset>

#include <fmt/format.h>

#include "model/hash.hpp"
#include "model/text.hpp"

namespace nsys_explain::ingest {
namespace {

/// CUDA's status codes; what does not fit is still no success.
std::int16_t status_of(std::int64_t return_value) {
  if (return_value == no_time) return 0;
  return std::in_range<std::int16_t>(return_value) ? static_cast<std::int16_t>(return_value) : std::int16_t{-1};
}

/// The columns that place any GPU activity: when, where, launched by what.
struct ActivityColumns {
  explicit ActivityColumns(TableScan& scan)
      : start(scan.integer("start", Presence::required)),
        end(scan.integer("end", Presence::required)),
        device_id(scan.integer("deviceId", Presence::required)),
        global_pid(scan.integer("globalPid")),
        context_id(scan.integer("contextId")),
        stream_id(scan.integer("streamId")),
        correlation_id(scan.integer("correlationId")) {}

  /// Rows that other tools copied may not tell a process: one that is alone is meant.
  bool tells_process(const TraceBuilder& builder, std::size_t row) const {
    return global_pid[row] != no_time || builder.processes().size() <= 1;
  }
  DeviceTrace& device(TraceBuilder& builder, std::size_t row) const {
    const bool is_alone = global_pid[row] == no_time && builder.processes().size() == 1;
    const std::uint64_t process =
        is_alone ? builder.processes().begin()->first : process_of(value_or<std::int64_t>(global_pid[row], 0));
    return builder.device(process, value_or<std::int32_t>(device_id[row], 0));
  }
  template <class Event>
  void place(Event& event, const Interval& time, std::size_t row) const {
    event.start_ns = time.start_ns;
    event.end_ns = time.end_ns;
    event.stream_id = value_or<std::uint32_t>(stream_id[row], 0);
    event.correlation_id = value_or<std::uint32_t>(correlation_id[row], 0);
  }

  IntegerColumn start, end, device_id, global_pid, context_id, stream_id, correlation_id;
};

/// Scans one table of GPU activity: `use(time, row)` for each row whose time can be believed.
template <class Use>
void scan_activity(const Reading& reading, TableScan& scan, const ActivityColumns& columns, const char* table,
                   const Use& use) {
  TimeFilter filter(reading.time_base, table);
  scan.happens_between_start_and_end(reading.time_base.shift_ns);
  std::int64_t of_nobody = 0;
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (!columns.tells_process(reading.builder, row)) {
        ++of_nobody;
      } else if (const auto time = filter.accept(columns.start[row], columns.end[row])) {
        use(*time, row);
      }
    }
  });
  filter.report(reading.warnings);
  if (of_nobody > 0)
    reading.warnings.push_back(
        {Severity::data_loss, WarningSource::trace, of_nobody,
         fmt::format(
             "rows of {} do not tell their process, and the trace has several: they are left out; export the report itself with nsys export",
             table)});
}

/// Hash of the bytes of a kind, word by word: it has no padding.
struct KernelKindHash {
  std::size_t operator()(const KernelKind& kind) const {
    static_assert(std::has_unique_object_representations_v<KernelKind>);
    const auto words = std::bit_cast<std::array<std::uint64_t, sizeof(KernelKind) / sizeof(std::uint64_t)>>(kind);
    std::uint64_t hash = 0;
    for (const std::uint64_t word : words) hash = std::rotl((hash ^ word) * golden_ratio, 29);
    return hash;
  }
};

/// Numbers the kernel kinds of each device.
class KernelKinds {
 public:
  std::uint32_t number_of(const KernelKind& kind, DeviceTrace& device) {
    if (device_ != &device) {
      device_ = &device;
      numbers_ = &of_device_[&device];
    }
    const auto [place, is_new] = numbers_->try_emplace(kind, static_cast<std::uint32_t>(device.kernel_kinds.size()));
    if (is_new) device.kernel_kinds.push_back(kind);
    return place->second;
  }

 private:
  using Numbers = std::unordered_map<KernelKind, std::uint32_t, KernelKindHash>;
  std::unordered_map<DeviceTrace*, Numbers> of_device_;
  DeviceTrace* device_ = nullptr;  // rows of one device come in long runs
  Numbers* numbers_ = nullptr;
};

/// "gemm" of "void ns::gemm<float>(int)": what nsys' short names are.
std::string_view function_of(std::string_view demangled) {
  std::string_view name = demangled.substr(0, demangled.find_first_of("<("));
  if (const std::size_t space = name.rfind(' '); space != std::string_view::npos) name.remove_prefix(space + 1);
  if (const std::size_t colons = name.rfind("::"); colons != std::string_view::npos) name.remove_prefix(colons + 2);
  return name.empty() ? demangled : name;
}

/// The columns that make up a kernel's kind.
class KindColumns {
 public:
  KindColumns(TableScan& scan, const ActivityColumns& activity)
      : columns_{activity.stream_id,
                 activity.context_id,
                 scan.integer("graphNodeId"),
                 scan.integer("shortName"),
                 scan.integer("demangledName", Presence::required),
                 scan.integer("mangledName"),
                 scan.integer("gridX"),
                 scan.integer("gridY"),
                 scan.integer("gridZ"),
                 scan.integer("blockX"),
                 scan.integer("blockY"),
                 scan.integer("blockZ"),
                 scan.integer("registersPerThread"),
                 scan.integer("staticSharedMemory"),
                 scan.integer("dynamicSharedMemory")} {}

  /// Number of the kind of a row.
  std::uint32_t number(std::size_t row, DeviceTrace& device, StringTable& strings) {
    std::uint64_t hash = 0, multiplier = golden_ratio;
    for (const std::size_t telling : {stream, graph_node, demangled_name, grid_x}) {
      hash += static_cast<std::uint64_t>(columns_[telling][row]) * multiplier;
      multiplier += 0xD1B54A32D192ED04ULL;
    }
    Seen& seen = seen_[hash >> 54];
    bool is_same = seen.device == &device;
    for (std::size_t c = 0; c < columns_.size(); ++c) is_same &= seen.values[c] == columns_[c][row];
    if (is_same) return seen.number;
    const std::int64_t unknown_ids = strings.unknown_ids();
    const std::uint32_t number = kinds_.number_of(kind(row, strings), device);
    if (strings.unknown_ids() != unknown_ids) return number;  // each row with an unknown id counts
    seen.device = &device;
    seen.number = number;
    for (std::size_t c = 0; c < columns_.size(); ++c) seen.values[c] = columns_[c][row];
    return number;
  }

 private:
  enum Place : std::size_t {
    stream,
    context,
    graph_node,
    short_name,
    demangled_name,
    mangled_name,
    grid_x,
    grid_y,
    grid_z,
    block_x,
    block_y,
    block_z,
    registers,
    static_shared,
    dynamic_shared,
    place_count
  };
  /// A row as it is in the file, and its number: most rows are like one that came shortly before.
  struct Seen {
    DeviceTrace* device = nullptr;
    std::uint32_t number = 0;
    std::array<std::int64_t, place_count> values{};
  };

  KernelKind kind(std::size_t row, StringTable& strings) const {
    const auto size = [&](Place place) { return value_or<std::int32_t>(columns_[place][row], 0); };
    KernelKind kind;
    kind.stream_id = value_or<std::uint32_t>(columns_[stream][row], 0);
    kind.context_id = value_or<std::uint32_t>(columns_[context][row], 0);
    kind.graph_node_id = value_or<std::uint64_t>(columns_[graph_node][row], 0);
    kind.short_name = columns_[short_name][row] != no_time
                          ? strings.keep_id(columns_[short_name][row])
                          : strings.keep(function_of(strings.value(columns_[demangled_name][row])));
    kind.demangled_name = strings.keep_id(columns_[demangled_name][row]);
    kind.mangled_name = strings.keep_id(columns_[mangled_name][row]);
    kind.grid_x = size(grid_x);
    kind.grid_y = size(grid_y);
    kind.grid_z = size(grid_z);
    kind.block_x = size(block_x);
    kind.block_y = size(block_y);
    kind.block_z = size(block_z);
    kind.registers_per_thread = size(registers);
    kind.static_shared_bytes = size(static_shared);
    kind.dynamic_shared_bytes = size(dynamic_shared);
    return kind;
  }

  std::array<IntegerColumn, place_count> columns_;
  std::vector<Seen> seen_ = std::vector<Seen>(1024);
  KernelKinds kinds_;
};

void read_kernels(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_KERNEL";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  KindColumns kinds(scan, activity);
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    DeviceTrace& device = activity.device(reading.builder, row);
    append_event(device.kernels,
                 Kernel{time.start_ns, time.end_ns, value_or<std::uint32_t>(activity.correlation_id[row], 0),
                        kinds.number(row, device, reading.strings)},
                 [&] { return scan.share_read(row); });
  });
}

void read_copies(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_MEMCPY";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  const auto bytes = scan.integer("bytes", Presence::required);
  const auto copy_kind = scan.integer("copyKind");
  const auto source_kind = scan.integer("srcKind");
  const auto destination_kind = scan.integer("dstKind");
  SizeFilter sizes(table);
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    MemoryOperation copy;
    activity.place(copy, time, row);
    copy.context_id = value_or<std::uint32_t>(activity.context_id[row], 0);
    copy.bytes = sizes.accept(bytes[row]);
    copy.copy_kind = value_or<std::int16_t>(copy_kind[row], -1);
    copy.source_kind = value_or<std::int16_t>(source_kind[row], -1);
    copy.destination_kind = value_or<std::int16_t>(destination_kind[row], -1);
    activity.device(reading.builder, row).memory_operations.push_back(copy);
  });
  sizes.report(reading.warnings);
}

void read_sets(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_MEMSET";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  const auto bytes = scan.integer("bytes", Presence::required);
  const auto memory_kind = scan.integer("memKind");
  SizeFilter sizes(table);
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    MemoryOperation set;
    activity.place(set, time, row);
    set.context_id = value_or<std::uint32_t>(activity.context_id[row], 0);
    set.bytes = sizes.accept(bytes[row]);
    set.destination_kind = value_or<std::int16_t>(memory_kind[row], -1);
    set.is_set = true;
    activity.device(reading.builder, row).memory_operations.push_back(set);
  });
  sizes.report(reading.warnings);
}

void read_graph_launches(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  const auto graph_id = scan.integer("graphId");
  const auto graph_exec_id = scan.integer("graphExecId");
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    GraphLaunch launch;
    activity.place(launch, time, row);
    launch.graph_id = value_or<std::uint32_t>(graph_id[row], 0);
    launch.graph_exec_id = value_or<std::uint32_t>(graph_exec_id[row], 0);
    activity.device(reading.builder, row).graph_launches.push_back(launch);
  });
}

/// A set of 32-bit numbers that cluster, as correlation ids do: memory only for blocks of 65536 that occur.
class CorrelationSet {
 public:
  void insert(std::uint32_t id) {
    auto& block = blocks_[id >> 16];
    if (!block) block = std::make_unique<Block>();
    block->set(id & 0xFFFF);
  }
  bool contains(std::uint32_t id) const {
    const auto& block = blocks_[id >> 16];
    return block && block->test(id & 0xFFFF);
  }

 private:
  using Block = std::bitset<65536>;
  std::vector<std::unique_ptr<Block>> blocks_ = std::vector<std::unique_ptr<Block>>(65536);
};

}  // namespace

std::string_view without_version_suffix(std::string_view api_name) {
  const std::size_t mark = api_name.rfind("_v");
  if (mark == std::string_view::npos || mark + 2 == api_name.size()) return api_name;
  const bool only_digits = api_name.find_first_not_of("0123456789", mark + 2) == std::string_view::npos;
  return only_digits ? api_name.substr(0, mark) : api_name;
}

std::uint16_t version_suffix(std::string_view api_name) {
  const std::string_view base = without_version_suffix(api_name);
  if (base.size() == api_name.size()) return 0;
  return integer_of<std::uint16_t>(api_name.substr(base.size() + 2)).value_or(std::uint16_t{0});
}

void read_gpu_activity(const Reading& reading) {
  read_kernels(reading);
  read_copies(reading);
  read_sets(reading);
  read_graph_launches(reading);
}

void read_api_calls(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_RUNTIME";
  TableScan scan(reading.database, table);
  const auto start = scan.integer("start", Presence::required);
  const auto end = scan.integer("end", Presence::required);
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto name_id = scan.integer("nameId", Presence::required);
  const auto correlation_id = scan.integer("correlationId");
  const auto return_value = scan.integer("returnValue");
  struct Name {
    StringIndex text = 0;
    std::uint16_t version = 0;
  };
  std::unordered_map<std::int64_t, Name> names;  // few hundred distinct functions
  TimeFilter filter(reading.time_base, table);
  scan.happens_between_start_and_end(reading.time_base.shift_ns);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto time = filter.accept(start[row], end[row]);
      if (!time) continue;
      const auto [name, is_new] = names.try_emplace(name_id[row]);
      if (is_new) {
        const std::string_view full = reading.strings.value(name_id[row]);
        name->second = {reading.strings.keep(without_version_suffix(full)), version_suffix(full)};
      }
      const std::int64_t tid = value_or<std::int64_t>(global_tid[row], 0);
      const ApiCall call{time->start_ns,      time->end_ns,
                         thread_id_of(tid),   value_or<std::uint32_t>(correlation_id[row], 0),
                         name->second.text,   status_of(return_value[row]),
                         name->second.version};
      append_event(reading.builder.process(process_of(tid)).api_calls, call, [&] { return scan.share_read(row); });
    }
  });
  filter.report(reading.warnings);
}

std::int64_t count_kernels_without_call(const std::vector<ProcessTrace>& processes) {
  std::int64_t without_call = 0;
  for (const ProcessTrace& process : processes) {
    CorrelationSet calls;
    for (const ApiCall& call : process.api_calls) calls.insert(call.correlation_id);
    for (const DeviceTrace& device : process.devices) {
      for (const Kernel& kernel : device.kernels)
        if (kernel.correlation_id == 0 || !calls.contains(kernel.correlation_id)) ++without_call;
    }
  }
  return without_call;
}

}  // namespace nsys_explain::ingest
