#include "ingest/request_file.hpp"

#include <stdexcept>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nsys_explain::ingest {
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
