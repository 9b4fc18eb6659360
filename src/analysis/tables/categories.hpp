#pragma once

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/regex.hpp"
#include "nsys_explain/model/table.hpp"

/// Where GPU time goes by what kernels are for (vLLM's gputrc2graph), for every trace rank.
///
/// Elapsed time counts no moment twice: activities by start, each contributes what it adds to the latest end so far. So
/// the elapsed times of a trace rank add up to its busy time. Unlike gputrc2graph, which lays all devices of a file
/// over each other, each trace rank stands by itself, and graphs recorded as one interval count.
namespace nsys_explain::analysis {

/// Category of the run time without the profiler that is not GPU time.
inline constexpr std::string_view outside_gpu = "cpu (non-GPU)";

/// Table `gpu_elapsed` by name of the activity (kernel, copy, set, graph): instances, sum of durations, elapsed time;
/// most elapsed time first, then by name.
Table elapsed_table(const RankEvents& events);

/// Ordered patterns; the first that occurs in a name decides, and what none matches is "misc".
class CategoryMap {
 public:
  struct Rule {
    std::string pattern;  ///< regular expression (model/regex.hpp), searched anywhere in the name, case-sensitive
    std::string category;
  };

  /// Throws std::invalid_argument with the pattern that is no regular expression.
  CategoryMap(std::string name, std::vector<Rule> rules);

  /// One of the maps that come with the tool; throws std::invalid_argument with the names that there are.
  static CategoryMap built_in(std::string_view name);
  static std::vector<std::string_view> built_in_names();

  const std::string& name() const { return name_; }
  std::string_view category_of(std::string_view kernel_name) const;

 private:
  struct Matcher {
    Regex pattern;
    std::string category;
  };
  std::string name_;
  std::vector<Matcher> matchers_;
};

/// What the categories of one trace rank rest on.
struct RankCategories {
  const CategoryMap* map = nullptr;
  std::optional<double> wall_seconds{};  ///< run time without the profiler
};

/// From the joined `gpu_elapsed` of all trace ranks: tables `category_kernels` and `categories`, most elapsed time
/// first within a trace rank. A trace rank whose run time is known gets a row "cpu (non-GPU)": that time less its
/// elapsed GPU time, never below 0; shares are then of the sum with it.
std::vector<Table> category_tables(const Table& elapsed,
                                   const std::function<RankCategories(std::int64_t trace_rank)>& of_rank);

}  // namespace nsys_explain::analysis
