#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ingest/event_readers.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

struct CounterName {
  std::string_view name;  ///< without the unit
  GpuCounter counter;
};

/// Names as exports of nsys 2022 to 2026 have them (docs/input.md, GPU metrics).
constexpr std::array counter_names{
    CounterName{"NVLink bytes received", GpuCounter::nvlink_receive_bytes},
    CounterName{"NVLink RX Bytes", GpuCounter::nvlink_receive_bytes},
    CounterName{"NVLink RX Throughput", GpuCounter::nvlink_receive_bytes},
    CounterName{"NVLink RX Requests User Data", GpuCounter::nvlink_receive_requests},
    CounterName{"NVLink RX Responses User Data", GpuCounter::nvlink_receive_responses},
    CounterName{"NVLink bytes transmitted", GpuCounter::nvlink_transmit_bytes},
    CounterName{"NVLink TX Bytes", GpuCounter::nvlink_transmit_bytes},
    CounterName{"NVLink TX Throughput", GpuCounter::nvlink_transmit_bytes},
    CounterName{"NVLink TX Requests User Data", GpuCounter::nvlink_transmit_requests},
    CounterName{"NVLink TX Responses User Data", GpuCounter::nvlink_transmit_responses},
    CounterName{"GPC Clock Frequency", GpuCounter::gpc_clock_hz},
    CounterName{"SMs Active", GpuCounter::sms_active},
    CounterName{"SM Active", GpuCounter::sms_active},
    CounterName{"SM Issue", GpuCounter::sm_issue},
    CounterName{"Tensor Active", GpuCounter::tensor_active},
    CounterName{"Tensor Active / FP16 Active", GpuCounter::tensor_active},
    CounterName{"DRAM Read Bandwidth", GpuCounter::dram_read},
    CounterName{"VRAM Read Bandwidth", GpuCounter::dram_read},
    CounterName{"DRAM Write Bandwidth", GpuCounter::dram_write},
    CounterName{"VRAM Write Bandwidth", GpuCounter::dram_write},
    CounterName{"PCIe RX Throughput", GpuCounter::pcie_receive},
    CounterName{"PCIe Read Throughput", GpuCounter::pcie_receive},
    CounterName{"PCIe TX Throughput", GpuCounter::pcie_transmit},
    CounterName{"PCIe Write Throughput", GpuCounter::pcie_transmit},
};

/// The low 8 bits of a type id are the GPU's number on its node.
std::int32_t gpu_of(std::int64_t type_id) {
  return static_cast<std::int32_t>(type_id & 0xFF);
}

/// Metric ids are not stable and repeat with other type ids: both together name a metric.
using CounterIds = std::map<std::pair<std::int64_t, std::int64_t>, GpuCounter>;

CounterIds read_counter_ids(const Database& database) {
  CounterIds ids;
  TableScan scan(database, "TARGET_INFO_GPU_METRICS");
  const auto type = scan.integer("typeId"), metric = scan.integer("metricId");
  const auto name = scan.text("metricName");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row)
      if (const auto counter = gpu_counter_named(name[row])) ids.emplace(std::pair(type[row], metric[row]), *counter);
  });
  return ids;
}

/// The devices of the trace by the number of their GPU; several processes may share one.
std::multimap<std::int32_t, DeviceTrace*> devices_by_gpu(const CounterIds& ids, std::vector<ProcessTrace>& processes,
                                                         std::vector<Warning>& warnings) {
  std::multimap<std::int32_t, DeviceTrace*> known;
  std::vector<DeviceTrace*> unknown;
  for (ProcessTrace& process : processes) {
    for (DeviceTrace& device : process.devices) {
      if (device.gpu_id >= 0) {
        known.emplace(device.gpu_id, &device);
      } else {
        unknown.push_back(&device);
      }
    }
  }
  if (unknown.empty()) return known;
  std::set<std::int32_t> sampled;
  for (const auto& [id, counter] : ids) sampled.insert(gpu_of(id.first));
  const bool only_one = known.empty() && unknown.size() == 1 && sampled.size() == 1;
  for (DeviceTrace* device : unknown) known.emplace(only_one ? *sampled.begin() : device->device_id, device);
  if (!only_one) {
    warnings.push_back(
        {Severity::info, WarningSource::analysis, static_cast<std::int64_t>(unknown.size()),
         "the export does not tell which GPU a device is: its GPU metrics are taken to be those of the GPU with the device's CUDA ordinal, which is wrong where CUDA_VISIBLE_DEVICES renumbers; export the whole capture"});
  }
  return known;
}

