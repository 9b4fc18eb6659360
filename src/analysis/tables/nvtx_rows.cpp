#include "analysis/tables/nvtx_rows.hpp"

#include <tuple>

namespace nsys_explain::analysis {
namespace {

bool any_open(const NvtxRanges& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [](const NvtxRange& range) { return range.kind != NvtxKind::mark && range.end_ns == no_time; });
}

}  // namespace

NamedRanges::NamedRanges(const RankEvents& rank)
    : events(rank),
      ranges(rank.process.nvtx_ranges),
      names(group_ranges(rank.trace, rank.process)),
      open_end_ns(any_open(ranges) ? last_time(rank.trace) : 0) {}

TableSchema with_columns(TableSchema schema, std::vector<ColumnSchema> before, std::vector<ColumnSchema> after) {
  schema.columns = std::move(before);
  for (ColumnSchema& column : statistics_columns("ns")) schema.columns.push_back(std::move(column));
  for (ColumnSchema& column : after) schema.columns.push_back(std::move(column));
  return schema;
}

std::vector<ColumnSchema> range_columns() {
  return {{"domain", ColumnKind::text, "", "NVTX domain; empty: the default one"},
          {"range", ColumnKind::text, "", "label, without PyTorch's operator number"},
          {"style", ColumnKind::text, "", "PushPop or StartEnd"}};
}

void write_range_groups(Table& table, const NamedRanges& r, GroupedValues values, std::vector<std::int64_t> extra) {
  std::vector<Statistics> statistics = summarise_groups(values);
  write_groups(
      table, {std::move(statistics), std::move(extra)},
      [&](std::vector<std::int64_t>& all, std::span<const std::uint32_t> groups) {
        for (const std::uint32_t g : groups) values.append_to(all, g);
      },
      [&](RowWriter& row, std::uint32_t g) {
        const RangeGroup& group = r.names.groups[g];
        row << r.domain(group) << group.name << range_style(group.kind);
      },
      [](RowWriter& row) { row << std::string_view() << other_ranges << std::string_view("-"); },
      [&](std::uint32_t g) {
        const RangeGroup& group = r.names.groups[g];
        return std::tuple(r.domain(group), group.name, group.kind);
      });
}

}  // namespace nsys_explain::analysis
