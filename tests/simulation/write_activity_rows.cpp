#include <algorithm>

#include "simulation/export_context.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::int64_t no_stream = 4294967295;

const char* api_name(ApiFunction function) {
  switch (function) {
    case ApiFunction::launch_kernel:
      return "cudaLaunchKernel_v7000";
    case ApiFunction::launch_kernel_ex:
      return "cuLaunchKernelEx";
    case ApiFunction::memcpy:
      return "cudaMemcpy_v3020";
    case ApiFunction::memcpy_async:
      return "cudaMemcpyAsync_v3020";
    case ApiFunction::memset_async:
      return "cudaMemsetAsync_v3020";
    case ApiFunction::event_record:
      return "cudaEventRecord_v3020";
    case ApiFunction::stream_wait_event:
      return "cudaStreamWaitEvent_v3020";
    case ApiFunction::stream_synchronize:
      return "cudaStreamSynchronize_v3020";
    case ApiFunction::device_synchronize:
      return "cudaDeviceSynchronize_v3020";
    case ApiFunction::malloc:
      return "cudaMalloc_v3020";
    case ApiFunction::free:
      return "cudaFree_v3020";
    case ApiFunction::module_load:
      return "cuModuleLoadData";
    case ApiFunction::graph_launch:
      break;
  }
  return "cudaGraphLaunch_v10000";
}

/// Driver calls are class 1, runtime calls class 0 (ENUM_NSYS_EVENT_CLASS).
std::int64_t event_class(ApiFunction function) {
  return function == ApiFunction::launch_kernel_ex || function == ApiFunction::module_load ? 1 : 0;
}

bool launches_kernel(ApiFunction function) {
  return function == ApiFunction::launch_kernel || function == ApiFunction::launch_kernel_ex;
}

/// The columns that every GPU activity table has.
struct PlaceColumns {
  explicit PlaceColumns(const Table& table)
      : start(table.column("start")),
        end(table.column("end")),
        device(table.column("deviceId")),
        context(table.column("contextId")),
        green_context(table.column("greenContextId")),
        stream(table.column("streamId")),
        correlation(table.column("correlationId")),
        global_pid(table.column("globalPid")) {}

  void set_rank(Table& table, const RankIdentity& identity) const {
    table.set(device, identity.device);
    table.set(context, identity.context);
    table.set(green_context, 0);
    table.set(global_pid, identity.global_pid);
  }
  void set_event(Table& table, Nanoseconds start_ns, Nanoseconds end_ns, std::int64_t stream_id,
                 std::int64_t correlation_id) const {
    table.set(start, start_ns);
    table.set(end, end_ns);
    table.set(stream, stream_id);
    table.set(correlation, correlation_id);
  }

  int start, end, device, context, green_context, stream, correlation, global_pid;
};

void write_calls(ExportContext& context) {
  Table table = context.table("CUPTI_ACTIVITY_KIND_RUNTIME");
  const int start = table.column("start"), end = table.column("end"), kind = table.column("eventClass"),
            thread = table.column("globalTid"), correlation = table.column("correlationId"),
            name = table.column("nameId"), result = table.column("returnValue");
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    for (const std::uint32_t i : context.row_order(events.calls.size(), 1)) {
      const HostCall& call = events.calls[i];
      if (!identity.window.covers(call.start_ns, call.end_ns)) continue;
      if (context.plan.capture.lost_call_share > 0 && launches_kernel(call.function)) {
        Draw draw(context.plan.seed, Purpose::capture, 3, static_cast<std::uint64_t>(identity.rank), i);
        if (draw.uniform() < context.plan.capture.lost_call_share) continue;
      }
      table.set(start, context.host_time(identity.shift_ns + call.start_ns));
      table.set(end, context.host_time(identity.shift_ns + call.end_ns));
      table.set(kind, event_class(call.function));
      table.set(thread, identity.threads[call.thread]);
      table.set(correlation, identity.correlation(i));
      table.set(name, context.strings.id(api_name(call.function)));
      table.set(result, 0);
      table.insert();
    }
  }
}

/// Names of a kernel type in the file's string table.
struct KernelNames {
  std::int64_t demangled = 0, shortened = 0, mangled = 0;
};

