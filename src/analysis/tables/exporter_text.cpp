#include "analysis/tables/exporter_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "analysis/statistics/delimited_text.hpp"

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
    const std::size_t end = std::min(text.find('\n'), text.size());
    const ExporterMetric metric = exporter_metric_of(text.substr(0, end), "DCGM_FI_");
    text.remove_prefix(std::min(end + 1, text.size()));
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

}  // namespace nsys_explain::analysis
