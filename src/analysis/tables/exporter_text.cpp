#include "analysis/tables/side_files.hpp"

#include <algorithm>
#include <cmath>

#include "analysis/statistics/delimited_text.hpp"
#include "model/schema/side.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::string_view spaces = " \t\r";

}  // namespace

std::string label_of(std::string_view labels, std::string_view name) {
  for (std::size_t at = 0; (at = labels.find(name, at)) != std::string_view::npos; ++at) {
    const std::string_view rest = labels.substr(at + name.size());
    if ((at > 0 && labels[at - 1] != ',' && labels[at - 1] != '{') || !rest.starts_with("=\"")) continue;
    const std::size_t end = rest.find('"', 2);
    return end == std::string_view::npos ? std::string() : std::string(rest.substr(2, end - 2));
  }
  return {};
}

ExporterMetric exporter_metric_of(std::string_view line, std::string_view name_begin) {
  const std::size_t name = line.find(name_begin), open = line.find('{'), close = line.rfind('}');
  if (line.starts_with('#') || name > open || close == std::string_view::npos || close < open) return {};
  ExporterMetric metric{
      line.substr(name, open - name), line.substr(open, close - open), {}, trimmed(line.substr(0, name))};
  const std::string_view rest = trimmed(line.substr(close + 1));
  metric.value = rest.substr(0, rest.find_first_of(spaces));
  if (metric.time.empty()) metric.time = trimmed(rest.substr(metric.value.size()));
  return metric;
}

std::vector<std::vector<std::string>> rows_of_exporter(std::string_view text) {
  using Key = std::array<std::string, 4>;  // time, uuid, host, index
  std::map<std::string, std::size_t, std::less<>> columns;
  std::vector<std::vector<std::string>> rows;
  std::map<Key, std::size_t> row_of;
  while (!text.empty()) {
    const ExporterMetric metric = exporter_metric_of(next_part(text), "DCGM_FI_");
    if (metric.name.empty()) continue;
    if (rows.empty()) rows.push_back({"time", "uuid", "host", "index"});
    const auto column = columns.try_emplace(std::string(metric.name), rows.front().size());
    if (column.second) rows.front().emplace_back(metric.name);
    const Key key{std::string(metric.time), label_of(metric.labels, "UUID"), label_of(metric.labels, "Hostname"),
                  label_of(metric.labels, "gpu")};
    const auto place = row_of.try_emplace(key, rows.size());
    if (place.second) rows.emplace_back(key.begin(), key.end());
    std::vector<std::string>& row = rows[place.first->second];
    row.resize(std::max(row.size(), column.first->second + 1));
    row[column.first->second] = metric.value;
  }
  return rows;
}

namespace {

/// Counters in the order of the table's columns, and what one of them is in the column's unit.
struct ServerCounter {
  std::string_view name;
  std::int64_t unit = 1;
};
constexpr std::array<ServerCounter, 10> server_counters{{{"nv_inference_request_success"},
                                                         {"nv_inference_request_failure"},
                                                         {"nv_inference_count"},
                                                         {"nv_inference_exec_count"},
                                                         {"nv_cache_num_hits_per_model"},
                                                         {"nv_inference_request_duration_us", 1'000},
                                                         {"nv_inference_queue_duration_us", 1'000},
                                                         {"nv_inference_compute_input_duration_us", 1'000},
                                                         {"nv_inference_compute_infer_duration_us", 1'000},
                                                         {"nv_inference_compute_output_duration_us", 1'000}}};

constexpr double most_count = 9e15;  // of which a thousand ns each fit

struct Scraped {
  double first = 0, last = 0;
  bool is_again = false;

  double count() const { return is_again && last >= first ? last - first : last; }
};

using ModelVersion = std::pair<std::string, std::string>;
/// By model, counter and all labels.
using Scrapes = std::map<ModelVersion, std::map<std::pair<std::size_t, std::string>, Scraped>>;

void take_metric(const ExporterMetric& metric, Scrapes& scrapes) {
  for (std::size_t c = 0; c < server_counters.size(); ++c) {
    if (metric.name != server_counters[c].name) continue;
    const auto value = parse_number(metric.value);
    const std::string model = label_of(metric.labels, "model");
    if (!value || !(*value >= 0 && *value < most_count) || model.empty()) return;
    auto& series = scrapes[{model, label_of(metric.labels, "version")}];
    const auto [known, is_new] = series.try_emplace({c, std::string(metric.labels)}, Scraped{*value, *value, false});
    if (is_new) return;
    known->second.last = *value;
    known->second.is_again = true;
    return;
  }
}

}  // namespace

Table served_models_table(std::string_view text) {
  Scrapes scrapes;
  while (!text.empty()) take_metric(exporter_metric_of(next_part(text), "nv_"), scrapes);
  Table table = make_table(schema::served_models);
  RowWriter row(table);
  for (const auto& [model, series] : scrapes) {
    std::array<double, server_counters.size()> sums{};
    for (const auto& [key, scraped] : series) sums[key.first] += scraped.count();
    row << model.first << model.second;
    for (std::size_t c = 0; c < server_counters.size(); ++c)
      row << static_cast<std::int64_t>(std::llround(std::min(sums[c], most_count))) * server_counters[c].unit;
  }
  return table;
}

}  // namespace nsys_explain::analysis
