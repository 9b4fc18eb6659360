#include "nsys_explain/model/shown_table.hpp"

#include <cmath>
#include <map>
#include <numeric>

#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain {

namespace {

using Integers = std::vector<std::int64_t>;
using Reals = std::vector<double>;
using Rows = std::vector<std::size_t>;
using By = FoldedColumn::By;

const ColumnData& data_of(const Table& table, std::string_view name) {
  return table.columns[table.schema.index_of(name)];
}

Rows rows_of(const Table& table, const std::set<std::int64_t>& trace_ranks) {
  Rows rows;
  if (trace_ranks.empty()) {
    rows.resize(table.row_count());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
  }
  const auto& ranks = column<std::int64_t>(table, "trace_rank");
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (trace_ranks.contains(ranks[r])) rows.push_back(r);
  return rows;
}

/// In the order of the values: integers and texts.
std::string sortable(std::string_view text) {
  return std::string(text);
}
std::string sortable(std::int64_t number) {
  const std::string digits = std::to_string(static_cast<std::uint64_t>(number) ^ (std::uint64_t{1} << 63));
  return std::string(20 - digits.size(), '0') + digits;
}
std::string sortable(double number) {
  return std::to_string(number);
}

std::string key_of(const std::vector<const ColumnData*>& keys, std::size_t row) {
  std::string key;
  for (const ColumnData* one : keys) std::visit([&](const auto& values) { key += sortable(values[row]) + '\n'; }, *one);
  return key;
}

/// The rows of each combination of keys, by keys.
std::vector<Rows> grouped(const std::vector<const ColumnData*>& keys, const Rows& rows) {
  std::map<std::string, Rows> rows_of_key;
  for (const std::size_t row : rows) rows_of_key[key_of(keys, row)].push_back(row);
  std::vector<Rows> groups;
  for (auto& [key, members] : rows_of_key) groups.push_back(std::move(members));
  return groups;
}

/// The row of each group whose value the column takes over.
Rows chosen_rows(const Table& table, const FoldedColumn& one, const std::vector<Rows>& groups) {
  Rows chosen;
  for (const Rows& rows : groups) {
    if (one.by == By::key) {
      chosen.push_back(rows.front());
      continue;
    }
    std::visit(
        [&](const auto& weights) {
          const auto less = [&](std::size_t a, std::size_t b) { return weights[a] < weights[b]; };
          chosen.push_back(one.by == By::at_smallest ? *std::min_element(rows.begin(), rows.end(), less)
                                                     : *std::max_element(rows.begin(), rows.end(), less));
        },
        data_of(table, one.of));
  }
  return chosen;
}

template <class Values>
auto figure(const Values& values, By by, const Rows& rows) {
  auto result = values[rows.front()];
  if (by == By::median) {
    Values all;
    for (const std::size_t row : rows) all.push_back(values[row]);
    return lower_median(all);
  }
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const auto value = values[rows[i]];
    result = by == By::sum ? result + value : by == By::largest ? std::max(result, value) : std::min(result, value);
  }
  return result;
}

double number_in(const ColumnData& data, std::size_t row) {
  const auto* integers = std::get_if<Integers>(&data);
  return integers != nullptr ? static_cast<double>((*integers)[row]) : std::get<Reals>(data)[row];
}

double sum_of(const ColumnData& data, const Rows& rows) {
  double sum = 0;
  for (const std::size_t row : rows) sum += number_in(data, row);
  return sum;
}

double weighted_mean(const ColumnData& data, const ColumnData& weights, const Rows& rows) {
  double sum = 0, weight = 0;
  for (const std::size_t row : rows) {
    if (!std::isfinite(number_in(data, row))) continue;
    sum += number_in(data, row) * number_in(weights, row);
    weight += number_in(weights, row);
  }
  return sum / weight;
}

ColumnData folded_column(const Table& table, const FoldedColumn& one, const std::vector<Rows>& groups,
                         const Rows& all_rows) {
  const ColumnData& data = data_of(table, one.from);
  if (one.by == By::rows) {
    Integers counts;
    for (const Rows& rows : groups) counts.push_back(static_cast<std::int64_t>(rows.size()));
    return counts;
  }
  if (one.by == By::mean) {
    Reals means;
    for (const Rows& rows : groups) means.push_back(weighted_mean(data, data_of(table, one.of), rows));
    return means;
  }
  if (one.by == By::share) {
    const double all = sum_of(data, all_rows);
    Reals shares;
    for (const Rows& rows : groups) shares.push_back(all > 0 ? sum_of(data, rows) / all : 0);
    return shares;
  }
  if (one.by == By::key || one.by == By::at_largest || one.by == By::at_smallest) {
    const Rows chosen = chosen_rows(table, one, groups);
    return std::visit(
        [&](const auto& values) -> ColumnData {
          std::decay_t<decltype(values)> taken;
          for (const std::size_t row : chosen) taken.push_back(values[row]);
          return taken;
        },
        data);
  }
  const auto figures = [&](const auto& values) -> ColumnData {
    std::decay_t<decltype(values)> result;
    for (const Rows& rows : groups) result.push_back(figure(values, one.by, rows));
    return result;
  };
  if (const auto* reals = std::get_if<Reals>(&data)) return figures(*reals);
  return figures(std::get<Integers>(data));
}

