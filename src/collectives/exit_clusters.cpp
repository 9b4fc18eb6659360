#include "collectives/exit_clusters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "collectives/clock_map.hpp"
#include "collectives/exit_agreement.hpp"
#include "collectives/robust.hpp"

namespace nsys_explain::collectives {
namespace {

/// Exits of some members, a row per operation, without what rows and columns have in common; 0 where not known.
struct Residuals {
  std::size_t rows = 0, columns = 0;
  std::vector<double> values;

  double& at(std::size_t row, std::size_t column) { return values[row * columns + column]; }
  double at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

void remove_column_means(Residuals& residuals, const std::vector<bool>& known) {
  for (std::size_t column = 0; column < residuals.columns; ++column) {
    double sum = 0, count = 0;
    for (std::size_t row = 0; row < residuals.rows; ++row) {
      sum += residuals.at(row, column);
      count += known[row * residuals.columns + column] ? 1 : 0;
    }
    for (std::size_t row = 0; row < residuals.rows; ++row) {
      if (known[row * residuals.columns + column]) residuals.at(row, column) -= sum / count;
    }
  }
}

/// Operations that most of the members left.
Residuals residuals_of(const ExitTable& table, std::span<const std::size_t> members) {
  Residuals result{0, members.size(), {}};
  std::vector<bool> known;
  for (std::size_t first = 0; first < table.exits.size(); first += table.members) {
    double sum = 0, count = 0;
    for (const std::size_t member : members) {
      const double exit = table.exits[first + member];
      if (!std::isnan(exit)) sum += exit, ++count;
    }
    if (2 * count <= static_cast<double>(members.size())) continue;
    ++result.rows;
    for (const std::size_t member : members) {
      const double exit = table.exits[first + member];
      known.push_back(!std::isnan(exit));
      result.values.push_back(std::isnan(exit) ? 0 : exit - sum / count);
    }
  }
  remove_column_means(result, known);
  return result;
}

/// By power iteration, from the unit vector of the member whose exits vary most.
std::vector<double> first_component(const Residuals& residuals) {
  constexpr int iterations = 40;
  std::vector<double> variance(residuals.columns, 0);
  for (std::size_t v = 0; v < residuals.values.size(); ++v)
    variance[v % residuals.columns] += residuals.values[v] * residuals.values[v];
  std::vector<double> component(residuals.columns, 0);
  component[static_cast<std::size_t>(std::max_element(variance.begin(), variance.end()) - variance.begin())] = 1;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    std::vector<double> next(residuals.columns, 0);
    for (std::size_t row = 0; row < residuals.rows; ++row) {
      double score = 0;
      for (std::size_t column = 0; column < residuals.columns; ++column)
        score += residuals.at(row, column) * component[column];
      for (std::size_t column = 0; column < residuals.columns; ++column)
        next[column] += score * residuals.at(row, column);
    }
    const double norm = std::sqrt(std::inner_product(next.begin(), next.end(), next.begin(), 0.0));
    if (norm == 0) break;
    for (std::size_t column = 0; column < residuals.columns; ++column) component[column] = next[column] / norm;
  }
  return component;
}

/// How much more the distance of two parts varies than that of parts of one communicator would (1 if not at all): the F
/// statistic of a one-way analysis of variance.
double variance_ratio(const Residuals& residuals, const std::vector<bool>& is_first, double first, double second) {
  double within = 0, distances = 0;
  for (std::size_t row = 0; row < residuals.rows; ++row) {
    double sum_first = 0, sum_second = 0;
    for (std::size_t column = 0; column < residuals.columns; ++column)
      (is_first[column] ? sum_first : sum_second) += residuals.at(row, column);
    for (std::size_t column = 0; column < residuals.columns; ++column) {
      const double rest = residuals.at(row, column) - (is_first[column] ? sum_first / first : sum_second / second);
      within += rest * rest;
    }
    const double distance = sum_first / first - sum_second / second;
    distances += distance * distance;
  }
  within /= first + second - 2;
  const double expected = within * (1 / first + 1 / second);
  return expected > 0 ? distances / expected : std::numeric_limits<double>::infinity();
}

/// Of one operation, of the members of a part.
struct Passage {
  double last_enter = -std::numeric_limits<double>::infinity(), sum_of_exits = 0, members = 0;