std::vector<KernelNames> kernel_names(ExportContext& context) {
  std::vector<KernelNames> names;
  for (const KernelType& type : context.catalogue)
    names.push_back({context.strings.id(type.demangled_name), context.strings.id(type.short_name),
                     context.strings.id(type.mangled_name)});
  return names;
}

/// Columns whose values do not vary between our kernels.
void set_constant_kernel_columns(Table& table) {
  static constexpr std::pair<const char*, std::int64_t> constants[] = {{"launchType", 1},
                                                                       {"cacheConfig", 1},
                                                                       {"gridY", 1},
                                                                       {"gridZ", 1},
                                                                       {"blockY", 1},
                                                                       {"blockZ", 1},
                                                                       {"localMemoryPerThread", 0},
                                                                       {"localMemoryTotal", 250871808},
                                                                       {"sharedMemoryLimitConfig", 0},
                                                                       {"clusterX", 0},
                                                                       {"clusterY", 0},
                                                                       {"clusterZ", 0},
                                                                       {"clusterSchedulingPolicy", 1},
                                                                       {"maxPotentialClusterSize", 0},
                                                                       {"maxActiveClusters", 0}};
  for (const auto& [name, value] : constants) table.set(table.column(name), value);
  table.set_text(table.column("tensorSizeMinusOneElements"), "[]");
}

/// The driver sets shared memory aside in steps of 32 KiB.
std::int64_t carve_out(std::int64_t bytes) {
  constexpr std::int64_t granule = 32768;
  return (bytes + granule - 1) / granule * granule;
}

// CUPTI numbers graphs and their instantiations together, and nodes within each.
std::int64_t graph_id(std::size_t graph) {
  return 1 + 2 * static_cast<std::int64_t>(graph);
}
std::int64_t executable_id(std::size_t graph) {
  return graph_id(graph) + 1;
}
std::int64_t node_id(std::int64_t of_graph, std::uint32_t node) {
  return of_graph << 32 | node;
}

std::size_t graph_of(const RankEvents& events, const DeviceActivity& kernel) {
  const auto after =
      std::upper_bound(events.graphs.begin(), events.graphs.end(), kernel.graph_node - 1,
                       [](std::uint32_t node, const CapturedGraph& graph) { return node < graph.first_node; });
  return static_cast<std::size_t>(after - events.graphs.begin()) - 1;
}

std::int64_t write_kernels(ExportContext& context) {
  Table table = context.table("CUPTI_ACTIVITY_KIND_KERNEL");
  const PlaceColumns place(table);
  const int demangled = table.column("demangledName"), shortened = table.column("shortName"),
            mangled = table.column("mangledName"), registers = table.column("registersPerThread"),
            grid_x = table.column("gridX"), block_x = table.column("blockX"),
            static_shared = table.column("staticSharedMemory"), dynamic_shared = table.column("dynamicSharedMemory"),
            grid_id = table.column("gridId"), executed = table.column("sharedMemoryExecuted"),
            graph_node = table.column("graphNodeId"), graph = table.column("graphId");
  const std::vector<KernelNames> names = kernel_names(context);
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    for (const std::uint32_t i : context.row_order(events.activities.size(), 2)) {
      const DeviceActivity& kernel = events.activities[i];
      if (kernel.kind != ActivityKind::kernel || !is_exported(context.job, context.plan, identity.rank, i)) continue;
      if (table.rows() == 0) set_constant_kernel_columns(table);
      const KernelType& type = context.catalogue[kernel.kernel];
      place.set_rank(table, identity);
      place.set_event(table, context.gpu_time(identity.shift_ns + kernel.start_ns),
                      context.gpu_time(identity.shift_ns + kernel.end_ns), context.stream_id(kernel.stream),
                      identity.correlation(kernel.call));
      table.set(demangled, names[kernel.kernel].demangled);
      table.set(shortened, names[kernel.kernel].shortened);
      table.set(mangled, names[kernel.kernel].mangled);
      table.set(registers, type.registers);
      table.set(grid_x, kernel.grid_x);
      table.set(block_x, type.block_x);
      table.set(static_shared, type.static_shared_bytes);
      table.set(dynamic_shared, type.dynamic_shared_bytes);
      table.set(executed, carve_out(type.static_shared_bytes + type.dynamic_shared_bytes));
      table.set(grid_id, 1 + i);
      if (kernel.graph_node != 0) {
        const auto of_kernel = graph_of(events, kernel);
        table.set(graph_node, node_id(executable_id(of_kernel), kernel.graph_node));
        table.set(graph, executable_id(of_kernel));
      } else {
        table.set_null(graph_node);
        table.set_null(graph);
      }
      table.insert();
    }
  }
  return table.rows();
}

