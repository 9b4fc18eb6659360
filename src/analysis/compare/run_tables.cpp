#include "analysis/compare/comparison.hpp"

#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "analysis/statistics/statistics.hpp"
#include "analysis/tables/categories.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/schema/job.hpp"

namespace nsys_explain::analysis {
namespace {

/// What of the table `ranks` is compared.
constexpr std::array<schema::Integer, 8> rank_figures{
    schema::ranks.window_ns,     schema::ranks.compute_ns,     schema::ranks.exposed_communication_ns,
    schema::ranks.overlapped_ns, schema::ranks.copy_ns,        schema::ranks.idle_ns,
    schema::ranks.wait_ns,       schema::ranks.own_lateness_ns};

void put_most_first(std::vector<MeanTime>& times) {
  std::stable_sort(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.mean_ns > b.mean_ns; });
}

/// Times of a table by a name, most first. Of categories with what lies outside the GPU, if it is known.
std::vector<MeanTime> times_by_name(const RunTables& run, const schema::Declaration& declaration,
                                    const schema::Text& key, const schema::Integer& time, double trace_ranks) {
  std::vector<MeanTime> times;
  const Table* table = table_with(run, declaration, {key, time});
  if (table == nullptr || trace_ranks <= 0) return times;
  const auto& names = column(*table, key);
  const auto& values = column(*table, time);
  std::map<std::string, double> sums;
  for (std::size_t r = 0; r < names.size(); ++r) sums[names[r]] += static_cast<double>(values[r]);
  for (const auto& [name, sum] : sums) times.push_back({name, sum / trace_ranks});
  put_most_first(times);
  return times;
}

/// Parts of the time of a step, as the table names them: "arrival skew". Most first.
std::vector<MeanTime> budget_of(const RunTables& run, double trace_ranks) {
  const auto& budget = schema::step_budget;
  std::vector<MeanTime> parts;
  const Table* table = find_table(run.tables, budget);
  if (table == nullptr || trace_ranks <= 0) return parts;
  for (const schema::Integer& part :
       {budget.compute_ns, budget.transfer_ns, budget.arrival_skew_ns, budget.inconclusive_ns, budget.launch_paced_ns,
        budget.copy_ns, budget.opaque_graph_ns, budget.idle_ns}) {
    if (table_with(run, budget, {part}) == nullptr) continue;
    const auto& values = column(*table, part);
    std::string name(part.name.substr(0, part.name.size() - std::string_view("_ns").size()));
    std::replace(name.begin(), name.end(), '_', ' ');
    parts.push_back({std::move(name), std::accumulate(values.begin(), values.end(), 0.0) / trace_ranks});
  }
  put_most_first(parts);
  return parts;
}

/// By the table `kernel_counters`, each trace rank with the weight of its samples.
std::vector<KernelUse> kernel_uses_of(const RunTables& run) {
  const auto& counters = schema::kernel_counters;
  const Table* table =
      table_with(run, counters, {counters.name, counters.counter, counters.samples, counters.mean_percent});
  struct Mean {
    double sum = 0, samples = 0;
    double value() const { return samples > 0 ? sum / samples : 0; }
  };
  std::map<std::string, std::map<std::string, Mean>> means;
  for (std::size_t r = 0; table != nullptr && r < table->row_count(); ++r) {
    Mean& mean = means[column(*table, counters.name)[r]][column(*table, counters.counter)[r]];
    const auto samples = static_cast<double>(column(*table, counters.samples)[r]);
    mean.sum += samples * column(*table, counters.mean_percent)[r];
    mean.samples += samples;
  }
  std::vector<KernelUse> uses;
  for (auto& [name, of] : means) {
    if (!of.contains("dram_read") || !of.contains("dram_write")) continue;
    const double tensor = of["tensor_active"].value(), issue = of["sm_issue"].value();
    KernelUse use{name, std::max(tensor, issue), of["dram_read"].value() + of["dram_write"].value(),
                  tensor >= issue ? "tensor cores" : "instruction issue"};
    // A store may say anything.
    const auto is_measured = [](double percent) { return percent >= 1e-6 && percent <= 1000; };
    if (is_measured(use.compute_percent) && is_measured(use.memory_percent)) uses.push_back(std::move(use));
  }
  return uses;
}

std::vector<std::string> frameworks_of(const RunTables& run) {
  std::set<std::string> seen;
  const auto& facts = schema::run_facts;
  const Table* table = table_with(run, facts, {facts.fact, facts.value});
  for (std::size_t r = 0; table != nullptr && r < table->row_count(); ++r)
    if (column(*table, facts.fact)[r] == "framework") seen.insert(column(*table, facts.value)[r]);
  return {seen.begin(), seen.end()};
}

double collectives_per_step(const RunTables& run) {
  const Table* instances = find_table(run.tables, schema::collective_instances);
  return instances == nullptr
             ? 0
             : static_cast<double>(instances->row_count()) / static_cast<double>(step_times(run).size());
}

}  // namespace

