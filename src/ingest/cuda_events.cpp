#include "nsys_explain/ingest/cuda_events.hpp"

#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <map>
#include <memory>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "column_value.hpp"
#include "nsys_explain/ingest/table_scan.hpp"

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
        global_pid(scan.integer("globalPid", Presence::required)),
        context_id(scan.integer("contextId")),
        stream_id(scan.integer("streamId")),
        correlation_id(scan.integer("correlationId")) {}

  DeviceTrace& device(TraceBuilder& builder, std::size_t row) const {
    return builder.device(process_of(value_or<std::int64_t>(global_pid[row], 0)),
                          value_or<std::int32_t>(device_id[row], 0));
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
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (const auto time = filter.accept(columns.start[row], columns.end[row])) use(*time, row);
    }
  });
  filter.report(reading.warnings);
}

/// Hash of the bytes of a kind, which has no padding. Its words are multiplied apart from each other, each by its own
/// odd number, since every kernel asks for one.
std::uint64_t hash_of(const KernelKind& kind) {
  static_assert(std::has_unique_object_representations_v<KernelKind>);
  const auto words = std::bit_cast<std::array<std::uint64_t, sizeof(KernelKind) / sizeof(std::uint64_t)>>(kind);
  std::uint64_t hash = 0, multiplier = 0x9E3779B97F4A7C15ULL;
  for (const std::uint64_t word : words) {
    hash += (word ^ word >> 32) * multiplier;
    multiplier += 0xD1B54A32D192ED04ULL;
  }
  return hash ^ hash >> 29;
}

/// Numbers the kernel kinds of each device.
class KernelKinds {
 public:
  std::uint32_t number_of(const KernelKind& kind, DeviceTrace& device) {
    if (device_ != &device) {
      device_ = &device;
      slots_ = &of_device_.try_emplace(&device, 256, 0).first->second;
    }
    std::uint32_t& slot = (*slots_)[slot_of(kind)];
    if (slot != 0) return slot - 1;
    const auto number = static_cast<std::uint32_t>(device.kernel_kinds.size());
    device.kernel_kinds.push_back(kind);
    slot = number + 1;
    if (2 * device.kernel_kinds.size() > slots_->size()) grow();
    return number;
  }

 private:
  using Slots = std::vector<std::uint32_t>;  ///< number + 1; 0: free; a power of two

  /// The kind's, or the free one where it belongs.
  std::size_t slot_of(const KernelKind& kind) const {
    const std::size_t mask = slots_->size() - 1;
    std::size_t place = hash_of(kind) >> 20 & mask;
    while ((*slots_)[place] != 0 && !(device_->kernel_kinds[(*slots_)[place] - 1] == kind)) place = (place + 1) & mask;
    return place;
  }
  void grow() {
    slots_->assign(2 * slots_->size(), 0);
    for (std::uint32_t k = 0; k < device_->kernel_kinds.size(); ++k) {
      (*slots_)[slot_of(device_->kernel_kinds[k])] = k + 1;
    }
  }

  std::map<DeviceTrace*, Slots> of_device_;
  DeviceTrace* device_ = nullptr;  // rows of one device come in long runs
  Slots* slots_ = nullptr;
};

void read_kernels(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_KERNEL";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  const auto short_name = scan.integer("shortName", Presence::required);
  const auto demangled_name = scan.integer("demangledName", Presence::required);
  const auto mangled_name = scan.integer("mangledName");
  const auto graph_node_id = scan.integer("graphNodeId");
  const auto grid_x = scan.integer("gridX"), grid_y = scan.integer("gridY"), grid_z = scan.integer("gridZ");
  const auto block_x = scan.integer("blockX"), block_y = scan.integer("blockY"), block_z = scan.integer("blockZ");
  const auto registers = scan.integer("registersPerThread");
  const auto static_shared = scan.integer("staticSharedMemory");
  const auto dynamic_shared = scan.integer("dynamicSharedMemory");
  KernelKinds kinds;
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    KernelKind kind;
    kind.stream_id = value_or<std::uint32_t>(activity.stream_id[row], 0);
    kind.context_id = value_or<std::uint32_t>(activity.context_id[row], 0);
    kind.graph_node_id = value_or<std::uint64_t>(graph_node_id[row], 0);
    kind.short_name = reading.strings.keep_id(short_name[row]);
    kind.demangled_name = reading.strings.keep_id(demangled_name[row]);
    kind.mangled_name = reading.strings.keep_id(mangled_name[row]);
    kind.grid_x = value_or<std::int32_t>(grid_x[row], 0);
    kind.grid_y = value_or<std::int32_t>(grid_y[row], 0);
    kind.grid_z = value_or<std::int32_t>(grid_z[row], 0);
    kind.block_x = value_or<std::int32_t>(block_x[row], 0);
    kind.block_y = value_or<std::int32_t>(block_y[row], 0);
    kind.block_z = value_or<std::int32_t>(block_z[row], 0);
    kind.registers_per_thread = value_or<std::int32_t>(registers[row], 0);
    kind.static_shared_bytes = value_or<std::int32_t>(static_shared[row], 0);
    kind.dynamic_shared_bytes = value_or<std::int32_t>(dynamic_shared[row], 0);
    DeviceTrace& device = activity.device(reading.builder, row);
    append_event(device.kernels,
                 Kernel{time.start_ns, time.end_ns, value_or<std::uint32_t>(activity.correlation_id[row], 0),
                        kinds.number_of(kind, device)},
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
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    MemoryOperation copy;
    activity.place(copy, time, row);
    copy.context_id = value_or<std::uint32_t>(activity.context_id[row], 0);
    copy.bytes = value_or<std::int64_t>(bytes[row], 0);
    copy.copy_kind = value_or<std::int16_t>(copy_kind[row], -1);
    copy.source_kind = value_or<std::int16_t>(source_kind[row], -1);
    copy.destination_kind = value_or<std::int16_t>(destination_kind[row], -1);
    activity.device(reading.builder, row).memory_operations.push_back(copy);
  });
}

void read_sets(const Reading& reading) {
  constexpr const char* table = "CUPTI_ACTIVITY_KIND_MEMSET";
  TableScan scan(reading.database, table);
  const ActivityColumns activity(scan);
  const auto bytes = scan.integer("bytes", Presence::required);
  const auto memory_kind = scan.integer("memKind");
  scan_activity(reading, scan, activity, table, [&](const Interval& time, std::size_t row) {
    MemoryOperation set;
    activity.place(set, time, row);
    set.context_id = value_or<std::uint32_t>(activity.context_id[row], 0);
    set.bytes = value_or<std::int64_t>(bytes[row], 0);
    set.destination_kind = value_or<std::int16_t>(memory_kind[row], -1);
    set.is_set = true;
    activity.device(reading.builder, row).memory_operations.push_back(set);
  });
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
  const std::string_view digits = api_name.substr(base.size() + 2);
  std::uint16_t version = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), version);
  return error == std::errc() ? version : std::uint16_t{0};
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

std::int64_t count_orphan_kernels(const std::vector<ProcessTrace>& processes) {
  std::int64_t orphans = 0;
  for (const ProcessTrace& process : processes) {
    CorrelationSet calls;
    for (const ApiCall& call : process.api_calls) calls.insert(call.correlation_id);
    for (const DeviceTrace& device : process.devices) {
      for (const Kernel& kernel : device.kernels) {
        if (kernel.correlation_id == 0 || !calls.contains(kernel.correlation_id)) ++orphans;
      }
    }
  }
  return orphans;
}

}  // namespace nsys_explain::ingest
