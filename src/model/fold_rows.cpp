#include "nsys_explain/model/fold_rows.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <variant>

namespace nsys_explain {
namespace {

using Integers = std::vector<std::int64_t>;
using By = FoldedColumn::By;

std::vector<std::size_t> counted_rows(const Table& table, const Folding& folding,
                                      const std::set<std::int64_t>& trace_ranks) {
  const auto integers = [&](std::string_view name) { return &column<std::int64_t>(table, name); };
  const Integers* wanted = folding.only_where.empty() ? nullptr : integers(folding.only_where);
  const Integers* ranks = trace_ranks.empty() ? nullptr : integers("trace_rank");
  std::vector<std::size_t> rows;
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    if ((wanted == nullptr || (*wanted)[r] != 0) && (ranks == nullptr || trace_ranks.contains((*ranks)[r])))
      rows.push_back(r);
  }
  return rows;
}

std::string as_text(const std::string& text) {
  return text;
}
template <class Number>
std::string as_text(Number number) {
  return std::to_string(number);
}

/// The first row of each combination of keys, by keys, and to which of them each row belongs.
struct Groups {
  std::vector<std::size_t> first_rows, group_of_row;
};

Groups group_rows(const Table& table, const Folding& folding, const std::vector<std::size_t>& rows) {
  std::map<std::string, std::vector<std::size_t>> rows_of_key;
  for (const std::size_t row : rows) {
    std::string key;
    for (const FoldedColumn& one : folding.columns) {
      if (one.by != By::key) continue;
      std::visit([&](const auto& values) { key += as_text(values[row]) + '\n'; },
                 table.columns[table.schema.index_of(one.from)]);
    }
    rows_of_key[std::move(key)].push_back(row);
  }
  Groups groups;
  groups.group_of_row.resize(table.row_count());
  for (const auto& [key, members] : rows_of_key) {
    for (const std::size_t row : members) groups.group_of_row[row] = groups.first_rows.size();
    groups.first_rows.push_back(members.front());
  }
  return groups;
}

}  // namespace

Table fold_rows(const Table& table, const Folding& folding, const std::set<std::int64_t>& trace_ranks) {
  const std::vector<std::size_t> rows = counted_rows(table, folding, trace_ranks);
  const Groups groups = group_rows(table, folding, rows);
  Table folded;
  folded.schema = {table.schema.name, table.schema.description, {}};
  for (const FoldedColumn& one : folding.columns) {
    const std::size_t from = table.schema.index_of(one.from);
    ColumnSchema column = table.schema.columns[from];
    column.name = one.name;
    folded.schema.columns.push_back(std::move(column));
    if (one.by == By::key) {
      std::visit(
          [&](const auto& values) {
            std::decay_t<decltype(values)> keys;
            for (const std::size_t row : groups.first_rows) keys.push_back(values[row]);
            folded.columns.emplace_back(std::move(keys));
          },
          table.columns[from]);
      continue;
    }
    const auto& values = std::get<Integers>(table.columns[from]);
    Integers sums(groups.first_rows.size(), 0);
    for (const std::size_t row : rows) {
      std::int64_t& sum = sums[groups.group_of_row[row]];
      sum = one.by == By::sum ? sum + values[row] : std::max(sum, values[row]);
    }
    folded.columns.emplace_back(std::move(sums));
  }
  std::vector<std::size_t> order(folded.row_count());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (!folding.order.empty()) {
    const auto& weights = column<std::int64_t>(folded, folding.order);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weights[a] > weights[b]; });
  }
  order.resize(std::min(order.size(), folding.most));
  Table result = make_table(folded.schema);
  append_rows(result, folded, order);
  return result;
}

}  // namespace nsys_explain