const Table* table_with(const RunTables& run, const schema::Declaration& declaration,
                        std::initializer_list<std::string_view> columns) {
  const Table* table = find_table(run.tables, declaration);
  if (table == nullptr) return nullptr;
  const auto& known = table->schema.columns;
  const bool all = std::all_of(columns.begin(), columns.end(), [&](std::string_view wanted) {
    return std::any_of(known.begin(), known.end(), [&](const ColumnSchema& one) { return one.name == wanted; });
  });
  return all ? table : nullptr;
}

std::vector<double> step_times(const RunTables& run) {
  const Table* steps = table_with(run, schema::steps, {schema::steps.step, schema::steps.duration_ns});
  if (steps == nullptr) return {};
  const auto& step = column(*steps, schema::steps.step);
  const auto& duration = column(*steps, schema::steps.duration_ns);
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

std::optional<std::string> drop_unlike_steps(RunTables& run, RunTables& other) {
  if (step_times(run).empty() || step_times(other).empty()) return std::nullopt;
  std::string why;
  if (run.step_source != other.step_source) {
    why =
        fmt::format("were found by {} in {} and by {} in {}", run.step_source, run.name, other.step_source, other.name);
  } else if (run.step_source == "periodicity") {
    const double one = collectives_per_step(run), another = collectives_per_step(other);
    if (std::abs(one - another) <= 0.05 * std::max(one, another)) return std::nullopt;
    why = fmt::format("were guessed from repetition, and hold {:.4g} collectives in {} and {:.4g} in {}", one, run.name,
                      another, other.name);
  }
  if (why.empty()) return std::nullopt;
  for (RunTables* side : {&run, &other})
    std::erase_if(side->tables, [](const Table& table) { return table.schema.name == schema::steps.table_name(); });
  return fmt::format("steps {}, so they may not be the same thing: mark them with NVTX ranges in every run", why);
}

RunProfile profile_run(const RunTables& run) {
  RunProfile profile;
  profile.name = run.name;
  const std::vector<double> steps = step_times(run);
  profile.steps = static_cast<std::int64_t>(steps.size());
  if (!steps.empty()) profile.step_ns = mean(steps);
  const Table* ranks = find_table(run.tables, schema::ranks);
  if (ranks == nullptr || ranks->row_count() == 0) return profile;
  profile.trace_ranks = static_cast<std::int64_t>(ranks->row_count());
  const auto count = static_cast<double>(profile.trace_ranks);
  for (const schema::Integer& figure : rank_figures) {
    if (table_with(run, schema::ranks, {figure}) == nullptr) continue;
    const auto& values = column(*ranks, figure);
    profile.rank_means_ns.push_back(
        {std::string(figure.name), std::accumulate(values.begin(), values.end(), 0.0) / count});
  }
  profile.categories =
      times_by_name(run, schema::categories, schema::categories.category, schema::categories.elapsed_ns, count);
  profile.kernels = times_by_name(run, schema::kernels, schema::kernels.name, schema::kernels.durations.total, count);
  profile.kernel_uses = kernel_uses_of(run);
  profile.budget = budget_of(run, count);
  profile.frameworks = frameworks_of(run);
  std::erase_if(profile.categories, [&](const MeanTime& one) {
    if (one.name == outside_gpu) profile.outside_gpu_ns = one.mean_ns;
    return one.name == outside_gpu;
  });
  if (const Table* findings =
          table_with(run, schema::findings, {schema::findings.id, schema::findings.severity, schema::findings.title})) {
    for (std::size_t r = 0; r < findings->row_count(); ++r)
      profile.findings.push_back({column(*findings, schema::findings.id)[r],
                                  column(*findings, schema::findings.severity)[r],
                                  column(*findings, schema::findings.title)[r]});
  }
  return profile;
}

namespace {

constexpr double false_alarms = 0.01;

/// Concordant pairs less discordant ones.
std::int64_t concordance(std::span<const double> values) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    for (std::size_t j = i + 1; j < values.size(); ++j) sum += (values[j] > values[i]) - (values[j] < values[i]);
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
    for (std::size_t j = i + 1; j < of_runs.size(); ++j)
      if (of_runs[j]) slopes.push_back((*of_runs[j] - *of_runs[i]) / static_cast<double>(j - i));
  }
  if (slopes.empty()) return std::nullopt;
  const double middle = median(std::move(values));
  return middle > 0 ? std::optional(median(std::move(slopes)) / middle) : std::nullopt;
}

void judge(Trend& trend, std::size_t figures, double tolerance) {
  std::vector<double> known;
  for (const auto& value : trend.values_ns)
    if (value) known.push_back(*value);
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
  if (comparison.basis != ComparisonBasis::window)
    add("step", "step_ns", [](const RunProfile& run) { return run.step_ns; });
  for (const MeanTime& figure : comparison.current().rank_means_ns)
    add("rank time", figure.name, [&](const RunProfile& run) { return per_basis(run, run.mean_ns(figure.name)); });
  for (const MeanTime& category : comparison.current().categories) {
    add("category", category.name,
        [&](const RunProfile& run) { return per_basis(run, category_of(run, category.name)); });
  }
  for (Trend& trend : trends) judge(trend, trends.size(), tolerance);
  return trends;
}

}  // namespace nsys_explain::analysis
