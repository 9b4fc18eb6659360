#include "analysis/compare/comparison.hpp"

#include <cmath>
#include <set>

#include <fmt/format.h>

#include "analysis/statistics/significance.hpp"
#include "analysis/statistics/statistics.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"
#include "model/schema/job.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr std::string_view over_ranks = "mean over ranks";

/// Relative standard deviation of figures of whole runs; 0 for fewer than two.
double spread(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double average = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - average) * (value - average);
  return std::sqrt(squares / static_cast<double>(values.size() - 1)) / average;
}

void judge(Change& change, double tolerance) {
  const std::optional<double> ratio = change.ratio();
  if (!ratio || !change.estimate) return;
  const bool beyond_noise = change.estimate->low > 1 || change.estimate->high < 1;
  change.significant = beyond_noise && std::abs(*ratio - 1) > tolerance;
}

/// A change with how much time it moves, to show the largest first.
struct Weighted {
  double time_ns = 0;
  Change change;
};

void append_by_weight(std::vector<Change>& changes, std::vector<Weighted> weighted) {
  std::stable_sort(weighted.begin(), weighted.end(),
                   [](const Weighted& a, const Weighted& b) { return a.time_ns > b.time_ns; });
  for (Weighted& one : weighted) changes.push_back(std::move(one.change));
}

double at_stake(const Change& change) {
  return std::abs(change.current.value_or(0) - change.base.value_or(0));
}

// Tables with durations summed by a name, for every trace rank.

struct Section {
  std::string topic;
  const schema::Declaration& table;
  schema::Text key;
  schema::Integer count, total;
};

using Durations = std::map<std::string, DurationsByRank>;

std::optional<Durations> durations_by_name(const RunTables& run, const Section& section) {
  const Table* table = table_with(run, section.table, {section.key, section.count, section.total});
  if (table == nullptr) return std::nullopt;
  const auto& names = column(*table, section.key);
  const auto& counts = column(*table, section.count);
  const auto& totals = column(*table, section.total);
  const bool by_rank = table_with(run, section.table, {schema::trace_rank}) != nullptr;
  const bool with_spread = table_with(run, section.table, {schema::kernels.durations.deviation}) != nullptr;
  Durations durations;
  for (std::size_t r = 0; r < names.size(); ++r) {
    RankDurations& one = durations[names[r]][by_rank ? column(*table, schema::trace_rank)[r] : 0];
    one.count += static_cast<double>(counts[r]);
    one.total += static_cast<double>(totals[r]);
    if (with_spread) {
      const double deviation = column(*table, schema::kernels.durations.deviation)[r];
      one.squares += deviation * deviation * static_cast<double>(std::max<std::int64_t>(0, counts[r] - 1));
    }
  }
  return durations;
}

std::optional<double> mean_duration(const DurationsByRank& by_rank) {
  double count = 0, total = 0;
  for (const auto& [rank, one] : by_rank) {
    count += one.count;
    total += one.total;
  }
  return count > 0 ? std::optional(total / count) : std::nullopt;
}

/// Changes of the mean duration by name.
std::vector<Weighted> changes_by_name(const std::string& topic, const Durations& base, const Durations& current,
                                      double tolerance) {
  std::set<std::string> names;
  std::size_t in_both = 0;
  for (const auto& [name, ranks] : base) {
    names.insert(name);
    in_both += current.count(name);
  }
  for (const auto& [name, ranks] : current) names.insert(name);
  std::vector<Weighted> changes;
  for (const std::string& name : names) {
    const auto before = base.find(name), after = current.find(name);
    Change change{topic, name, "mean_ns", {}, {}, {}, true, false};
    if (before != base.end()) change.base = mean_duration(before->second);
    if (after != current.end()) change.current = mean_duration(after->second);
    if (change.base && change.current) change.estimate = ratio_of_means(before->second, after->second, in_both);
    judge(change, tolerance);
    double executions = 0;
    for (const auto& [rank, one] : (after != current.end() ? after : before)->second) executions += one.count;
    changes.push_back({at_stake(change) * executions, std::move(change)});
  }
  return changes;
}

