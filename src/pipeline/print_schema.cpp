#include <ostream>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "case_tables.hpp"
#include "nsys_explain/pipeline/job.hpp"
#include "rank_tables.hpp"
#include "tables.hpp"

namespace nsys_explain::pipeline {
namespace {

std::string_view kind_name(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::integer:
      return "integer";
    case ColumnKind::time:
      return "time";
    case ColumnKind::real:
      return "real";
    case ColumnKind::label:
      return "label";
    case ColumnKind::text:
      return "text";
  }
  return "";
}

/// The analyses themselves say what they make: of a trace with one device and no events.
std::vector<Table> rank_tables() {
  Trace trace;
  trace.strings = {""};
  trace.processes.resize(1);
  trace.processes.front().devices.resize(1);
  const ProcessTrace& process = trace.processes.front();
  const LaunchIndex launches(process.api_calls);
  std::vector<Table> tables =
      make_rank_tables({trace, process, process.devices.front(), launches, [](const Kernel&) { return false; }}, {});
  for (Table& table : tables) table.schema = with_trace_rank(std::move(table.schema));
  return tables;
}

}  // namespace

void print_schema(std::ostream& out) {
  const JobReport nothing;
  std::vector<TableSchema> schemas = {instances_schema(), arrivals_schema()};
  for (const Table& table : job_tables(nothing)) schemas.push_back(table.schema);
  for (const Table& table : CaseTables().release()) schemas.push_back(table.schema);
  for (const Table& table : rank_tables()) schemas.push_back(table.schema);
  out << "Tables of store.h5 and tables/*.csv. Times count from the job epoch; label and text are UTF-8.\n";
  for (const TableSchema& schema : schemas) {
    out << fmt::format("\n{}: {}\n", schema.name, schema.description);
    for (const ColumnSchema& column : schema.columns) {
      out << fmt::format("  {:32} {:8} {:10} {}\n", column.name, kind_name(column.kind), column.unit,
                         column.description);
    }
  }
}

}  // namespace nsys_explain::pipeline
