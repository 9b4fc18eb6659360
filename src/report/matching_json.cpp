#include "report/matching_json.hpp"

#include "report/inspector_summary.hpp"

#include <string>
#include <string_view>

namespace nsys_explain::report {

namespace {

/// A row as an object: keys are the table's columns, -1 (no such rank, not known) is null.
Json row_of(const Table& table, std::size_t row) {
  Json object;
  for (const ColumnSchema& schema : table.schema.columns) {
    if (schema.kind == ColumnKind::text) {
      object[schema.name] = column<std::string>(table, schema.name)[row];
    } else {
      const std::int64_t value = column<std::int64_t>(table, schema.name)[row];
      object[schema.name] = value == -1 ? Json(nullptr) : Json(value);
    }
  }
  return object;
}

}  // namespace

Json matching_json(const std::vector<Table>& tables) {
  Json lacking = Json::array(), mismatches = Json::array();
  std::int64_t missing = 0, outside = 0, absent = 0;
  if (const Table* members = find_table(tables, "communicator_members")) {
    const auto& gaps = column<std::int64_t>(*members, "missing");
    const auto& trace_ranks = column<std::int64_t>(*members, "trace_rank");
    for (std::size_t m = 0; m < gaps.size(); ++m) {
      missing += gaps[m];
      absent += trace_ranks[m] < 0 ? 1 : 0;
      if (trace_ranks[m] >= 0) outside += column<std::int64_t>(*members, "outside_window")[m];
      if (gaps[m] > 0) lacking.push_back(row_of(*members, m));
    }
  }
  if (const Table* parted = find_table(tables, "communicator_mismatches")) {
    for (std::size_t row = 0; row < parted->row_count(); ++row) mismatches.push_back(row_of(*parted, row));
  }
  Json matching = {{"missing_arrivals", missing},
                   {"outside_windows", outside},
                   {"members_without_trace", absent},
                   {"lacking_members", std::move(lacking)},
                   {"first_mismatches", std::move(mismatches)}};
  if (auto inspector = inspector_json(tables)) matching["inspector"] = *std::move(inspector);
  return matching;
}

}  // namespace nsys_explain::report
