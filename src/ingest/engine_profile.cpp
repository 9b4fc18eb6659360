#include "ingest/engine_profile.hpp"

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

#include "model/schema/side.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

std::runtime_error no_profile(const char* problem) {
  return std::runtime_error(
      std::string(problem) +
      ", so no layer's time is known; write it with trtexec --loadEngine=ENGINE --dumpProfile --separateProfileRun --exportProfile=FILE");
}

/// Milliseconds in nanoseconds; empty where they are no number, negative, or more than a month.
std::optional<std::int64_t> nanoseconds_in(const nlohmann::json& layer, const char* name) {
  constexpr double longest_ms = 31 * 86'400e3;
  const auto found = layer.find(name);
  if (found == layer.end() || !found->is_number()) return std::nullopt;
  const auto ms = found->get<double>();
  return ms >= 0 && ms <= longest_ms ? std::optional<std::int64_t>(std::llround(ms * 1e6)) : std::nullopt;
}

}  // namespace

Table engine_layers(std::string_view json) {
  const auto profile = nlohmann::json::parse(json, nullptr, false);
  if (!profile.is_array() || profile.empty() || !profile[0].is_object() || !profile[0].contains("count") ||
      !profile[0]["count"].is_number_integer())
    throw no_profile("it is no JSON list that begins with a count of iterations");
  std::int64_t all_ns = 0;
  for (const auto& layer : profile)
    if (layer.is_object()) all_ns += nanoseconds_in(layer, "timeMs").value_or(0);
  Table table = make_table(schema::engine_layers);
  RowWriter row(table);
  for (const auto& layer : profile) {
    if (!layer.is_object() || !layer.contains("name") || !layer["name"].is_string()) continue;
    const auto total_ns = nanoseconds_in(layer, "timeMs"), mean_ns = nanoseconds_in(layer, "averageMs");
    if (!total_ns || !mean_ns) continue;
    row << valid_utf8(layer["name"].get<std::string>()) << profile[0]["count"].get<std::int64_t>() << *total_ns
        << *mean_ns << nanoseconds_in(layer, "medianMs").value_or(-1)
        << (all_ns > 0 ? 100 * static_cast<double>(*total_ns) / static_cast<double>(all_ns) : 0.0);
  }
  if (table.row_count() == 0) throw no_profile("none of its entries is a layer with a name and a time");
  return table;
}

}  // namespace nsys_explain::ingest