struct Row {
  Nanoseconds time_ns = 0;
  std::uint32_t value = 0;
  GpuCounter counter = GpuCounter::gpc_clock_hz;
};

GpuSamples make_samples(std::vector<Row>& rows) {
  // With the counter and value in the key, repeated rows give one result whatever their order.
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(a.time_ns, a.counter, a.value) < std::tie(b.time_ns, b.counter, b.value);
  });
  GpuSamples samples;
  for (const Row& row : rows) {
    if (samples.time_ns.empty() || samples.time_ns.back() != row.time_ns) samples.time_ns.push_back(row.time_ns);
    auto& values = samples.values[static_cast<std::size_t>(row.counter)];
    values.resize(samples.time_ns.size(), GpuSamples::missing);
    values.back() = row.value;
  }
  for (auto& values : samples.values)
    if (!values.empty()) values.resize(samples.time_ns.size(), GpuSamples::missing);
  return samples;
}

/// Rows of the counters in use, by GPU in use.
std::map<std::int32_t, std::vector<Row>> read_rows(const Database& database, const TimeBase& time_base,
                                                   const CounterIds& ids,
                                                   const std::multimap<std::int32_t, DeviceTrace*>& devices,
                                                   std::vector<Warning>& warnings) {
  std::map<std::int32_t, std::vector<Row>> rows_of_gpu;
  TimeFilter filter(time_base, "GPU_METRICS");
  std::int64_t without_value = 0;
  TableScan scan(database, "GPU_METRICS");
  const auto timestamp = scan.integer("timestamp");
  const auto type = scan.integer("typeId"), metric = scan.integer("metricId");
  const auto value = scan.integer("value");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto counter = ids.find({type[row], metric[row]});
      if (counter == ids.end() || devices.find(gpu_of(type[row])) == devices.end()) continue;
      if (value[row] < 0 || value[row] >= GpuSamples::missing) {
        ++without_value;
      } else if (const auto time = filter.accept_open(timestamp[row], no_time)) {
        rows_of_gpu[gpu_of(type[row])].push_back(
            {time->start_ns, static_cast<std::uint32_t>(value[row]), counter->second});
      }
    }
  });
  if (const std::int64_t lost = without_value + filter.rejected(); lost > 0) {
    warnings.push_back(
        {Severity::data_loss, WarningSource::trace, lost,
         "GPU metric samples have no value, a negative one or a time that cannot be true: they are left out, means rest on the others"});
  }
  return rows_of_gpu;
}

}  // namespace

std::optional<GpuCounter> gpu_counter_named(std::string_view metric_name) {
  const std::string_view bare = metric_name.substr(0, metric_name.find(" ["));
  const auto found = std::find_if(counter_names.begin(), counter_names.end(),
                                  [&](const CounterName& known) { return known.name == bare; });
  return found == counter_names.end() ? std::nullopt : std::optional(found->counter);
}

void read_gpu_metrics(const Database& database, const TimeBase& time_base, std::vector<ProcessTrace>& processes,
                      std::vector<Warning>& warnings) {
  if (!database.has_table("GPU_METRICS")) return;
  const CounterIds ids = read_counter_ids(database);
  if (ids.empty()) return;
  const auto devices = devices_by_gpu(ids, processes, warnings);
  for (auto& [gpu, rows] : read_rows(database, time_base, ids, devices, warnings)) {
    const GpuSamples samples = make_samples(rows);
    rows = {};
    const auto [first, last] = devices.equal_range(gpu);
    for (auto device = first; device != last; ++device) device->second->samples = samples;
  }
}

namespace {

struct MetricName {
  std::string name, unit;
};

/// By (metricsListId, metricsIdx): an index alone repeats in other lists.
using MetricNames = std::map<std::pair<std::int64_t, std::int64_t>, MetricName>;

MetricNames read_metric_names(const Database& database) {
  MetricNames names;
  TableScan scan(database, "TARGET_INFO_NETWORK_METRICS");
  const auto list = scan.integer("metricsListId"), index = scan.integer("metricsIdx");
  const auto name = scan.text("name"), unit = scan.text("unit");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row)
      names.try_emplace({list[row], index[row]}, MetricName{valid_utf8(name[row]), valid_utf8(unit[row])});
  });
  return names;
}

