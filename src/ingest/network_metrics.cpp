#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "ingest/event_readers.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
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
    for (std::size_t row = 0; row < rows; ++row) {
      names.try_emplace({list[row], index[row]}, MetricName{valid_utf8(name[row]), valid_utf8(unit[row])});
    }
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