ColumnSchema folded_schema(const Table& table, const FoldedColumn& one) {
  ColumnSchema schema = table.schema.columns[table.schema.index_of(one.from)];
  schema.name = one.name;
  if (one.by == By::rows) schema = {schema.name, ColumnKind::integer, "", ""};
  if (one.by == By::mean) schema.kind = ColumnKind::real;
  if (one.by == By::share) schema = {schema.name, ColumnKind::real, "share", ""};
  return schema;
}

bool counts(const Table& table, const Folding& folding, std::size_t row) {
  const ColumnData& data = data_of(table, folding.only_where);
  if (const auto* texts = std::get_if<TextColumn>(&data))
    return folding.is.empty() ? (*texts)[row] != folding.is_not : (*texts)[row] == folding.is;
  if (const auto* reals = std::get_if<Reals>(&data)) return (*reals)[row] != 0;
  return std::get<Integers>(data)[row] != 0;
}

}  // namespace

Table fold_rows(const Table& table, const Folding& folding, const std::set<std::int64_t>& trace_ranks) {
  const Rows all_rows = rows_of(table, trace_ranks);
  Rows counted = all_rows;
  if (!folding.only_where.empty())
    std::erase_if(counted, [&](std::size_t row) { return !counts(table, folding, row); });
  std::vector<const ColumnData*> keys;
  for (const FoldedColumn& one : folding.columns)
    if (one.by == By::key) keys.push_back(&data_of(table, one.from));
  std::vector<Rows> groups = grouped(keys, counted);
  if (folding.by_first_rows)
    std::sort(groups.begin(), groups.end(), [](const Rows& a, const Rows& b) { return a.front() < b.front(); });
  Table folded;
  folded.schema = {table.schema.name, table.schema.description, {}};
  for (const FoldedColumn& one : folding.columns) {
    folded.schema.columns.push_back(folded_schema(table, one));
    folded.columns.push_back(folded_column(table, one, groups, all_rows));
  }
  Rows order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!folding.order.empty()) {
    std::visit(
        [&](const auto& weights) {
          std::stable_sort(order.begin(), order.end(),
                           [&](std::size_t a, std::size_t b) { return weights[b] < weights[a]; });
        },
        data_of(folded, folding.order));
  }
  order.resize(std::min(order.size(), folding.most));
  Table result = make_table(folded.schema);
  append_rows(result, folded, order);
  return result;
}

Table joined_by_keys(Table table, const Table& other) {
  std::vector<const ColumnData*> keys, other_keys;
  Rows added;
  for (std::size_t c = 0; c < other.columns.size(); ++c) {
    const auto is_same = [&](const ColumnSchema& one) { return one.name == other.schema.columns[c].name; };
    const auto& mine = table.schema.columns;
    const auto same = std::find_if(mine.begin(), mine.end(), is_same);
    if (same == mine.end()) {
      added.push_back(c);
    } else {
      keys.push_back(&table.columns[static_cast<std::size_t>(same - mine.begin())]);
      other_keys.push_back(&other.columns[c]);
    }
  }
  std::map<std::string, std::size_t> row_of_key;
  for (std::size_t row = 0; row < other.row_count(); ++row) row_of_key[key_of(other_keys, row)] = row;
  std::vector<std::optional<std::size_t>> rows;
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    const auto found = row_of_key.find(key_of(keys, row));
    rows.push_back(found == row_of_key.end() ? std::nullopt : std::optional(found->second));
  }
  for (const std::size_t c : added) {
    table.schema.columns.push_back(other.schema.columns[c]);
    table.columns.push_back(std::visit(
        [&](const auto& values) -> ColumnData {
          using Values = std::decay_t<decltype(values)>;
          Values taken;
          for (const auto& row : rows) taken.push_back(row ? values[*row] : typename Values::value_type{});
          return taken;
        },
        other.columns[c]));
  }
  return table;
}

std::int64_t figure_of(const Table& sums, std::string_view name, std::string_view figure) {
  if (sums.columns.empty()) return 0;
  const auto& names = column<std::string>(sums, "name");
  for (std::size_t row = 0; row < names.size(); ++row)
    if (names[row] == name) return column<std::int64_t>(sums, figure)[row];
  return 0;
}

Table sums_of(const std::vector<Table>& tables, const JobReport& report, const ShownTable& shown) {
  const Table* const table = find_table(tables, shown.table);
  if (table == nullptr) return {};
  std::set<std::int64_t> trace_ranks;
  const auto& columns = table->schema.columns;
  const auto is_rank = [](const ColumnSchema& one) { return one.name == "trace_rank"; };
  if (std::any_of(columns.begin(), columns.end(), is_rank))
    for (const TraceRankIdentity& rank : report.trace_ranks) trace_ranks.insert(rank.trace_rank);
  Table sums = fold_rows(*table, shown.folding, trace_ranks);
  for (const ShownTable::Beside& other : shown.beside) {
    if (const Table* const found = find_table(tables, other.table))
      sums = joined_by_keys(std::move(sums), fold_rows(*found, other.folding, trace_ranks));
  }
  return sums;
}

}  // namespace nsys_explain