/// Names of NICs by the global id that their samples carry.
std::map<std::int64_t, std::string> read_nic_names(const Database& database) {
  std::map<std::int64_t, std::string> name_of_nic, name_of_id;
  TableScan nics(database, "TARGET_INFO_NIC_INFO");
  const auto nic = nics.integer("nicId");
  const auto name = nics.text("name");
  nics.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) name_of_nic.try_emplace(nic[row], valid_utf8(name[row]));
  });
  TableScan map(database, "NIC_ID_MAP");
  const auto mapped_nic = map.integer("nicId"), global = map.integer("globalId");
  map.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto found = name_of_nic.find(mapped_nic[row]);
      if (found != name_of_nic.end()) name_of_id.try_emplace(global[row], found->second);
    }
  });
  return name_of_id;
}

void sort_by_time(NetworkSeries& series) {
  std::vector<std::size_t> order(series.values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    return std::tuple(series.intervals[i].start_ns, series.intervals[i].end_ns, series.values[i]);
  };
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  NetworkSeries sorted = series;
  for (std::size_t i = 0; i < order.size(); ++i) {
    sorted.intervals[i] = series.intervals[order[i]];
    sorted.values[i] = series.values[order[i]];
  }
  series = std::move(sorted);
}

void read_table(const Database& database, const TimeBase& time_base, NetworkSource source, const char* table,
                const MetricNames& names, std::vector<NetworkSeries>& result, std::vector<Warning>& warnings) {
  const auto nic_names = read_nic_names(database);
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // device, port, list, index
  std::map<Key, NetworkSeries> series_of;
  TimeFilter filter(time_base, table);
  std::int64_t unnamed = 0;
  TableScan scan(database, table);
  const auto start = scan.integer("start"), end = scan.integer("end");
  const auto global = scan.integer("globalId"), port = scan.integer("portId");
  const auto list = scan.integer("metricsListId");
  const auto index = scan.integer("metricsIdx");
  const auto value = scan.integer("value");
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto name = names.find({list[row], index[row]});
      if (name == names.end() || value[row] < 0) {  // NULL is negative, too
        ++unnamed;
        continue;
      }
      const auto time = filter.accept(start[row], end[row]);
      if (!time) continue;
      NetworkSeries& series = series_of[{global[row], port[row], list[row], index[row]}];
      if (series.values.empty()) {
        const auto nic = nic_names.find(global[row]);
        series.source = source;
        series.device = nic != nic_names.end() ? nic->second : fmt::format("{:#x}", global[row]);
        series.port = port[row] == no_time ? 0 : port[row];
        series.metric = name->second.name;
        series.unit = name->second.unit;
      }
      series.intervals.push_back(*time);
      series.values.push_back(value[row]);
    }
  });
  if (const std::int64_t lost = unnamed + filter.rejected(); lost > 0) {
    warnings.push_back(
        {Severity::data_loss, WarningSource::trace, lost,
         fmt::format(
             "rows of table {} have no metric name, no value or no believable time: they are left out, means rest on the others",
             table)});
  }
  for (auto& [key, series] : series_of) {
    sort_by_time(series);
    result.push_back(std::move(series));
  }
}

}  // namespace

std::vector<NetworkSeries> read_network_metrics(const Database& database, const TimeBase& time_base,
                                                std::vector<Warning>& warnings) {
  std::vector<NetworkSeries> result;
  const MetricNames names = read_metric_names(database);
  read_table(database, time_base, NetworkSource::nic, "NET_NIC_METRIC", names, result, warnings);
  read_table(database, time_base, NetworkSource::infiniband_switch, "NET_IB_SWITCH_METRIC", names, result, warnings);
  std::stable_sort(result.begin(), result.end(), [](const NetworkSeries& a, const NetworkSeries& b) {
    return std::tie(a.source, a.device, a.port, a.metric) < std::tie(b.source, b.device, b.port, b.metric);
  });
  return result;
}

}  // namespace nsys_explain::ingest