void compare_section(Comparison& comparison, const Section& section, const RunTables& base, const RunTables& current,
                     double tolerance) {
  const auto was = durations_by_name(base, section), is = durations_by_name(current, section);
  if (was.has_value() != is.has_value()) {
    comparison.notes.push_back(fmt::format("only one of the runs has a table {}: by {} nothing is compared",
                                           section.table.table_name(), section.topic));
  }
  if (was && is) append_by_weight(comparison.changes, changes_by_name(section.topic, *was, *is, tolerance));
}

// Series: a value per step or per collective.

using Series = std::map<std::string, std::vector<double>>;

/// Changes of the means of series that both runs have, and of those that only one has.
std::vector<Weighted> changes_of_series(const std::string& topic, const std::string& figure, const Series& base,
                                        const Series& current, double tolerance) {
  std::set<std::string> names;
  for (const Series* series : {&base, &current})
    for (const auto& [name, values] : *series) names.insert(name);
  std::vector<Weighted> changes;
  for (const std::string& name : names) {
    const auto before = base.find(name), after = current.find(name);
    Change change{topic, name, figure, {}, {}, {}, true, false};
    if (before != base.end()) change.base = mean(before->second);
    if (after != current.end()) change.current = mean(after->second);
    if (change.base && change.current) change.estimate = block_ratio(before->second, after->second, names.size());
    judge(change, tolerance);
    const std::size_t samples = (after != current.end() ? after : before)->second.size();
    changes.push_back({at_stake(change) * static_cast<double>(samples), std::move(change)});
  }
  return changes;
}

/// One figure of all complete collectives by operation and size.
Series by_operation(const RunTables& run, const schema::Integer& figure) {
  Series series;
  constexpr const auto& instances = schema::collective_instances;
  const Table* table = table_with(
      run, instances,
      {instances.operation, instances.bytes, instances.members, instances.arrivals, instances.feasible, figure});
  if (table == nullptr) return series;
  const auto& operations = column(*table, instances.operation);
  const auto& bytes = column(*table, instances.bytes);
  const auto& members = column(*table, instances.members);
  const auto& arrivals = column(*table, instances.arrivals);
  const auto& feasible = column(*table, instances.feasible);
  const auto& values = column(*table, figure);
  for (std::size_t r = 0; r < operations.size(); ++r) {
    if (arrivals[r] != members[r] || feasible[r] == 0) continue;
    const std::string size = bytes[r] < 0 ? "size not known" : fmt::format("{} bytes", bytes[r]);
    series[fmt::format("{}, {} ranks, {}", operations[r], members[r], size)].push_back(static_cast<double>(values[r]));
  }
  return series;
}

// The whole comparison.

/// True where all times of all trace ranks are equal: of two runs they never are.
bool is_one_run(const RunTables& base, const RunTables& current) {
  const Table *one = find_table(base.tables, schema::ranks), *other = find_table(current.tables, schema::ranks);
  if (one == nullptr || other == nullptr || one->row_count() == 0 || one->columns.size() != other->columns.size())
    return false;
  for (std::size_t c = 0; c < one->columns.size(); ++c) {
    const auto* const a = std::get_if<std::vector<std::int64_t>>(&one->columns[c]);
    const auto* const b = std::get_if<std::vector<std::int64_t>>(&other->columns[c]);
    if ((a == nullptr) != (b == nullptr) || (a != nullptr && *a != *b)) return false;
  }
  return true;
}

/// Figures given by the user, and what times are divided by.
void complete_profiles(Comparison& comparison, const ComparisonOptions& options) {
  bool all_steps = true, all_tokens = true;
  for (std::size_t r = 0; r < comparison.runs.size(); ++r) {
    RunProfile& run = comparison.runs[r];
    if (r < options.tokens.size()) run.tokens = options.tokens[r];
    if (r < options.tokens_per_second.size()) run.tokens_per_second = options.tokens_per_second[r];
    all_steps = all_steps && run.steps > 0;
    all_tokens = all_tokens && run.tokens.has_value();
    if (run.categories.empty()) {
      comparison.notes.push_back(
          fmt::format("{} has no table categories: its GPU time cannot be told by category", run.name));
    }
  }
  comparison.basis = all_tokens ? ComparisonBasis::token : all_steps ? ComparisonBasis::step : ComparisonBasis::window;
}

