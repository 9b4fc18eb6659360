#include "nsys_explain/analysis/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::size_t fewest_samples = 8;
constexpr int resamples = 2000;
constexpr double covered = 0.99;

/// Half-width of an interval of 99% in standard errors.
constexpr double normal_99 = 2.576;

/// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::size_t below(std::size_t end) {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return static_cast<std::size_t>((z ^ (z >> 31U)) % end);
  }

 private:
  std::uint64_t state_;
};

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Sums of `length` consecutive values, going on at the front after the back.
std::vector<double> block_sums(const std::vector<double>& values, std::size_t length) {
  std::vector<double> sums(values.size());
  for (std::size_t first = 0; first < values.size(); ++first) {
    for (std::size_t i = 0; i < length; ++i) sums[first] += values[(first + i) % values.size()];
  }
  return sums;
}

/// The job's time per step: steps end together, so the mean over ranks is the job's. Empty without steps.
std::vector<double> step_times(const RunTables& run) {
  const Table* steps = find_table(run.tables, "steps");
  if (steps == nullptr || steps->row_count() == 0) return {};
  const auto& step = column<std::int64_t>(*steps, "step");
  const auto& duration = column<std::int64_t>(*steps, "duration_ns");
  std::map<std::int64_t, std::pair<double, int>> sums;
  for (std::size_t r = 0; r < step.size(); ++r) {
    if (duration[r] <= 0) continue;  // no_time is negative
    auto& [sum, count] = sums[step[r]];
    sum += static_cast<double>(duration[r]);
    ++count;
  }
  std::vector<double> times;
  for (const auto& [number, sum] : sums) times.push_back(sum.first / sum.second);
  return times;
}

std::size_t rank_count(const RunTables& run) {
  const Table* ranks = find_table(run.tables, "ranks");
  return ranks == nullptr ? 0 : ranks->row_count();
}

/// Sum of an integer column of the `ranks` table, divided by ranks and steps: time per rank and step.
std::optional<double> per_rank_and_step(const RunTables& run, std::string_view name, std::size_t steps) {
  const Table* ranks = find_table(run.tables, "ranks");
  if (ranks == nullptr || ranks->row_count() == 0) return std::nullopt;
  const auto& values = column<std::int64_t>(*ranks, name);
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return sum / static_cast<double>(values.size()) / static_cast<double>(std::max<std::size_t>(1, steps));
}

/// One kind of thing, summed over trace ranks.
struct Sum {
  double count = 0;
  double total = 0;
  double squares = 0;  ///< sum of squared deviations within ranks, where the table tells
};

bool has_column(const Table& table, std::string_view name) {
  return std::any_of(table.schema.columns.begin(), table.schema.columns.end(),
                     [&](const ColumnSchema& column) { return column.name == name; });
}

std::map<std::string, Sum> sums_by_name(const RunTables& run, std::string_view table_name, std::string_view key,
                                        std::string_view count, std::string_view total) {
  std::map<std::string, Sum> sums;
  const Table* table = find_table(run.tables, table_name);
  if (table == nullptr || !has_column(*table, key) || !has_column(*table, count) || !has_column(*table, total)) {
    return sums;
  }
  const auto& names = column<std::string>(*table, key);
  const auto& counts = column<std::int64_t>(*table, count);
  const auto& totals = column<std::int64_t>(*table, total);
  const auto* deviations = has_column(*table, "stddev_ns") ? &column<double>(*table, "stddev_ns") : nullptr;
  for (std::size_t r = 0; r < names.size(); ++r) {
    Sum& sum = sums[names[r]];
    sum.count += static_cast<double>(counts[r]);
    sum.total += static_cast<double>(totals[r]);
    if (deviations != nullptr) {
      sum.squares +=
          (*deviations)[r] * (*deviations)[r] * static_cast<double>(std::max<std::int64_t>(0, counts[r] - 1));
    }
  }
  return sums;
}

/// Ratio of two means of durations whose spread within the ranks is known; executions count as independent.
std::optional<RatioEstimate> ratio_of_means(const Sum& base, const Sum& current) {
  if (base.count < fewest_samples || current.count < fewest_samples || base.total <= 0 || current.total <= 0) {
    return std::nullopt;
  }
  if (base.squares <= 0 && current.squares <= 0) return std::nullopt;
  const auto relative_variance = [](const Sum& sum) {
    const double average = sum.total / sum.count;
    return sum.squares / (sum.count - 1) / sum.count / (average * average);
  };
  const double ratio = (current.total / current.count) / (base.total / base.count);
  const double width = normal_99 * std::sqrt(relative_variance(base) + relative_variance(current));
  return RatioEstimate{ratio, ratio * std::exp(-width), ratio * std::exp(width)};
}

