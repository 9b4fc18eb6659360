#include "nsys_explain/model/shown_table.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain {

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
