#include "pipeline/read/rank_schemas.hpp"

#include <utility>

#include "analysis/tables/tables.hpp"
#include "collectives/extraction.hpp"
#include "collectives/inspector_keys.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/launch_index.hpp"
#include "pipeline/read/rank_tables.hpp"

namespace nsys_explain::pipeline {

/// The analyses themselves say what they make: of a trace with one kernel, whose mangled name is known.
std::vector<TableSchema> rank_table_schemas() {
  Trace trace;
  trace.strings = {"", "kernel"};
  trace.processes.resize(1);
  trace.processes.front().devices.resize(1);
  KernelKind kind;
  kind.short_name = kind.demangled_name = kind.mangled_name = 1;
  trace.processes.front().devices.front().kernel_kinds = {kind};
  trace.processes.front().devices.front().kernels = {{0, 1, 0, 0}};
  const ProcessTrace& process = trace.processes.front();
  const LaunchIndex launches(process.api_calls);
  const analysis::RankEvents events{trace, process, process.devices.front(), launches, {false}, {}};
  std::vector<TableSchema> schemas;
  for (Table& table : make_rank_tables(events, events, {}, 1, {}, {})) schemas.push_back(std::move(table.schema));
  schemas.push_back(schema::layers.table_schema());
  schemas.push_back(schema::run_parts.table_schema());
  schemas.push_back(schema::gpu_trace.table_schema());
  schemas.push_back(schema::communication_overlap_trace.table_schema());
  schemas.push_back(analysis::shared_gpus_table().schema);
  schemas.push_back(collectives::fused_operations_table({}).schema);
  schemas.push_back(collectives::inspector_keys_table({}).schema);
  return schemas;
}

}  // namespace nsys_explain::pipeline
