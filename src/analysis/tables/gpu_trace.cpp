#include "analysis/tables/tables.hpp"

#include <fmt/format.h>

#include "analysis/statistics/statistics.hpp"
#include "analysis/trace/rank_events.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis {
namespace {

std::string extent(std::int32_t x, std::int32_t y, std::int32_t z) {
  return fmt::format("{}x{}x{}", x, y, z);
}

/// Where operations of a category come from.
struct Source {
  const char *table, *name_column, *category;
};
constexpr std::array sources{Source{"cuda_api", "name", "CUDA_API"}, Source{"kernels", "name", "CUDA_KERNEL"},
                             Source{"memory_time", "operation", "MEMORY_OPER"}};

/// A row of a table of statistics.
struct OperationRow {
  const Table* table = nullptr;
  std::size_t source = 0, row = 0;
  std::int64_t total_ns = 0;

  std::string_view name() const { return column<std::string>(*table, sources[source].name_column)[row]; }
};

std::map<std::int64_t, std::vector<OperationRow>> operations_by_rank(const std::vector<Table>& rank_tables) {
  std::map<std::int64_t, std::vector<OperationRow>> operations;
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const Table* table = find_table(rank_tables, sources[s].table);
    if (table == nullptr) continue;
    const auto& ranks = column(*table, schema::trace_rank);
    const auto& totals = column<std::int64_t>(*table, "total_ns");
    for (std::size_t row = 0; row < ranks.size(); ++row) operations[ranks[row]].push_back({table, s, row, totals[row]});
  }
  return operations;
}

}  // namespace

Table gpu_trace_table(const RankEvents& events) {
  constexpr std::int64_t not_known = -1;
  Table table = make_table(schema::gpu_trace);
  RowWriter row(table);
  const DeviceTrace& device = events.device;
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    const std::uint32_t call = events.launches.number_of(activity.correlation_id, activity.start_ns);
    const bool is_launch_known = call != LaunchIndex::no_call;
    const Nanoseconds launched_ns = is_launch_known ? events.process.api_calls[call].start_ns : no_time;
    std::string grid, block;
    std::string_view kind = "graph", source, destination;
    std::int64_t bytes = not_known, registers = not_known, static_bytes = not_known, dynamic_bytes = not_known;
    double throughput_gbs = -1;
    if (activity.kind == ActivityKind::kernel) {
      const KernelKind& of = device.kind_of(device.kernels[activity.index]);
      kind = "kernel";
      grid = extent(of.grid_x, of.grid_y, of.grid_z);
      block = extent(of.block_x, of.block_y, of.block_z);
      registers = of.registers_per_thread;
      static_bytes = of.static_shared_bytes;
      dynamic_bytes = of.dynamic_shared_bytes;
    } else if (activity.kind == ActivityKind::memory_operation) {
      const MemoryOperation& of = device.memory_operations[activity.index];
      kind = of.is_set ? "set" : "copy";
      bytes = of.bytes;
      if (of.end_ns > of.start_ns)  // bytes / ns = GB / s
        throughput_gbs = static_cast<double>(bytes) / static_cast<double>(of.end_ns - of.start_ns);
      if (!of.is_set) source = memory_kind_name(of.source_kind);
      destination = memory_kind_name(of.destination_kind);
    }
    row << activity.start_ns << activity.end_ns - activity.start_ns << kind
        << std::string_view(activity_name(events.trace, device, activity)) << std::int64_t{activity.context_id}
        << std::int64_t{activity.stream_id} << launched_ns
        << (is_launch_known ? activity.start_ns - launched_ns : not_known) << bytes << source << destination
        << std::string_view(grid) << std::string_view(block) << registers << static_bytes << dynamic_bytes
        << throughput_gbs;
  });
  return table;
}

Table cuda_api_gpu_table(const std::vector<Table>& rank_tables) {
  Table table = make_table(schema::cuda_api_gpu);
  RowWriter writer(table);
  for (auto& [rank, operations] : operations_by_rank(rank_tables)) {
    std::int64_t all_ns = 0;
    for (const OperationRow& operation : operations) all_ns += operation.total_ns;
    std::stable_sort(operations.begin(), operations.end(),
                     [](const OperationRow& a, const OperationRow& b) { return a.total_ns > b.total_ns; });
    for (const OperationRow& operation : operations) {
      writer << rank << sources[operation.source].category << operation.name() << percent(operation.total_ns, all_ns);
      for (const char* name : {"count", "total_ns"})
        writer << column<std::int64_t>(*operation.table, name)[operation.row];
      for (const char* name : {"mean_ns", "median_ns", "p90_ns", "p95_ns", "p99_ns"})
        writer << column<double>(*operation.table, name)[operation.row];
      for (const char* name : {"min_ns", "max_ns"})
        writer << column<std::int64_t>(*operation.table, name)[operation.row];
      writer << column<double>(*operation.table, "stddev_ns")[operation.row];
    }
  }
  return table;
}

}  // namespace nsys_explain::analysis
