#include "analysis/tables/categories.hpp"

#include <map>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

struct BuiltInRule {
  std::string_view map;
  const char* pattern;
  const char* category;
};

constexpr auto built_in_rules = std::to_array<BuiltInRule>({
#include "analysis/tables/category_maps.inc"
});

struct Elapsed {
  std::int64_t instances = 0;
  Nanoseconds total_ns = 0, elapsed_ns = 0;
};

}  // namespace

Table elapsed_table(const RankEvents& events) {
  std::vector<Elapsed> of_kernel(events.trace.strings.size());
  std::map<std::string, Elapsed> by_name;
  Nanoseconds latest_end_ns = std::numeric_limits<Nanoseconds>::min();
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    Elapsed& elapsed = activity.kind == ActivityKind::kernel
                           ? of_kernel[events.device.kind_of(events.device.kernels[activity.index]).demangled_name]
                           : by_name[activity_name(events.trace, events.device, activity)];
    ++elapsed.instances;
    elapsed.total_ns += activity.end_ns - activity.start_ns;
    elapsed.elapsed_ns += std::max<Nanoseconds>(0, activity.end_ns - std::max(latest_end_ns, activity.start_ns));
    latest_end_ns = std::max(latest_end_ns, activity.end_ns);
  });
  for (std::size_t name = 0; name < of_kernel.size(); ++name)
    if (of_kernel[name].instances > 0) by_name[events.trace.strings[name]] = of_kernel[name];
  std::vector<std::pair<std::string_view, Elapsed>> order(by_name.begin(), by_name.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second.elapsed_ns > b.second.elapsed_ns; });
  Table table = make_table(schema::gpu_elapsed);
  RowWriter row(table);
  for (const auto& [name, elapsed] : order) row << name << elapsed.instances << elapsed.total_ns << elapsed.elapsed_ns;
  return table;
}

CategoryMap::CategoryMap(std::string name, std::vector<Rule> rules) : name_(std::move(name)) {
  for (Rule& rule : rules) {
    try {
      matchers_.push_back({Regex(rule.pattern), std::move(rule.category)});
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(
          fmt::format("'{}' is no regular expression ({}), so kernels cannot be told by it; correct it", rule.pattern,
                      error.what()));
    }
  }
}

CategoryMap CategoryMap::built_in(std::string_view name) {
  std::vector<Rule> rules;
  for (const BuiltInRule& rule : built_in_rules)
    if (rule.map == name) rules.push_back({rule.pattern, rule.category});
  if (rules.empty()) {
    throw std::invalid_argument(fmt::format("there is no category map '{}'; choose one of {}, or bring your own file",
                                            name, fmt::join(built_in_names(), ", ")));
  }
  return {std::string(name), std::move(rules)};
}

std::vector<std::string_view> CategoryMap::built_in_names() {
  std::vector<std::string_view> names;
  for (const BuiltInRule& rule : built_in_rules)
    if (std::find(names.begin(), names.end(), rule.map) == names.end()) names.push_back(rule.map);
  return names;
}

std::string_view CategoryMap::category_of(std::string_view kernel_name) const {
  if (kernel_name.starts_with("[CUDA graph ")) return "cuda graph";  // what is in it is not recorded
  for (const Matcher& matcher : matchers_)
    if (matcher.pattern.occurs_in(kernel_name)) return matcher.category;
  return "misc";
}

std::vector<Table> category_tables(const Table& elapsed,
                                   const std::function<RankCategories(std::int64_t trace_rank)>& of_rank) {
  const auto& ranks = column(elapsed, schema::trace_rank);
  const auto& names = column(elapsed, schema::gpu_elapsed.name);
  const auto& instances = column(elapsed, schema::gpu_elapsed.instances);
  const auto& totals = column(elapsed, schema::gpu_elapsed.total_ns);
  const auto& elapsed_ns = column(elapsed, schema::gpu_elapsed.elapsed_ns);
  std::vector<Table> tables;
  tables.push_back(make_table({"category_kernels",
                               "The category of every kernel",
                               {{"trace_rank", ColumnKind::integer, "", "rank of the profiled job"},
                                {"category", ColumnKind::text, "", ""},
                                {"name", ColumnKind::text, "", "kernel, copy, set or graph"},
                                {"instances", ColumnKind::integer, "", ""},
                                {"total_ns", ColumnKind::integer, "ns", "sum of durations"},
                                {"elapsed_ns", ColumnKind::integer, "ns", "what it adds to the busy time"},
                                {"map", ColumnKind::text, "", "by which the category is told"}}}));
  tables.push_back(make_table(schema::categories));
  std::map<std::pair<const CategoryMap*, std::string_view>, std::string_view> category_of_name;
  RowWriter kernel_row(tables[0]), category_row(tables[1]);
  for (std::size_t i = 0; i < ranks.size();) {
    const std::int64_t rank = ranks[i];
    const auto [map, wall_seconds] = of_rank(rank);
    std::map<std::string_view, Elapsed> sums;
    Nanoseconds all_ns = 0;
    for (; i < ranks.size() && ranks[i] == rank; ++i) {
      const auto [known, is_new] = category_of_name.try_emplace({map, names[i]});
      if (is_new) known->second = map->category_of(names[i]);
      kernel_row << rank << known->second << names[i] << instances[i] << totals[i] << elapsed_ns[i]
                 << std::string_view(map->name());
      Elapsed& sum = sums[known->second];
      sum.instances += instances[i];
      sum.elapsed_ns += elapsed_ns[i];
      all_ns += elapsed_ns[i];
    }
    if (wall_seconds) {
      const auto wall_ns = static_cast<Nanoseconds>(std::llround(*wall_seconds * 1e9));
      sums[outside_gpu].elapsed_ns = std::max<Nanoseconds>(0, wall_ns - all_ns);
      all_ns += sums[outside_gpu].elapsed_ns;
    }
    std::vector<std::pair<std::string_view, Elapsed>> order(sums.begin(), sums.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second.elapsed_ns > b.second.elapsed_ns; });
    for (const auto& [category, sum] : order) {
      category_row << rank << category << sum.instances << sum.elapsed_ns
                   << (all_ns > 0 ? 100.0 * static_cast<double>(sum.elapsed_ns) / static_cast<double>(all_ns) : 0.0)
                   << std::string_view(map->name());
    }
  }
  return tables;
}

}  // namespace nsys_explain::analysis