void judge(Change& change, double tolerance) {
  const std::optional<double> ratio = change.ratio();
  if (!ratio || !change.estimate) return;
  const bool beyond_noise = change.estimate->low > 1 || change.estimate->high < 1;
  change.significant = beyond_noise && std::abs(*ratio - 1) > tolerance;
}

double at_stake(const Change& change) {
  return std::abs(change.current.value_or(0) - change.base.value_or(0));
}

/// Both runs' sums by name as changes of the mean, most time at stake first.
std::vector<Change> changes_by_name(const std::string& topic, const std::map<std::string, Sum>& base,
                                    const std::map<std::string, Sum>& current, double tolerance) {
  std::set<std::string> names;
  for (const auto* side : {&base, &current}) {
    for (const auto& [name, sum] : *side) names.insert(name);
  }
  std::vector<std::pair<double, Change>> weighted;
  for (const std::string& name : names) {
    const auto before = base.find(name);
    const auto after = current.find(name);
    Change change{topic, name, "mean_ns", {}, {}, {}, true, false};
    if (before != base.end() && before->second.count > 0) change.base = before->second.total / before->second.count;
    if (after != current.end() && after->second.count > 0) change.current = after->second.total / after->second.count;
    if (change.base && change.current) change.estimate = ratio_of_means(before->second, after->second);
    judge(change, tolerance);
    const double executions = after != current.end() ? after->second.count : before->second.count;
    weighted.emplace_back(at_stake(change) * executions, std::move(change));
  }
  std::stable_sort(weighted.begin(), weighted.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<Change> changes;
  for (auto& [weight, change] : weighted) changes.push_back(std::move(change));
  return changes;
}

/// Widens an interval by how much the bases differ among themselves (a relative standard deviation).
void widen(RatioEstimate& estimate, double between_bases) {
  const double low = std::log(estimate.ratio / estimate.low), high = std::log(estimate.high / estimate.ratio);
  const double extra = normal_99 * between_bases;
  estimate.low = estimate.ratio * std::exp(-std::hypot(low, extra));
  estimate.high = estimate.ratio * std::exp(std::hypot(high, extra));
}

/// Relative standard deviation of the headline between runs; 0 for fewer than three.
double spread(const std::vector<double>& values) {
  if (values.size() < 3) return 0;
  const double average = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - average) * (value - average);
  return std::sqrt(squares / static_cast<double>(values.size() - 1)) / average;
}

void compare_ranks(Comparison& comparison, const RunTables& base, const RunTables& current, double tolerance) {
  const std::size_t base_steps = step_times(base).size(), current_steps = step_times(current).size();
  const bool by_step = base_steps > 0 && current_steps > 0;
  for (const char* figure : {"window_ns", "compute_ns", "exposed_communication_ns", "overlapped_ns", "copy_ns",
                             "idle_ns", "wait_ns", "own_lateness_ns"}) {
    Change change{"rank time",
                  by_step ? "mean over trace ranks, per step" : "mean over trace ranks",
                  figure,
                  per_rank_and_step(base, figure, by_step ? base_steps : 1),
                  per_rank_and_step(current, figure, by_step ? current_steps : 1),
                  {},
                  std::string_view(figure) != "overlapped_ns",
                  false};
    judge(change, tolerance);
    comparison.changes.push_back(std::move(change));
  }
}

void compare_operations(Comparison& comparison, const RunTables& base, const RunTables& current) {
  const auto before = sums_by_name(base, "operations", "operation", "instances", "transfer_ns");
  const auto after = sums_by_name(current, "operations", "operation", "instances", "transfer_ns");
  for (Change& change : changes_by_name("operation", before, after, 0)) {
    change.figure = "transfer_ns";
    comparison.changes.push_back(std::move(change));
  }
}

}  // namespace