Change headline_of_windows(Comparison& comparison) {
  comparison.notes.emplace_back(
      "steps were not recognised in both runs, so the whole windows are compared, which may hold different amounts of work; their noise is not known: mark steps with NVTX ranges");
  const bool by_token = comparison.basis == ComparisonBasis::token;
  Change headline{by_token ? "token" : "window", std::string(over_ranks), "window_ns", {}, {}, {}, true, false};
  const auto of_run = [&](const RunProfile& run) {
    auto window = run.mean_ns("window_ns");
    if (window && by_token) *window /= comparison.amount(run);
    return window;
  };
  headline.base = of_run(comparison.base());
  headline.current = of_run(comparison.current());
  return headline;
}

/// Time per output token over all trace ranks, of runs that generate tokens; empty where not both do.
std::optional<Change> headline_of_serving(const RunTables& base, const RunTables& current) {
  const auto per_token = [](const RunTables& run) {
    DurationsByRank durations;
    const auto& serving = schema::serving;
    const Table* const table = table_with(run, serving,
                                          {schema::trace_rank, serving.latency, serving.latencies.count,
                                           serving.latencies.total, serving.latencies.deviation});
    for (std::size_t r = 0; table != nullptr && r < table->row_count(); ++r) {
      if (column(*table, serving.latency)[r] != "time_per_output_token") continue;
      const auto count = static_cast<double>(column(*table, serving.latencies.count)[r]);
      const double deviation = column(*table, serving.latencies.deviation)[r];
      durations[column(*table, schema::trace_rank)[r]] = {
          count, static_cast<double>(column(*table, serving.latencies.total)[r]),
          deviation * deviation * std::max(0.0, count - 1)};
    }
    return durations;
  };
  const DurationsByRank before = per_token(base), after = per_token(current);
  Change headline{"output token", "", "mean_ns", mean_duration(before), mean_duration(after), {}, true, false};
  if (!headline.base || !headline.current) return std::nullopt;
  headline.estimate = ratio_of_means(before, after, 1);
  return headline;
}

Change headline_of_steps(Comparison& comparison, const std::vector<double>& before, const std::vector<double>& after) {
  Change headline{"step", "", "mean_ns", mean(before), mean(after), bootstrap_ratio(before, after), true, false};
  if (!headline.estimate) {
    comparison.notes.push_back(fmt::format(
        "{} and {} steps are too few to tell noise from change (at least {} of each are needed): capture more steps",
        before.size(), after.size(), fewest_samples));
    return headline;
  }
  std::vector<double> of_bases;
  for (std::size_t r = 0; r + 1 < comparison.runs.size(); ++r)
    if (comparison.runs[r].step_ns) of_bases.push_back(*comparison.runs[r].step_ns);
  widen(*headline.estimate, spread(of_bases), of_bases.size());
  return headline;
}

/// Means over ranks. Their noise is known where several bases show it.
void compare_rank_means(Comparison& comparison, double tolerance) {
  for (const MeanTime& figure : comparison.current().rank_means_ns) {
    std::vector<double> of_bases;
    for (std::size_t r = 0; r + 1 < comparison.runs.size(); ++r) {
      if (const auto value = comparison.runs[r].mean_ns(figure.name))
        of_bases.push_back(*value / comparison.amount(comparison.runs[r]));
    }
    Change change{"rank time",
                  fmt::format("{}, per {}", over_ranks, basis_name(comparison.basis)),
                  figure.name,
                  comparison.base().mean_ns(figure.name),
                  figure.mean_ns / comparison.amount(comparison.current()),
                  {},
                  figure.name != "overlapped_ns",
                  false};
    if (change.base) *change.base /= comparison.amount(comparison.base());
    const auto ratio = change.ratio();
    if (ratio && *ratio > 0 && of_bases.size() >= 3) {
      change.estimate = RatioEstimate{*ratio, *ratio, *ratio};
      widen(*change.estimate, spread(of_bases), of_bases.size());
    }
    judge(change, tolerance);
    comparison.changes.push_back(std::move(change));
  }
}