void write_memory_operations(ExportContext& context) {
  constexpr int pageable = 0, pinned = 1, device = 2;  // ENUM_CUDA_MEM_KIND
  Table copies = context.table("CUPTI_ACTIVITY_KIND_MEMCPY");
  Table sets = context.table("CUPTI_ACTIVITY_KIND_MEMSET");
  const PlaceColumns copy_place(copies), set_place(sets);
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    for (const std::uint32_t i : context.row_order(events.activities.size(), 3)) {
      const DeviceActivity& activity = events.activities[i];
      if (activity.kind == ActivityKind::kernel || !is_exported(context.job, context.plan, identity.rank, i)) continue;
      const bool is_copy = activity.kind == ActivityKind::copy;
      Table& table = is_copy ? copies : sets;
      const PlaceColumns& place = is_copy ? copy_place : set_place;
      place.set_rank(table, identity);
      place.set_event(table, context.gpu_time(identity.shift_ns + activity.start_ns),
                      context.gpu_time(identity.shift_ns + activity.end_ns), context.stream_id(activity.stream),
                      identity.correlation(activity.call));
      table.set(table.column("bytes"), activity.bytes);
      table.set_null(table.column("graphNodeId"));
      if (is_copy) {
        const int host_kind = activity.pageable ? pageable : pinned;
        table.set(table.column("copyKind"), activity.to_device ? 1 : 2);
        table.set(table.column("srcKind"), activity.to_device ? host_kind : device);
        table.set(table.column("dstKind"), activity.to_device ? device : host_kind);
        table.set(table.column("copyCount"), 1);
      } else {
        table.set(table.column("value"), 0);
        table.set(table.column("memKind"), device);
      }
      table.insert();
    }
  }
}

void write_synchronisations(ExportContext& context) {
  Table table = context.table("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION");
  const PlaceColumns place(table);
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const Synchronisation& sync : context.events(identity).synchronisations) {
      if (!identity.window.covers(sync.start_ns, sync.end_ns)) continue;
      place.set_rank(table, identity);
      place.set_event(table, context.host_time(identity.shift_ns + sync.start_ns),
                      context.host_time(identity.shift_ns + sync.end_ns),
                      sync.type == 4 ? no_stream : context.stream_id(sync.stream), identity.correlation(sync.call));
      table.set(table.column("syncType"), sync.type);
      const bool on_event = sync.event_record != no_index;
      table.set(table.column("eventId"), on_event ? 1 + sync.event_record % 64 : no_stream);
      table.set(table.column("eventSyncId"), on_event ? 1 + sync.event_record : 0);
      table.insert();
    }
  }
}

void write_event_records(ExportContext& context) {
  Table table = context.table("CUPTI_ACTIVITY_KIND_CUDA_EVENT");
  const PlaceColumns place(table);
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    for (std::uint32_t i = 0; i < events.event_records.size(); ++i) {
      const EventRecord& record = events.event_records[i];
      const HostCall& call = events.calls[record.call];
      if (!identity.window.covers(call.start_ns, call.end_ns)) continue;
      place.set_rank(table, identity);
      table.set(place.stream, context.stream_id(record.stream));
      table.set(place.correlation, identity.correlation(record.call));
      table.set(table.column("timestamp"), 0);  // completion times are not collected by default
      table.set(table.column("eventId"), 1 + i % 64);
      table.set(table.column("eventSyncId"), 1 + i);
      table.insert();
    }
  }
}

