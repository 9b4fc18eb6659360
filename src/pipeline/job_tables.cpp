#include "job_tables.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "nsys_explain/analysis/kernel_peers.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr const char* default_map = "llm";
constexpr const char* file_form = R"({"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}})";

}  // namespace

std::vector<NamedRules> parse_category_file(const std::string& text, const std::string& path) {
  using Json = nlohmann::ordered_json;  // the order of the patterns decides
  const auto refuse = [&](std::string_view problem) {
    throw std::runtime_error(fmt::format("the category map {} {}, so kernels cannot be told by it; write it as {}",
                                         path, problem, file_form));
  };
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) refuse("is not JSON");
  if (!document.is_object()) refuse("holds no object");
  std::vector<NamedRules> maps;
  for (const auto& [engine, models] : document.items()) {
    if (!models.is_object()) refuse(fmt::format("has no models in '{}'", engine));
    for (const auto& [model, rules] : models.items()) {
      NamedRules map{engine + '/' + model, {}};
      if (!rules.is_object() || rules.empty()) refuse(fmt::format("has no patterns in '{}'", map.name));
      for (const auto& [pattern, category] : rules.items()) {
        if (!category.is_string()) refuse(fmt::format("has a category that is no text for '{}'", pattern));
        map.rules.push_back({pattern, category.get<std::string>()});
      }
      maps.push_back(std::move(map));
    }
  }
  if (maps.empty()) refuse("is empty");
  return maps;
}

analysis::CategoryMap read_category_map(const JobSpecification& job) {
  if (job.category_map_path.empty()) {
    return analysis::CategoryMap::built_in(job.categories.empty() ? default_map : job.categories);
  }
  std::ifstream file(job.category_map_path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error(fmt::format("cannot read the category map {}; check the path", job.category_map_path));
  }
  std::vector<NamedRules> maps = parse_category_file(text.str(), job.category_map_path);
  const auto chosen =
      job.categories.empty() && maps.size() == 1
          ? maps.begin()
          : std::find_if(maps.begin(), maps.end(), [&](const NamedRules& map) { return map.name == job.categories; });
  if (chosen == maps.end()) {
    std::vector<std::string> names;
    for (const NamedRules& map : maps) names.push_back(map.name);
    throw std::runtime_error(fmt::format("the category map {} holds {}; choose one with --categories",
                                         job.category_map_path, fmt::join(names, ", ")));
  }
  return {chosen->name, std::move(chosen->rules)};
}

std::vector<Table> make_job_tables(const std::vector<Table>& rank_tables, const analysis::CategoryMap& categories,
                                   std::optional<double> wall_seconds) {
  std::vector<Table> tables;
  const auto add = [&](std::vector<Table> more) { std::move(more.begin(), more.end(), std::back_inserter(tables)); };
  if (const Table* kernels = find_table(rank_tables, "kernels_by_launch")) add(analysis::kernel_peer_tables(*kernels));
  if (const Table* kernels = find_table(rank_tables, "kernels")) {
    tables.push_back(analysis::kernel_imbalance_table(*kernels));
  }
  if (const Table* elapsed = find_table(rank_tables, "gpu_elapsed")) {
    add(analysis::category_tables(*elapsed, categories, wall_seconds));
  }
  return tables;
}

}  // namespace nsys_explain::pipeline