  void add(double enter, double exit) {
    last_enter = std::max(last_enter, enter);
    sum_of_exits += exit;
    ++members;
  }
};

/// Whether exits of two parts lie far closer together than the entries of the last of each: parts that do not wait for
/// each other leave as much later as they come.
bool wait_for_each_other(const ExitTable& table, std::span<const std::size_t> members,
                         const std::vector<bool>& is_first) {
  std::vector<double> enters, exits;
  for (std::size_t first = 0; first < table.enters.size(); first += table.members) {
    std::array<Passage, 2> parts;
    for (std::size_t m = 0; m < members.size(); ++m) {
      const std::size_t at = first + members[m];
      if (!std::isnan(table.exits[at])) parts[is_first[m] ? 0 : 1].add(table.enters[at], table.exits[at]);
    }
    if (parts[0].members + parts[1].members < static_cast<double>(members.size())) continue;
    enters.push_back(parts[0].last_enter - parts[1].last_enter);
    exits.push_back(parts[0].sum_of_exits / parts[0].members - parts[1].sum_of_exits / parts[1].members);
  }
  if (exits.size() < fewest_agreeing_pairs) return false;
  const double far = worst_spread_ratio(exits.size());
  return scatter(std::move(enters)) > far * scatter(std::move(exits));
}

/// True for the members of one of the two parts that do not leave as one.
std::optional<std::vector<bool>> split(const ExitTable& table, std::span<const std::size_t> members) {
  if (members.size() < 3) return std::nullopt;
  const Residuals residuals = residuals_of(table, members);
  if (residuals.rows < 2) return std::nullopt;
  const std::vector<double> component = first_component(residuals);
  std::vector<bool> is_first(members.size());
  std::transform(component.begin(), component.end(), is_first.begin(), [](double c) { return c > 0; });
  const auto first = static_cast<double>(std::count(is_first.begin(), is_first.end(), true));
  const double second = static_cast<double>(members.size()) - first;
  if (first == 0 || second == 0) return std::nullopt;
  // The largest share of pure noise that one direction takes (Marchenko and Pastur 1967), and some more.
  const double chance = 1 + std::sqrt(static_cast<double>(members.size()) / static_cast<double>(residuals.rows));
  // One member alone may just scatter more than others do.
  const double margin = std::min(first, second) > 1 ? 1.2 : 6;
  if (variance_ratio(residuals, is_first, first, second) < margin * chance * chance) return std::nullopt;
  // Of one member alone, others may be left out for whom it waited.
  if (std::min(first, second) > 1 && wait_for_each_other(table, members, is_first)) return std::nullopt;
  return is_first;
}

void remove_trend(ExitTable& table, std::size_t column, std::span<const Nanoseconds> times) {
  std::vector<double> x, y;
  for (std::size_t row = 0; row < times.size(); ++row) {
    const double exit = table.exits[row * table.members + column];
    if (std::isnan(exit)) continue;
    x.push_back(static_cast<double>(times[row] - times.front()));
    y.push_back(exit);
  }
  if (x.empty()) return;
  const ClockLine line = fit_line(x, y, times.front(), true);
  for (std::size_t row = 0; row < times.size(); ++row)
    table.exits[row * table.members + column] -= line.slope * static_cast<double>(times[row] - times.front());
}

}  // namespace

void remove_trends(ExitTable& table, std::span<const Nanoseconds> times) {
  for (std::size_t column = 0; column < table.members; ++column) remove_trend(table, column, times);
}

bool vary_apart(const ExitTable& table, std::span<const std::size_t> part) {
  constexpr double times = 3, times_if_off = 1.5, times_off = 2;
  std::vector<double> distances;
  std::vector<std::vector<double>> own(table.members);  // exits of each member against those of its part
  std::vector<std::size_t> side(table.members, 1);
  for (const std::size_t member : part) side[member] = 0;
  for (std::size_t first = 0; first < table.exits.size(); first += table.members) {
    std::array<double, 2> sum{0, 0}, known{0, 0};
    for (std::size_t m = 0; m < table.members; ++m) {
      if (std::isnan(table.exits[first + m])) continue;
      sum[side[m]] += table.exits[first + m];
      ++known[side[m]];
    }
    if (known[0] > 0 && known[1] > 0) distances.push_back(sum[0] / known[0] - sum[1] / known[1]);
    for (std::size_t m = 0; m < table.members; ++m) {
      if (!std::isnan(table.exits[first + m]) && known[side[m]] > 1)
        own[m].push_back(table.exits[first + m] - sum[side[m]] / known[side[m]]);
    }
  }
  std::vector<double> scatters;
  for (std::vector<double>& of_member : own) {
    if (!of_member.empty()) scatters.push_back(scatter(std::move(of_member)));
  }
  const double within = median(std::move(scatters)), off = std::abs(median(distances));
  const double between = scatter(std::move(distances));
  return between > times * within || (between > times_if_off * within && off > times_off * within);
}

std::vector<std::size_t> leave_as_one(const ExitTable& table, std::size_t own) {
  std::vector<std::size_t> members(table.members);
  std::iota(members.begin(), members.end(), std::size_t{0});
  while (const std::optional<std::vector<bool>> is_first = split(table, members)) {
    const auto at = static_cast<std::size_t>(std::find(members.begin(), members.end(), own) - members.begin());
    std::vector<std::size_t> kept;
    for (std::size_t m = 0; m < members.size(); ++m) {
      if ((*is_first)[m] == (*is_first)[at]) kept.push_back(members[m]);
    }
    members = std::move(kept);
  }
  return members;
}

}  // namespace nsys_explain::collectives
