#include <ostream>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/links/links.hpp"
#include "analysis/tables/side_files.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/bandwidth.hpp"
#include "analysis/waits/collectives_in_step.hpp"
#include "analysis/waits/levels.hpp"
#include "ingest/export_content.hpp"
#include "ingest/side_files.hpp"
#include "model/schema/job.hpp"
#include "model/schema/links.hpp"
#include "model/schema/side.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/table.hpp"
#include "pipeline/attribute/rank_comparison.hpp"
#include "pipeline/attribute/wait_matrix.hpp"
#include "pipeline/investigate/straggler_cases.hpp"
#include "pipeline/match/member_tables.hpp"
#include "pipeline/read/rank_schemas.hpp"
#include "pipeline/read/table_join.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/topology.hpp"
#include "pipeline/write/tables.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Of the joined tables.
std::vector<Table> rank_tables() {
  std::vector<Table> tables;
  for (TableSchema& schema : rank_table_schemas()) tables.push_back(make_table(with_trace_rank(std::move(schema))));
  return tables;
}

/// What is made of the joined tables, and of the job's collectives.
std::vector<Table> compared_tables(const std::vector<Table>& joined) {
  std::vector<Table> tables = compare_trace_ranks(joined, CategoryPlan({}), {});
  tables.push_back(analysis::bandwidth_table({}, {}, {}));
  tables.push_back(analysis::slow_links_table({}));
  tables.push_back(make_table(schema::first_collectives));
  tables.push_back(make_table(schema::slack));
  tables.push_back(analysis::exchange_balances_table({}, {}, {}));
  tables.push_back(analysis::collectives_in_step_table({}));
  tables.push_back(analysis::byte_matrix_table(joined));
  tables.push_back(make_table(schema::network_metrics));
  tables.push_back(analysis::level_sums_table({}, {}));
  tables.push_back(wait_matrix_table({}));
  tables.push_back(rank_places_table({}, {}));
  tables.push_back(analysis::stage_balance_table({}));
  for (Table& table : analysis::request_tables({})) tables.push_back(std::move(table));
  for (Table& table : analysis::nccl_log_tables({})) tables.push_back(std::move(table));
  tables.push_back(make_table(schema::engine_layers));
  for (Table& table : ingest::allocator_tables()) tables.push_back(std::move(table));
  tables.push_back(communicator_members_table());
  tables.push_back(communicator_mismatches_table());
  return tables;
}

}  // namespace

void print_schema(std::ostream& out) {
  const JobReport nothing;
  std::vector<TableSchema> schemas = {schema::collective_instances.table_schema(),
                                      schema::collective_arrivals.table_schema(), schema::steps.table_schema()};
  for (const Table& table : job_tables(nothing)) schemas.push_back(table.schema);
  for (const Table& table : CaseTables().release()) schemas.push_back(table.schema);
  const std::vector<Table> joined = rank_tables();
  for (const Table& table : compared_tables(joined)) schemas.push_back(table.schema);
  for (const Table& table : joined) schemas.push_back(table.schema);
  out << "Tables of store.h5 and tables/*.csv. Times count from the job epoch; text is UTF-8.\n";
  for (const TableSchema& schema : schemas) {
    out << fmt::format("\n{}: {}\n", schema.name, schema.description);
    for (const ColumnSchema& column : schema.columns) {
      out << fmt::format("  {:32} {:8} {:10} {}\n", column.name, column_kind_name(column.kind), column.unit,
                         column.description);
    }
  }
}

int print_input_schema(const std::string& path, std::ostream& out, std::ostream& problems) {
  try {
    for (const ingest::InputTable& table : ingest::input_tables(path)) {
      out << fmt::format("{}: {} rows{}: {}\n", table.name, table.rows, table.is_unread ? ", not read" : "",
                         fmt::join(table.columns, ", "));
    }
    return all_analysed;
  } catch (const ingest::TraceError& error) {
    problems << fmt::format("nsys-explain-mpi: {}: {}\n", path, error.what());
    return nothing_analysed;
  }
}

}  // namespace nsys_explain::pipeline