/// What each trace rank does by itself: all but exposed communication, in which it may wait for others.
Series own_time_by_rank(const RunTables& run, double amount) {
  Series series;
  const auto& ranks = schema::ranks;
  const Table* const table =
      table_with(run, ranks, {ranks.trace_rank, ranks.window_ns, ranks.exposed_communication_ns});
  for (std::size_t r = 0; table != nullptr && r < table->row_count(); ++r) {
    const auto own_ns = column(*table, ranks.window_ns)[r] - column(*table, ranks.exposed_communication_ns)[r];
    series[fmt::format("rank {}", column(*table, ranks.trace_rank)[r])] = {static_cast<double>(own_ns) / amount};
  }
  return series;
}

std::vector<Weighted> changes_by_rank(const Comparison& comparison, const RunTables& base, const RunTables& current) {
  return changes_of_series("rank", "own_ns", own_time_by_rank(base, comparison.amount(comparison.base())),
                           own_time_by_rank(current, comparison.amount(comparison.current())), 0);
}

void compare_tables(Comparison& comparison, const RunTables& base, const RunTables& current, double tolerance) {
  compare_rank_means(comparison, tolerance);
  append_by_weight(comparison.changes, changes_by_rank(comparison, base, current));
  std::vector<Weighted> operations;
  for (const schema::Integer& figure :
       {schema::collective_instances.transfer_ns, schema::collective_instances.arrival_skew_ns}) {
    for (Weighted& change : changes_of_series("operation", std::string(figure.name), by_operation(base, figure),
                                              by_operation(current, figure), tolerance)) {
      operations.push_back(std::move(change));
    }
  }
  append_by_weight(comparison.changes, std::move(operations));
  using schema::categories, schema::phases, schema::kernels;
  for (const Section& section :
       {Section{"category", categories, categories.category, categories.instances, categories.elapsed_ns},
        Section{"phase", phases, phases.phase, phases.ranges, phases.projected_ns},
        Section{"kernel", kernels, kernels.name, kernels.durations.count, kernels.durations.total}}) {
    compare_section(comparison, section, base, current, tolerance);
  }
  if (auto note = fused_kernels_note(base, current)) comparison.notes.push_back(*std::move(note));
}

}  // namespace

Comparison compare_runs(std::vector<RunTables> bases, RunTables current, const ComparisonOptions& options) {
  Comparison comparison;
  comparison.side_by_side = options.side_by_side;
  for (RunTables& base : bases)
    if (auto note = drop_unlike_steps(base, current)) comparison.notes.push_back(std::move(*note));
  for (const RunTables& base : bases) comparison.runs.push_back(profile_run(base));
  comparison.runs.push_back(profile_run(current));
  complete_profiles(comparison, options);
  if (options.side_by_side) return comparison;

  const std::vector<double> before = step_times(bases.back()), after = step_times(current);
  if (auto serving = headline_of_serving(bases.back(), current)) {
    comparison.headline = *std::move(serving);
  } else if (before.empty() || after.empty()) {
    comparison.headline = headline_of_windows(comparison);
  } else {
    comparison.headline = headline_of_steps(comparison, before, after);
  }
  judge(comparison.headline, options.tolerance);
  if (comparison.headline.estimate) {
    comparison.verdict = !comparison.headline.significant              ? ComparisonVerdict::same
                         : comparison.headline.ratio().value_or(1) > 1 ? ComparisonVerdict::worse
                                                                       : ComparisonVerdict::better;
  }
  if (is_one_run(bases.back(), current)) {
    comparison.is_one_run = true;
    comparison.verdict = ComparisonVerdict::same;
    comparison.notes.clear();
  }
  if (comparison.headline.significant && comparison.basis == ComparisonBasis::step)
    comparison.changed_places = find_changed_places(bases.back(), current, comparison,
                                                    *comparison.headline.current - *comparison.headline.base);
  if (comparison.base().trace_ranks != comparison.current().trace_ranks) {
    comparison.notes.push_back(fmt::format("{} ranks before and {} now: means over ranks are compared, sums are not",
                                           comparison.base().trace_ranks, comparison.current().trace_ranks));
  }
  compare_tables(comparison, bases.back(), current, options.tolerance);
  comparison.kernel_time_ratio = compare_kernel_times(bases.back(), current);
  comparison.trends = find_trends(comparison, options.tolerance);
  return comparison;
}

}  // namespace nsys_explain::analysis
