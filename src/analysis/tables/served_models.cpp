#include "analysis/tables/served_models.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "analysis/statistics/delimited_text.hpp"
#include "analysis/tables/exporter_text.hpp"
#include "model/schema/side.hpp"

namespace nsys_explain::analysis {
namespace {

/// Counters in the order of the table's columns, and what one of them is in the column's unit.
struct ServerCounter {
  std::string_view name;
  std::int64_t unit = 1;
};
constexpr std::array<ServerCounter, 10> counters{{{"nv_inference_request_success"},
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
  for (std::size_t c = 0; c < counters.size(); ++c) {
    if (metric.name != counters[c].name) continue;
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
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    take_metric(exporter_metric_of(text.substr(0, end), "nv_"), scrapes);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Table table = make_table(schema::served_models);
  RowWriter row(table);
  for (const auto& [model, series] : scrapes) {
    std::array<double, counters.size()> sums{};
    for (const auto& [key, scraped] : series) sums[key.first] += scraped.count();
    row << model.first << model.second;
    for (std::size_t c = 0; c < counters.size(); ++c)
      row << static_cast<std::int64_t>(std::llround(std::min(sums[c], most_count))) * counters[c].unit;
  }
  return table;
}

}  // namespace nsys_explain::analysis
