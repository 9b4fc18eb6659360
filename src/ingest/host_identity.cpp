#include "ingest/metadata.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ingest/masked_secrets.hpp"
#include "ingest/table_scan.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

/// UUID without "GPU-"; empty for the zeros of GPUs that are not NVIDIA's.
std::string bare_uuid(std::string_view uuid) {
  if (uuid.starts_with("GPU-")) uuid.remove_prefix(4);
  return uuid.find_first_not_of("0-") == std::string_view::npos ? std::string() : valid_utf8(uuid);
}

/// One row of TARGET_INFO_GPU.
struct Gpu {
  std::int64_t id = -1;
  std::int64_t cuda_ordinal = -1;  ///< as the profiler saw it
  std::string name;
  std::string uuid;
  std::string bus_id;
  std::int32_t bus_rank = -1;
  std::vector<RunFact> facts;
  GpuLimits limits;
};

/// Collects facts of GPUs from numbers that older exports lack or leave 0.
class GpuFacts {
 public:
  void add(const char* name, std::int64_t value, std::int64_t unit, const char* unit_name) {
    if (value > 0)
      facts_.push_back(
          {name, fmt::format("{}{}", value / unit + (value % unit >= unit - unit / 2 ? 1 : 0), unit_name)});
  }
  void add(const char* name, std::string value) {
    if (!value.empty()) facts_.push_back({name, std::move(value)});
  }
  std::vector<RunFact> release() { return std::move(facts_); }

 private:
  std::vector<RunFact> facts_;
};

std::int32_t limit_of(std::int64_t value) {
  return value > 0 && value <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(value) : 0;
}

/// Numbers the GPUs by PCI bus, as NVML and nvidia-smi do, whatever CUDA_DEVICE_ORDER says. Bus ids are written with a
/// fixed number of digits, so their order as text is that of the buses.
void rank_by_bus(std::vector<Gpu>& gpus) {
  if (std::any_of(gpus.begin(), gpus.end(), [](const Gpu& g) { return g.bus_id.empty(); })) return;
  for (Gpu& gpu : gpus) {
    gpu.bus_rank = static_cast<std::int32_t>(
        std::count_if(gpus.begin(), gpus.end(), [&](const Gpu& other) { return other.bus_id < gpu.bus_id; }));
  }
}

/// GPUs of the host in order of their ids, without other vendors' and software devices.
std::vector<Gpu> read_gpus(const Database& database) {
  std::vector<Gpu> gpus;
  const bool tells_uuid = database.has_column("TARGET_INFO_GPU", "uuid");
  TableScan scan(database, "TARGET_INFO_GPU");
  const auto id = scan.integer("id"), ordinal = scan.integer("cuDevice");
  const auto name = scan.text("name"), uuid = scan.text("uuid"), chip = scan.text("chipName");
  const auto major = scan.integer("computeMajor"), minor = scan.integer("computeMinor");
  const auto multiprocessors = scan.integer("smCount"), clock = scan.integer("clockRate");
  const auto memory = scan.integer("totalMemory"), bandwidth = scan.integer("memoryBandwidth");
  const auto bus = scan.text("busLocation");
  const auto warps = scan.integer("maxWarpsPerSm"), warp = scan.integer("threadsPerWarp");
  const auto blocks = scan.integer("maxBlocksPerSm"), shared = scan.integer("maxShmemPerSm");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      Gpu gpu;
      gpu.id = id[row];
      gpu.cuda_ordinal = ordinal[row] == no_time ? id[row] : ordinal[row];
      gpu.name = valid_utf8(name[row]);
      gpu.uuid = bare_uuid(uuid[row]);
      gpu.bus_id = valid_utf8(bus[row]);
      GpuFacts facts;
      facts.add("gpu", gpu.name);
      facts.add("gpu_chip", valid_utf8(chip[row]));
      if (major[row] > 0) facts.add("compute_capability", fmt::format("{}.{}", major[row], minor[row]));
      facts.add("multiprocessors", multiprocessors[row], 1, "");
      facts.add("sm_clock_limit", clock[row], 1'000'000, " MHz");
      facts.add("gpu_memory", memory[row], 1'000'000'000, " GB");
      facts.add("gpu_memory_bandwidth", bandwidth[row], 1'000'000'000, " GB/s");
      gpu.facts = facts.release();
      const bool has_warps = limit_of(warps[row]) > 0 && limit_of(warp[row]) > 0;
      gpu.limits = {std::max<std::int64_t>(bandwidth[row], 0),
                    limit_of(multiprocessors[row]),
                    has_warps ? limit_of(warps[row] * warp[row]) : 0,
                    limit_of(blocks[row]),
                    limit_of(shared[row]),
                    limit_of(major[row])};
      if (!tells_uuid || !gpu.uuid.empty()) gpus.push_back(std::move(gpu));
    }
  });
  std::sort(gpus.begin(), gpus.end(),
            [](const Gpu& a, const Gpu& b) { return std::tie(a.id, a.uuid) < std::tie(b.id, b.uuid); });
  rank_by_bus(gpus);
  return gpus;
}

struct MappedGpu {
  std::int64_t gpu_id = -1;
  std::string uuid;  ///< empty before 2025.6
};

