#include "pipeline/attribute/rank_comparison.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/tables/tables.hpp"
#include "analysis/verdict/kernel_speed.hpp"
#include "ingest/file_names.hpp"
#include "ingest/side_files.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr const char* default_map = "llm";

/// One that comes with the tool, or one of the job's file. `name` empty: "llm", or the only one of the file.
analysis::CategoryMap read_category_map(const JobSpecification& job, const std::string& name) {
  if (job.category_map_path.empty()) return analysis::CategoryMap::built_in(name.empty() ? default_map : name);
  std::ifstream file(job.category_map_path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) {
    throw std::runtime_error(fmt::format("cannot read the category map {}; check the path", job.category_map_path));
  }
  std::vector<ingest::NamedCategoryRules> maps = ingest::parse_category_file(text.str(), job.category_map_path);
  const auto chosen = name.empty() && maps.size() == 1
                          ? maps.begin()
                          : std::find_if(maps.begin(), maps.end(),
                                         [&](const ingest::NamedCategoryRules& map) { return map.name == name; });
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

/// PATTERN=MAP[,SECONDS]
struct CategoriesOf {
  std::string pattern, map;
  std::optional<double> wall_seconds;
};

CategoriesOf parse_categories_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  CategoriesOf parsed;
  bool is_right = equals != std::string::npos && equals > 0;
  if (is_right) {
    parsed.pattern = text.substr(0, equals);
    parsed.map = text.substr(equals + 1);
    if (const std::size_t comma = parsed.map.find(','); comma != std::string::npos) {
      double seconds = 0;
      const char* const end = parsed.map.data() + parsed.map.size();
      const auto [at, error] = std::from_chars(parsed.map.data() + comma + 1, end, seconds);
      is_right = error == std::errc() && at == end && seconds > 0 && std::isfinite(seconds);
      parsed.wall_seconds = seconds;
      parsed.map.resize(comma);
    }
    is_right = is_right && !parsed.map.empty();
  }
  if (!is_right)
    throw std::runtime_error(fmt::format(
        "--categories-of '{}' is not PATTERN=MAP or PATTERN=MAP,SECONDS, so no input can be told by it; write e.g. '*sglang*.sqlite=llm,62.5'",
        text));
  return parsed;
}

}  // namespace

CategoryPlan::CategoryPlan(const JobSpecification& job)
    : usual_(read_category_map(job, job.categories)), wall_seconds_(job.elapsed_unprofiled) {
  for (const std::string& text : job.categories_of) {
    CategoriesOf parsed = parse_categories_of(text);
    special_.push_back({std::move(parsed.pattern), read_category_map(job, parsed.map), parsed.wall_seconds});
  }
}

analysis::RankCategories CategoryPlan::of(const std::string& input_path) const {
  for (const OfInputs& special : special_)
    if (ingest::matches_pattern(special.pattern, input_path)) return {&special.map, special.wall_seconds};
  return {&usual_, wall_seconds_};
}

void CategoryPlan::require_inputs(const ingest::MergedDiscovery& found) const {
  for (const OfInputs& special : special_) {
    const bool matches = std::any_of(found.traces.begin(), found.traces.end(), [&](const auto& trace) {
      return ingest::matches_pattern(special.pattern, trace.name);
    });
    const bool matches_failed = std::any_of(found.failed.begin(), found.failed.end(), [&](const InputReport& input) {
      return ingest::matches_pattern(special.pattern, input.path);
    });
    if (!matches && !matches_failed)
      throw std::runtime_error(fmt::format(
          "--categories-of '{}' matches no input, so its map would tell nothing; write a pattern of their paths, such as '*/run1/*.sqlite'",
          special.pattern));
  }
}

std::string CategoryPlan::names() const {
  std::vector<std::string> names{usual_.name()};
  for (const OfInputs& special : special_)
    if (std::find(names.begin(), names.end(), special.map.name()) == names.end()) names.push_back(special.map.name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::vector<Table> compare_trace_ranks(const std::vector<Table>& rank_tables, const CategoryPlan& categories,
                                       const std::vector<TraceRankIdentity>& trace_ranks) {
  std::vector<Table> tables;
  const auto add = [&](std::vector<Table> more) { std::move(more.begin(), more.end(), std::back_inserter(tables)); };
  tables.push_back(analysis::cuda_api_gpu_table(rank_tables));
  if (const Table* kernels = find_table(rank_tables, schema::kernels_by_launch))
    add(analysis::kernel_peer_tables(*kernels));
  if (const Table* kernels = find_table(rank_tables, schema::kernels)) {
    tables.push_back(analysis::kernel_imbalance_table(*kernels));
  }
  if (const Table* elapsed = find_table(rank_tables, schema::gpu_elapsed)) {
    std::map<std::int64_t, const std::string*> path_of;
    for (const TraceRankIdentity& identity : trace_ranks) path_of[identity.trace_rank] = &identity.key.path;
    add(analysis::category_tables(*elapsed, [&](std::int64_t trace_rank) {
      const auto path = path_of.find(trace_rank);
      return categories.of(path == path_of.end() ? std::string() : *path->second);
    }));
  }
  return tables;
}

}  // namespace nsys_explain::pipeline
