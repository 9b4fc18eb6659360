#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nsys_explain::analysis {

/// A line of text for Prometheus: `NAME{LABELS} VALUE`. A time is before the name, or behind the value; empty: none.
struct ExporterMetric {
  std::string_view name, labels, value, time;
};

/// Without a name where the line is something else, or no name begins like that in it.
ExporterMetric exporter_metric_of(std::string_view line, std::string_view name_begin);

/// Of `labels` as {gpu="0",UUID="GPU-ab"}; empty where there is none.
std::string label_of(std::string_view labels, std::string_view name);

/// The text of DCGM's exporter for Prometheus, scraped again and again into one file, as rows of a CSV: time, uuid,
/// host, index, and a column for each DCGM_FI_ name. Times are before the names, as date +%s.%3N writes them, or behind
/// the values, in ms. Rows of one time and GPU are one. Empty: it is something else.
///
///     1764250000.250 DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-ab",Hostname="n1"} 1980
///     DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-ab",Hostname="n1"} 1980 1764250000250
std::vector<std::vector<std::string>> rows_of_exporter(std::string_view text);

}  // namespace nsys_explain::analysis
