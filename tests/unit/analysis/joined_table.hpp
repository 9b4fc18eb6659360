#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/verdict/kernel_speed.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::testing {

/// A row of a joined table: values by column; where none is given it is 0 or empty.
struct JoinedRow {
  std::int64_t trace_rank = 0;
  std::map<std::string_view, std::string_view> texts = {};
  std::map<std::string_view, std::int64_t> figures = {};
};

inline Table joined(const schema::Declaration& declaration, const std::vector<JoinedRow>& rows) {
  TableSchema schema = declaration.table_schema();
  schema.columns.push_front({"trace_rank", ColumnKind::integer, "", ""});
  Table table = make_table(schema);
  RowWriter writer(table);
  for (const JoinedRow& row : rows) {
    writer << row.trace_rank;
    for (std::size_t c = 1; c < schema.columns.size(); ++c) {
      const ColumnSchema& column = schema.columns[c];
      const auto text = row.texts.find(column.name);
      const auto figure = row.figures.find(column.name);
      const std::int64_t value = figure == row.figures.end() ? 0 : figure->second;
      if (column.kind == ColumnKind::text)
        writer << (text == row.texts.end() ? std::string_view() : text->second);
      else if (column.kind == ColumnKind::real)
        writer << static_cast<double>(value);
      else
        writer << value;
    }
  }
  return table;
}

inline Table gpu_speed_table(const std::vector<GpuSpeed>& speeds) {
  Table table = make_table(schema::gpu_speed);
  RowWriter rows(table);
  for (const GpuSpeed& one : speeds)
    rows << std::int64_t{one.trace_rank} << one.kernels << std::int64_t{0} << std::int64_t{0} << one.ratio
         << one.p_value << one.slow << one.spread << one.executions;
  return table;
}

}  // namespace nsys_explain::analysis::testing