void write_graph_creation(ExportContext& context, const RankIdentity& identity, Table& table) {
  const std::vector<CapturedGraph>& graphs = context.events(identity).graphs;
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    if (!identity.window.covers(graphs[g].begin_ns, graphs[g].instantiated_ns)) continue;
    const auto row = [&](Nanoseconds at_ns, std::int64_t event_class, const char* name) {
      const Nanoseconds time_ns = context.host_time(identity.shift_ns + at_ns);
      table.set(table.column("start"), time_ns);
      table.set(table.column("end"), time_ns);
      table.set(table.column("eventClass"), event_class);
      table.set(table.column("globalTid"), identity.threads[0]);
      table.set(table.column("nameId"), context.strings.id(name));
      table.set(table.column("graphId"), graph_id(g));
    };
    row(graphs[g].begin_ns, 95, "Graph Creation");
    table.set_null(table.column("graphExecId"));
    table.insert();
    row(graphs[g].instantiated_ns, 94, "Graph Instantiation");
    table.set(table.column("graphExecId"), executable_id(g));
    table.insert();
  }
}

/// A node has a row when a call is captured into it, and its copy one when the graph is instantiated.
void write_graph_nodes(ExportContext& context, const RankIdentity& identity, Table& table) {
  const RankEvents& events = context.events(identity);
  const auto row = [&](Nanoseconds at_ns, std::uint8_t thread, std::int64_t id) {
    const Nanoseconds time_ns = context.host_time(identity.shift_ns + at_ns);
    table.set(table.column("start"), time_ns);
    table.set(table.column("end"), time_ns);
    table.set(table.column("eventClass"), 77);
    table.set(table.column("globalTid"), identity.threads[thread]);
    table.set(table.column("nameId"), context.strings.id("Graph Node Creation"));
    table.set(table.column("graphNodeId"), id);
  };
  const int original = table.column("originalGraphNodeId");
  for (std::size_t g = 0; g < events.graphs.size(); ++g) {
    const CapturedGraph& graph = events.graphs[g];
    for (std::uint32_t n = graph.first_node; n < graph.first_node + graph.nodes; ++n) {
      const GraphNodeRecord& node = events.graph_nodes[n];
      if (identity.window.covers(node.captured_ns, node.captured_ns)) {
        row(node.captured_ns, node.thread, node_id(graph_id(g), 1 + n));
        table.set_null(original);
        table.insert();
      }
      if (identity.window.covers(graph.instantiated_ns, graph.instantiated_ns)) {
        row(graph.instantiated_ns, 0, node_id(executable_id(g), 1 + n));
        table.set(original, node_id(graph_id(g), 1 + n));
        table.insert();
      }
    }
  }
}

void write_graph_replays(ExportContext& context, const RankIdentity& identity, Table& table) {
  const PlaceColumns place(table);
  for (const GraphReplay& replay : context.events(identity).graph_replays) {
    if (!identity.window.covers(replay.start_ns, replay.end_ns)) continue;
    place.set_rank(table, identity);
    place.set_event(table, context.gpu_time(identity.shift_ns + replay.start_ns),
                    context.gpu_time(identity.shift_ns + replay.end_ns), context.stream_id(0),
                    identity.correlation(replay.call));
    table.set(table.column("graphId"), graph_id(replay.graph));
    table.set(table.column("graphExecId"), executable_id(replay.graph));
    table.insert();
  }
}

void write_graphs(ExportContext& context) {
  Table events = context.table("CUDA_GRAPH_EVENTS");
  Table nodes = context.table("CUDA_GRAPH_NODE_EVENTS");
  Table replays = context.table("CUPTI_ACTIVITY_KIND_GRAPH_TRACE");
  for (const RankIdentity& identity : context.rank_passes()) {
    write_graph_creation(context, identity, events);
    if (context.plan.workload.graph_mode == GraphMode::node) write_graph_nodes(context, identity, nodes);
    if (context.plan.workload.graph_mode == GraphMode::whole) write_graph_replays(context, identity, replays);
  }
}

}  // namespace

std::int64_t write_activity_rows(ExportContext& context) {
  write_calls(context);
  const std::int64_t kernels = write_kernels(context);
  write_memory_operations(context);
  write_synchronisations(context);
  write_event_records(context);
  write_host_rows(context);
  write_graphs(context);
  return kernels;
}

}  // namespace nsys_explain::synth