/// TARGET_INFO_CUDA_DEVICE by (plain process id, CUDA ordinal).
std::map<std::pair<std::int64_t, std::int64_t>, MappedGpu> read_cuda_devices(const Database& database) {
  std::map<std::pair<std::int64_t, std::int64_t>, MappedGpu> devices;
  TableScan scan(database, "TARGET_INFO_CUDA_DEVICE");
  const auto gpu_id = scan.integer("gpuId"), cuda_id = scan.integer("cudaId"), pid = scan.integer("pid");
  const auto uuid = scan.text("uuid");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row)
      devices.try_emplace({pid[row], cuda_id[row]}, MappedGpu{gpu_id[row], bare_uuid(uuid[row])});
  });
  return devices;
}

std::vector<std::string> split_list(std::string_view list) {
  std::vector<std::string> parts;
  while (!list.empty()) parts.emplace_back(next_part(list, ','));
  return parts;
}

const Gpu* gpu_with_ordinal(const std::vector<Gpu>& gpus, std::int64_t ordinal) {
  const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.cuda_ordinal == ordinal; });
  return found == gpus.end() ? nullptr : &*found;
}

/// The GPU that a process saw as `device_id` if it had the value of CUDA_VISIBLE_DEVICES given as `visible`: a list of
/// ordinals or prefixes of UUIDs; empty: all GPUs. nullptr where that does not tell.
const Gpu* presumed_gpu(const std::vector<Gpu>& gpus, const std::vector<std::string>& visible, std::int32_t device_id) {
  if (visible.empty()) return gpu_with_ordinal(gpus, device_id);
  if (gpus.size() == 1) return &gpus.front();
  if (device_id < 0 || static_cast<std::size_t>(device_id) >= visible.size()) return nullptr;
  std::string_view entry = visible[static_cast<std::size_t>(device_id)];
  if (entry.starts_with("GPU-")) {
    entry.remove_prefix(4);
    const auto found = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.uuid.starts_with(entry); });
    return found == gpus.end() ? nullptr : &*found;
  }
  const auto ordinal = integer_of(entry);
  return ordinal ? gpu_with_ordinal(gpus, *ordinal) : nullptr;
}

}  // namespace

std::string read_host(const Database& database, const Metadata& metadata) {
  std::string host;
  TableScan scan(database, "TARGET_INFO_SYSTEM_ENV");
  const auto name = scan.text("name"), value = scan.text("value");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row)
      if (host.empty() && name[row] == "Hostname") host = valid_utf8(value[row]);
  });
  return host.empty() ? valid_utf8(metadata.device_display_name) : host;
}

void name_processes(const Database& database, std::vector<ProcessTrace>& processes) {
  TableScan scan(database, "PROCESSES");
  const auto global_pid = scan.integer("globalPid");
  const auto name = scan.text("name");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto id = static_cast<std::uint64_t>(global_pid[row]);
      const auto place =
          std::lower_bound(processes.begin(), processes.end(), id,
                           [](const ProcessTrace& p, std::uint64_t wanted) { return p.global_pid < wanted; });
      if (place != processes.end() && place->global_pid == id && place->name.empty())
        place->name = without_secrets(valid_utf8(name[row]));
    }
  });
}

void identify_gpus(const Database& database, const Metadata& metadata, std::vector<ProcessTrace>& processes,
                   std::vector<Warning>& warnings) {
  const std::vector<Gpu> gpus = read_gpus(database);
  const auto cuda_devices = read_cuda_devices(database);
  const auto visible_variable = metadata.environment.find("CUDA_VISIBLE_DEVICES");
  const std::vector<std::string> visible = visible_variable == metadata.environment.end()
                                               ? std::vector<std::string>()
                                               : split_list(visible_variable->second);
  std::int64_t assumed = 0, unknown = 0;
  for (ProcessTrace& process : processes) {
    for (DeviceTrace& device : process.devices) {
      const Gpu* gpu = nullptr;
      const auto mapped = cuda_devices.find({process.process_id, device.device_id});
      if (mapped != cuda_devices.end()) {
        const auto found =
            std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.id == mapped->second.gpu_id; });
        if (found != gpus.end()) gpu = &*found;
        device.gpu_uuid = mapped->second.uuid;
        device.gpu_id = static_cast<std::int32_t>(mapped->second.gpu_id);
      } else if (!gpus.empty()) {
        gpu = presumed_gpu(gpus, visible, device.device_id);
        if (gpu != nullptr) ++assumed;
        device.is_gpu_presumed = true;
      }
      if (gpu != nullptr) {
        device.gpu_name = gpu->name;
        device.gpu_id = static_cast<std::int32_t>(gpu->id);
        device.gpu_facts = gpu->facts;
        device.gpu_limits = gpu->limits;
        device.gpu_bus_id = gpu->bus_id;
        device.gpu_bus_rank = gpu->bus_rank;
        if (device.gpu_uuid.empty()) device.gpu_uuid = gpu->uuid;
      }
      if (device.gpu_uuid.empty() && device.gpu_name.empty()) ++unknown;
    }
  }
  if (assumed > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::trace, assumed,
         "the export does not map CUDA ordinals to GPUs (nsys 2025.1 and later do): the GPU's name and UUID assume that the process saw the same GPUs as the profiler"});
  }
  if (unknown > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::trace, unknown,
         "the export does not tell which GPU a device is: peaks of the hardware cannot be looked up; export the whole capture, not a part of it"});
  }
}

}  // namespace nsys_explain::ingest
