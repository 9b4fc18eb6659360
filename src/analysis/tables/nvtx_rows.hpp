#pragma once

#include "analysis/statistics/statistics.hpp"
#include "analysis/tables/tables.hpp"

/// What the tables of NVTX ranges share: the ranges by name, and rows of statistics with the rest added up.
namespace nsys_explain::analysis {

/// The ranges of a process with their names. `rank` must outlive it.
struct NamedRanges {
  explicit NamedRanges(const RankEvents& rank);

  Nanoseconds end_ns(std::size_t i) const { return end_of(ranges[i], open_end_ns); }
  Nanoseconds duration(std::size_t i) const { return end_ns(i) - ranges[i].start_ns; }
  std::string_view domain(const RangeGroup& group) const { return events.trace.strings[group.domain]; }

  const RankEvents& events;
  const NvtxRanges& ranges;
  RangeGroups names;
  Nanoseconds open_end_ns;  ///< where those that were never closed end
};

/// Whether work that was launched between its ends on its thread is its own: marks have no ends, and other ranges may
/// end on another thread.
inline bool can_be_projected(const NvtxRange& range) {
  return range.kind != NvtxKind::mark && range.thread_id == range.end_thread_id;
}

/// Domain, name and style of a range.
std::vector<ColumnSchema> range_columns();
/// Columns before those of the statistics, and after them.
TableSchema with_columns(TableSchema schema, std::vector<ColumnSchema> before, std::vector<ColumnSchema> after);

/// What is told of groups: statistics of their values, and one sum beside them.
struct GroupSums {
  std::vector<Statistics> statistics;
  std::vector<std::int64_t> extra;
};

/// One row for each of the groups with the most time, and one for the rest together: `write_names(group)`, the
/// statistics, the extra sum. Groups without values have no row. `append_values(values, groups)`: those of these
/// groups.
template <class AppendValues, class WriteNames, class WriteOther, class Key>
void write_groups(Table& table, const GroupSums& sums, const AppendValues& append_values, const WriteNames& write_names,
                  const WriteOther& write_other, const Key& key) {
  const std::vector<Statistics>& statistics = sums.statistics;
  std::vector<std::uint32_t> order;
  for (std::uint32_t g = 0; g < statistics.size(); ++g) {
    if (statistics[g].count > 0) order.push_back(g);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (statistics[a].total != statistics[b].total) return statistics[a].total > statistics[b].total;
    return key(a) < key(b);
  });
  RowWriter row(table);
  const std::size_t shown = order.size() > most_names ? most_names - 1 : order.size();
  for (std::size_t i = 0; i < shown; ++i) {
    write_names(row, order[i]);
    write_statistics(row, statistics[order[i]]);
    row << sums.extra[order[i]];
  }
  if (shown == order.size()) return;
  std::int64_t extra = 0;
  std::vector<std::int64_t> others;
  const auto rest = std::span<const std::uint32_t>(order).subspan(shown);
  for (const std::uint32_t g : rest) extra += sums.extra[g];
  append_values(others, rest);
  write_other(row);
  write_statistics(row, summarise(others));
  row << extra;
}

/// The same for tables whose groups are those of the ranges.
void write_range_groups(Table& table, const NamedRanges& r, GroupedValues values, std::vector<std::int64_t> extra);

// Kernels by the NVTX ranges in which they were launched.

/// nvtx_kernels and nvtx_coverage (tables.hpp). The groups of the single ranges (`r.names.group_of`) are released on
/// the way: they are not needed after the kernels' surroundings are known.
std::vector<Table> nvtx_kernel_tables(NamedRanges& r, const DeviceLaunches& launches);

}  // namespace nsys_explain::analysis
