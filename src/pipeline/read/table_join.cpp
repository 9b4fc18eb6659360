#include "pipeline/read/table_join.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <variant>

#include <fmt/format.h>

#include "nsys_explain/model/algorithms.hpp"
#include "pipeline/tool_rank/slabs.hpp"

namespace nsys_explain::pipeline {
namespace {

/// A record that somebody made up may hold a table of any columns. `first`: of the joined columns, the one that the
/// others begin at.
void require_same_columns(const TableSchema& joined, std::ptrdiff_t first, const TableSchema& others) {
  const auto is_same = [](const ColumnSchema& a, const ColumnSchema& b) {
    return a.name == b.name && a.kind == b.kind;
  };
  if (std::equal(joined.columns.begin() + first, joined.columns.end(), others.columns.begin(), others.columns.end(),
                 is_same))
    return;
  throw std::runtime_error(fmt::format(
      "table {} of two trace ranks has other columns, so their rows do not belong together; remove the cache or the shards that they come from",
      others.name));
}

/// Appends joined tables of several tool ranks, each by trace rank, so that all rows are.
void append_by_trace_rank(std::span<const Table* const> parts, Table& joined) {
  struct Part {
    const Table* table;
    std::span<const std::int64_t> trace_ranks;
    std::size_t row = 0;
  };
  std::vector<Part> open;
  for (const Table* part : parts) {
    require_same_columns(joined.schema, 0, part->schema);
    const auto& trace_ranks = std::get<std::vector<std::int64_t>>(part->columns.front());
    if (!trace_ranks.empty()) open.push_back({part, trace_ranks});
  }
  while (!open.empty()) {
    const auto first = std::min_element(open.begin(), open.end(), [](const Part& a, const Part& b) {
      return a.trace_ranks[a.row] < b.trace_ranks[b.row];
    });
    std::int64_t others = std::numeric_limits<std::int64_t>::max();  // the first trace rank that is elsewhere
    for (auto part = open.begin(); part != open.end(); ++part)
      if (part != first) others = std::min(others, part->trace_ranks[part->row]);
    const auto begin = first->trace_ranks.begin() + static_cast<std::ptrdiff_t>(first->row);
    const auto count = static_cast<std::size_t>(std::lower_bound(begin, first->trace_ranks.end(), others) - begin);
    append_run(*first->table, first->row, count, joined);
    first->row += count;
    if (first->row == first->trace_ranks.size()) open.erase(first);
  }
}

}  // namespace

TableSchema with_trace_rank(TableSchema schema) {
  schema.columns.push_front({"trace_rank", ColumnKind::integer, "", "rank of the profiled job"});
  return schema;
}

void append_rows_of(std::int32_t trace_rank, const Table& rows, std::size_t first, std::size_t count, Table& joined) {
  auto& ranks = std::get<std::vector<std::int64_t>>(joined.columns.front());
  reserve_sparingly(ranks, count);
  ranks.insert(ranks.end(), count, trace_rank);
  append_run(rows, first, count, joined, 1);
}

void TableJoin::add(std::int32_t trace_rank, std::vector<Table> tables) {
  for (std::size_t place = 0; place < tables.size(); ++place) {
    Table& table = tables[place];
    const auto [entry, is_new] = position_.emplace(table.schema.name, joined_.size());
    if (is_new)
      joined_.push_back({trace_rank, static_cast<std::uint32_t>(place), make_table(with_trace_rank(table.schema))});
    Table& joined = joined_[entry->second].rows;
    require_same_columns(joined.schema, 1, table.schema);
    append_rows_of(trace_rank, table, 0, table.row_count(), joined);
    table = {};
  }
}

void TableJoin::add(std::vector<JoinedTable> parts) {
  std::stable_sort(parts.begin(), parts.end(), [](const JoinedTable& a, const JoinedTable& b) {
    return std::pair(a.first_trace_rank, a.place) < std::pair(b.first_trace_rank, b.place);
  });
  std::vector<std::vector<const Table*>> of_table(joined_.size());
  for (const JoinedTable& part : parts) {
    const auto [entry, is_new] = position_.emplace(part.rows.schema.name, joined_.size());
    if (is_new) {
      joined_.push_back({part.first_trace_rank, part.place, make_table(part.rows.schema)});
      of_table.emplace_back();
    }
    of_table[entry->second].push_back(&part.rows);
  }
  for (std::size_t t = 0; t < joined_.size(); ++t) append_by_trace_rank(of_table[t], joined_[t].rows);
}

}  // namespace nsys_explain::pipeline
