#include "analysis/compare/trend.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "analysis/statistics/statistics.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double false_alarms = 0.01;

/// Concordant pairs less discordant ones.
std::int64_t concordance(std::span<const double> values) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i + 1; j < values.size(); ++j) sum += (values[j] > values[i]) - (values[j] < values[i]);
  }
  return sum;
}

/// Shares of all orders of n values that have 0, 1, 2, ... discordant pairs: an n-th value adds 0 to n - 1 of them with
/// equal chances.
std::vector<double> shares_by_discordant_pairs(std::size_t n) {
  std::vector<double> shares{1};
  for (std::size_t values = 2; values <= n; ++values) {
    std::vector<double> next(shares.size() + values - 1, 0);
    for (std::size_t pairs = 0; pairs < shares.size(); ++pairs) {
      for (std::size_t added = 0; added < values; ++added)
        next[pairs + added] += shares[pairs] / static_cast<double>(values);
    }
    shares = std::move(next);
  }
  return shares;
}

/// The p-value of n values in perfect order: none can be smaller.
double smallest_p_value(std::size_t n) {
  return std::min(1.0, 2 / std::tgamma(static_cast<double>(n) + 1));
}

/// Median of the slopes of all pairs of runs, relative to the median value.
std::optional<double> relative_slope(const std::vector<std::optional<double>>& of_runs) {
  std::vector<double> slopes, values;
  for (std::size_t i = 0; i < of_runs.size(); ++i) {
    if (!of_runs[i]) continue;
    values.push_back(*of_runs[i]);
    for (std::size_t j = i + 1; j < of_runs.size(); ++j) {
      if (of_runs[j]) slopes.push_back((*of_runs[j] - *of_runs[i]) / static_cast<double>(j - i));
    }
  }
  if (slopes.empty()) return std::nullopt;
  const double middle = median(std::move(values));
  return middle > 0 ? std::optional(median(std::move(slopes)) / middle) : std::nullopt;
}

void judge(Trend& trend, std::size_t figures, double tolerance) {
  std::vector<double> known;
  for (const auto& value : trend.values_ns) {
    if (value) known.push_back(*value);
  }
  trend.change_per_run = relative_slope(trend.values_ns);
  if (known.size() < 2) {
    trend.direction = TrendDirection::too_few_runs;
    return;
  }
  trend.p_value = kendall_p_value(known);
  const double largest_p = false_alarms / static_cast<double>(figures);
  if (smallest_p_value(known.size()) > largest_p) {
    trend.direction = TrendDirection::too_few_runs;
    return;
  }
  const double from_end_to_end = trend.change_per_run.value_or(0) * static_cast<double>(trend.values_ns.size() - 1);
  if (*trend.p_value > largest_p || std::abs(from_end_to_end) <= tolerance) return;
  trend.direction = from_end_to_end > 0 ? TrendDirection::rising : TrendDirection::falling;
}

using ValueOfRun = std::function<std::optional<double>(const RunProfile&)>;

std::optional<double> category_of(const RunProfile& run, const std::string& name) {
  const auto found =
      std::find_if(run.categories.begin(), run.categories.end(), [&](const MeanTime& one) { return one.name == name; });
  return found == run.categories.end() ? std::nullopt : std::optional(found->mean_ns);
}

}  // namespace

double kendall_p_value(std::span<const double> values) {
  if (values.size() < 2) return 1;
  const auto pairs = static_cast<std::int64_t>(values.size() * (values.size() - 1) / 2);
  // As ordered or more, one way: at most so many pairs are discordant.
  const auto most = static_cast<std::ptrdiff_t>((pairs - std::abs(concordance(values))) / 2);
  const std::vector<double> shares = shares_by_discordant_pairs(values.size());
  return std::min(1.0, 2 * std::accumulate(shares.begin(), shares.begin() + most + 1, 0.0));
}

std::vector<Trend> find_trends(const Comparison& comparison, double tolerance) {
  std::vector<Trend> trends;
  if (comparison.side_by_side || comparison.runs.size() < 3) return trends;
  const auto add = [&](const char* topic, const std::string& figure, const ValueOfRun& value_of) {
    Trend trend;
    trend.topic = topic;
    trend.figure = figure;
    for (const RunProfile& run : comparison.runs) trend.values_ns.push_back(value_of(run));
    trends.push_back(std::move(trend));
  };
  const auto per_basis = [&](const RunProfile& run, std::optional<double> time) {
    if (time) *time /= comparison.amount(run);
    return time;
  };
  if (comparison.basis != ComparisonBasis::window) {
    add("step", "step_ns", [](const RunProfile& run) { return run.step_ns; });
  }
  for (const MeanTime& figure : comparison.current().rank_means_ns) {
    add("rank time", figure.name, [&](const RunProfile& run) { return per_basis(run, run.mean_ns(figure.name)); });
  }
  for (const MeanTime& category : comparison.current().categories) {
    add("category", category.name,
        [&](const RunProfile& run) { return per_basis(run, category_of(run, category.name)); });
  }
  for (Trend& trend : trends) judge(trend, trends.size(), tolerance);
  return trends;
}

}  // namespace nsys_explain::analysis
