#include "pipeline/attribute/rank_comparison.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/verdict/kernel_peers.hpp"
#include "ingest/category_file.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr const char* default_map = "llm";

}  // namespace

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
  std::vector<ingest::NamedCategoryRules> maps = ingest::parse_category_file(text.str(), job.category_map_path);
  const auto chosen = job.categories.empty() && maps.size() == 1
                          ? maps.begin()
                          : std::find_if(maps.begin(), maps.end(), [&](const ingest::NamedCategoryRules& map) {
                              return map.name == job.categories;
                            });
  if (chosen == maps.end()) {
    std::vector<std::string> names;
    for (const ingest::NamedCategoryRules& map : maps) names.push_back(map.name);
    throw std::runtime_error(fmt::format("the category map {} holds {}; choose one with --categories",
                                         job.category_map_path, fmt::join(names, ", ")));
  }
  std::vector<analysis::CategoryMap::Rule> rules;
  for (auto& [pattern, category] : chosen->rules) rules.push_back({std::move(pattern), std::move(category)});
  return {chosen->name, std::move(rules)};
}

std::vector<Table> compare_trace_ranks(const std::vector<Table>& rank_tables, const analysis::CategoryMap& categories,
                                       std::optional<double> wall_seconds) {
  std::vector<Table> tables;
  const auto add = [&](std::vector<Table> more) { std::move(more.begin(), more.end(), std::back_inserter(tables)); };
  if (const Table* kernels = find_table(rank_tables, schema::kernels_by_launch))
    add(analysis::kernel_peer_tables(*kernels));
  if (const Table* kernels = find_table(rank_tables, schema::kernels)) {
    tables.push_back(analysis::kernel_imbalance_table(*kernels));
  }
  if (const Table* elapsed = find_table(rank_tables, schema::gpu_elapsed)) {
    add(analysis::category_tables(*elapsed, categories, wall_seconds));
  }
  return tables;
}

}  // namespace nsys_explain::pipeline
