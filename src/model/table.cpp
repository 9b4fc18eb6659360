#include "nsys_explain/model/table.hpp"

namespace nsys_explain {

std::size_t Table::row_count() const {
  if (columns.empty()) return 0;
  return std::visit([](const auto& values) { return values.size(); }, columns.front());
}

Table make_table(TableSchema schema) {
  Table table{std::move(schema), {}};
  table.columns.reserve(table.schema.columns.size());
  for (const ColumnSchema& column : table.schema.columns) {
    switch (column.kind) {
      case ColumnKind::integer:
        table.columns.emplace_back(std::vector<std::int64_t>{});
        break;
      case ColumnKind::real:
        table.columns.emplace_back(std::vector<double>{});
        break;
      case ColumnKind::label:
      case ColumnKind::text:
        table.columns.emplace_back(std::vector<std::string>{});
        break;
    }
  }
  return table;
}

}  // namespace nsys_explain
