#include "ingest/side_files.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/schema/side.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr const char* file_form = R"({"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}})";

}  // namespace

std::vector<NamedCategoryRules> parse_category_file(const std::string& text, const std::string& path) {
  using Json = nlohmann::ordered_json;  // the order of the patterns decides
  const auto refuse = [&](std::string_view problem) {
    throw std::runtime_error(fmt::format("the category map {} {}, so kernels cannot be told by it; write it as {}",
                                         path, problem, file_form));
  };
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) refuse("is not JSON");
  if (!document.is_object()) refuse("holds no object");
  std::vector<NamedCategoryRules> maps;
  for (const auto& [engine, models] : document.items()) {
    if (!models.is_object()) refuse(fmt::format("has no models in '{}'", engine));
    for (const auto& [model, rules] : models.items()) {
      NamedCategoryRules map{fmt::format("{}/{}", engine, model), {}};
      if (!rules.is_object() || rules.empty()) refuse(fmt::format("has no patterns in '{}'", map.name));
      for (const auto& [pattern, category] : rules.items()) {
        if (!category.is_string()) refuse(fmt::format("has a category that is no text for '{}'", pattern));
        map.rules.emplace_back(pattern, category.get<std::string>());
      }
      maps.push_back(std::move(map));
    }
  }
  if (maps.empty()) refuse("is empty");
  return maps;
}

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

namespace {

/// What ends a line, begins a comment, or means something in a regular expression is written as its number.
std::string pattern_of_words(std::string_view words) {
  std::string pattern = "(?i)";
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    pattern += std::isalnum(byte) != 0 || c == '_' || byte >= 0x80 ? std::string(1, c) : fmt::format("\\x{:02X}", byte);
  }
  return pattern;
}

std::string pattern_of(const std::string& text) {
  constexpr std::string_view mark = "re:";
  return text.starts_with(mark) ? text.substr(mark.size()) : pattern_of_words(text);
}

}  // namespace

std::string phase_map_lines(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::string(text);
  const auto refuse = [](std::string_view problem) {
    throw std::runtime_error(fmt::format(
        "the phase map {}, so no range would be found by it; write {{\"PHASE\": [\"WORDS\", \"re:PATTERN\"]}}, or lines 'PHASE PATTERN'",
        problem));
  };
  const auto map = nlohmann::ordered_json::parse(text, nullptr, false);  // the first phase that matches counts
  if (map.is_discarded()) refuse("is no JSON");
  std::string lines;
  for (const auto& [phase, given] : map.items()) {
    const auto patterns = given.is_array() ? given : nlohmann::ordered_json::array({given});
    std::string name = phase;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }, '_');
    for (const auto& pattern : patterns) {
      if (!pattern.is_string() || pattern.get<std::string>().empty() || name.empty())
        refuse(fmt::format("has something else than texts for '{}'", phase));
      lines += fmt::format("{} {}\n", name, pattern_of(pattern.get<std::string>()));
    }
  }
  return lines;
}

namespace {

/// The i-th number of a list, as text; empty where there is none.
std::string number_in(const nlohmann::json& result, const char* list, std::size_t i) {
  const auto found = result.find(list);
  if (found == result.end() || !found->is_array() || i >= found->size() || !(*found)[i].is_number()) return {};
  return (*found)[i].dump();
}

/// The request's latency is its time to first token and all times between tokens.
std::string latency_text(const nlohmann::json& result, std::size_t i) {
  const auto gaps = result.find("itls");
  if (gaps == result.end() || !gaps->is_array() || i >= gaps->size() || !(*gaps)[i].is_array()) return {};
  double sum = result["ttfts"][i].is_number() ? result["ttfts"][i].get<double>() : -1;
  if (sum < 0) return {};
  for (const auto& gap : (*gaps)[i]) sum += gap.is_number() ? gap.get<double>() : 0;
  return fmt::format("{:.9f}", sum);
}

bool has_failed(const nlohmann::json& result, std::size_t i) {
  const auto errors = result.find("errors");
  if (errors == result.end() || !errors->is_array() || i >= errors->size()) return false;
  return (*errors)[i].is_string() && !(*errors)[i].get<std::string>().empty();
}

void add_rows(const nlohmann::json& result, std::string& rows) {
  if (!result.is_object() || !result.contains("ttfts") || !result["ttfts"].is_array()) {
    throw std::runtime_error(
        "it is no result with requests (a list 'ttfts'), so nothing can be said about them; write it with vllm bench serve --save-result --save-detailed, or sglang.bench_serving --output-details, or give a CSV");
  }
  const std::string duration =
      result.contains("duration") && result["duration"].is_number() ? result["duration"].dump() : std::string();
  for (std::size_t i = 0; i < result["ttfts"].size(); ++i) {
    rows += fmt::format("{},{},{},{},{},{},{}\n", number_in(result, "start_times", i), number_in(result, "ttfts", i),
                        latency_text(result, i), number_in(result, "input_lens", i),
                        number_in(result, "output_lens", i), has_failed(result, i) ? "0" : "1", duration);
  }
}

}  // namespace

std::string request_rows(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::string(text);
  std::string rows = "arrival,ttft,latency,prompt_tokens,output_tokens,success,benchmark_duration_s\n";
  if (const auto whole = nlohmann::json::parse(text, nullptr, false); !whole.is_discarded()) {
    add_rows(whole, rows);
    return rows;
  }
  throw std::runtime_error(
      "it begins as JSON and is none, or holds several results, so nothing can be said about requests; give one result of a benchmark, or a CSV");
}

}  // namespace nsys_explain::ingest