std::optional<RatioEstimate> bootstrap_ratio(const std::vector<double>& base, const std::vector<double>& current) {
  if (base.size() < fewest_samples || current.size() < fewest_samples) return std::nullopt;
  const double base_mean = mean(base), current_mean = mean(current);
  if (!(base_mean > 0) || !(current_mean > 0)) return std::nullopt;
  Random random(base.size() * 1'000'003 + current.size());
  const auto resampled_means = [&](const std::vector<double>& values) {
    const auto length = static_cast<std::size_t>(std::max(1.0, std::round(std::cbrt(values.size()))));
    const std::size_t blocks = (values.size() + length - 1) / length;
    const std::vector<double> sums = block_sums(values, length);
    std::vector<double> means(resamples);
    for (double& one : means) {
      double sum = 0;
      for (std::size_t b = 0; b < blocks; ++b) sum += sums[random.below(sums.size())];
      one = sum / static_cast<double>(blocks * length);
    }
    return means;
  };
  const std::vector<double> base_means = resampled_means(base), current_means = resampled_means(current);
  std::vector<double> ratios(resamples);
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = current_means[i] / base_means[i];
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double fraction) {
    return ratios[static_cast<std::size_t>(fraction * static_cast<double>(resamples - 1))];
  };
  return RatioEstimate{current_mean / base_mean, at((1 - covered) / 2), at((1 + covered) / 2)};
}

Comparison compare_runs(const std::vector<RunTables>& bases, const RunTables& current,
                        const ComparisonOptions& options) {
  const RunTables& base = bases.back();
  Comparison comparison;
  comparison.base_name = base.name;
  comparison.current_name = current.name;
  for (std::size_t b = 0; b + 1 < bases.size(); ++b) comparison.history.push_back(bases[b].name);

  const std::vector<double> before = step_times(base), after = step_times(current);
  std::vector<double> of_bases;
  for (const RunTables& one : bases) {
    const std::vector<double> steps = step_times(one);
    const std::optional<double> window = per_rank_and_step(one, "window_ns", 1);
    if (steps.empty() && !window) continue;
    const double figure = before.empty() || after.empty() || steps.empty() ? window.value_or(0) : mean(steps);
    comparison.trend.emplace_back(one.name, figure);
    of_bases.push_back(figure);
  }
  Change& headline = comparison.headline;
  if (!before.empty() && !after.empty()) {
    headline = {"step", "", "mean_ns", mean(before), mean(after), bootstrap_ratio(before, after), true, false};
    if (headline.estimate) widen(*headline.estimate, spread(of_bases));
    if (!headline.estimate) {
      comparison.notes.push_back(fmt::format(
          "{} and {} steps are too few to tell noise from change (at least {} of each are needed): capture more steps",
          before.size(), after.size(), fewest_samples));
    }
  } else {
    headline = {"window",
                "mean over trace ranks",
                "window_ns",
                per_rank_and_step(base, "window_ns", 1),
                per_rank_and_step(current, "window_ns", 1),
                {},
                true,
                false};
    comparison.notes.emplace_back(
        "steps were not recognised in both runs, so the whole windows are compared, which may hold different amounts "
        "of work; their noise is not known: mark steps with NVTX ranges");
  }
  if (headline.current) comparison.trend.emplace_back(current.name, *headline.current);
  judge(headline, options.tolerance);
  if (headline.estimate) {
    comparison.verdict = !headline.significant              ? ComparisonVerdict::same
                         : headline.ratio().value_or(1) > 1 ? ComparisonVerdict::worse
                                                            : ComparisonVerdict::better;
  }
  if (rank_count(base) != rank_count(current)) {
    comparison.notes.push_back(
        fmt::format("{} trace ranks before and {} now: means over ranks are compared, sums are not", rank_count(base),
                    rank_count(current)));
  }
  compare_ranks(comparison, base, current, options.tolerance);
  compare_operations(comparison, base, current);
  struct Section {
    const char *topic, *table, *key, *count, *total;
  };
  for (const Section& section : {Section{"category", "categories", "category", "instances", "elapsed_ns"},
                                 Section{"phase", "phases", "phase", "ranges", "projected_ns"},
                                 Section{"kernel", "kernels", "name", "count", "total_ns"}}) {
    const auto was = sums_by_name(base, section.table, section.key, section.count, section.total);
    const auto is = sums_by_name(current, section.table, section.key, section.count, section.total);
    if (was.empty() != is.empty()) {
      comparison.notes.push_back(
          fmt::format("only one of the runs has a table {}: {} are not compared", section.table, section.table));
      continue;
    }
    for (Change& change : changes_by_name(section.topic, was, is, options.tolerance)) {
      comparison.changes.push_back(std::move(change));
    }
  }
  return comparison;
}

}  // namespace nsys_explain::analysis
