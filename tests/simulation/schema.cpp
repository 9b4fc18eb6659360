#include "simulation/schema.hpp"

#include <array>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "simulation/job_plan.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::array<NsysRelease, 6> releases{{{20224, "2022.4", "2022.4.2.50", 3, 0, 0},
                                               {20233, "2023.3", "2023.3.1.92", 3, 4, 0},
                                               {20245, "2024.5", "2024.5.1.113", 3, 13, 2},
                                               {20255, "2025.5", "2025.5.2.266", 3, 24, 0},
                                               {20262, "2026.2", "2026.2.1.210", 3, 25, 0},
                                               {20264, "2026.4", "2026.4.1.100", 3, 28, 1}}};

/// One word per column: name:TYPE, with I(NTEGER), T(EXT), R(EAL), "!" not null, "*" primary key, "@N" from release N
/// on, "^N" up to release N. From real exports of 2022.1 to 2026.2 (docs/input.md, Versions).
struct TableText {
  const char* columns;
  int since = 0;
  int until = 99999;
};

const std::map<std::string_view, TableText>& tables() {
  static const std::map<std::string_view, TableText> all{
      {"StringIds", {"id:I!* value:T!"}},
      {"EXPORT_META_DATA", {"name:T! value:T", 0, 20232}},
      {"META_DATA_EXPORT", {"name:T! value:T", 20233}},
      {"META_DATA_CAPTURE", {"name:T! value:T", 20233}},
      {"TARGET_INFO_SESSION_START_TIME", {"utcEpochNs:I utcTime:T localTime:T systemClockNs:I@20256"}},
      {"ANALYSIS_DETAILS", {"globalVid:I! duration:I! startTime:I! stopTime:I!"}},
      {"TARGET_INFO_SYSTEM_ENV", {"globalVid:I devStateName:T! name:T! nameEnum:I! value:T!"}},
      {"TARGET_INFO_GPU",
       {"vmId:I! id:I! name:T busLocation:T isDiscrete:I l2CacheSize:I totalMemory:I memoryBandwidth:I clockRate:I smCount:I pwGpuId:I uuid:T luid:I chipName:T cuDevice:I ctxswDevPath:T ctrlDevPath:T revision:I nodeMask:I constantMemory:I maxIPC:I maxRegistersPerBlock:I maxShmemPerBlock:I maxShmemPerBlockOptin:I maxShmemPerSm:I maxRegistersPerSm:I threadsPerWarp:I asyncEngines:I maxWarpsPerSm:I maxBlocksPerSm:I maxThreadsPerBlock:I maxBlockDimX:I maxBlockDimY:I maxBlockDimZ:I maxGridDimX:I maxGridDimY:I maxGridDimZ:I computeMajor:I computeMinor:I smMajor:I smMinor:I numaNodeId:I@20264"}},
      {"TARGET_INFO_CUDA_DEVICE", {"gpuId:I cudaId:I! pid:I! uuid:T@20256 numMultiprocessors:I@20256", 20251}},
      {"TARGET_INFO_CUDA_NULL_STREAM", {"streamId:I! hwId:I! vmId:I! processId:I! deviceId:I! contextId:I!", 0, 20239}},
      {"TARGET_INFO_CUDA_CONTEXT_INFO",
       {"nullStreamId:I! hwId:I! vmId:I! processId:I! deviceId:I! contextId:I! parentContextId:I isGreenContext:I",
        20240}},
      {"TARGET_INFO_CUDA_STREAM", {"streamId:I! hwId:I! vmId:I! processId:I! contextId:I! priority:I! flag:I!"}},
      {"PROCESSES", {"globalPid:I pid:I name:T"}},
      {"ThreadNames", {"nameId:I! priority:I globalTid:I"}},
      {"MPI_RANKS", {"globalTid:I! rank:I!"}},
      {"DIAGNOSTIC_EVENT", {"timestamp:I! timestampType:I! source:I! severity:I! text:T! globalPid:I", 20240}},
      {"PROFILER_OVERHEAD", {"start:I! end:I! globalTid:I nameId:I! returnValue:I!^20254 overheadType:I!@20255"}},
      {"CUPTI_ACTIVITY_KIND_OVERHEAD",
       {"start:I! end:I! eventClass:I! globalTid:I correlationId:I nameId:I overheadType:I!", 20255}},
      {"OSRT_API",
       {"start:I! end:I! eventClass:I! globalTid:I nameId:I! returnValue:I! nestingLevel:I callchainId:I! argumentsId:I!@20255"}},
      {"COMPOSITE_EVENTS", {"id:I!* start:I! cpu:I threadState:I globalTid:I cpuCycles:I!"}},
      {"SAMPLING_CALLCHAINS",
       {"id:I! symbol:I! module:I! kernelMode:I thumbCode:I unresolved:I specialEntry:I originalIP:I unwindMethod:I stackDepth:I!"}},
      {"MPI_COLLECTIVES_EVENTS",
       {"start:I! end:I! globalTid:I textId:I commHandle:I rootRank:I size:I recvSize:I requestHandle:I"}},
      {"SCHED_EVENTS", {"start:I! cpu:I! isSchedIn:I! globalTid:I threadState:I@20240 threadBlock:I@20240"}},
      {"CUPTI_ACTIVITY_KIND_RUNTIME",
       {"start:I! end:I! eventClass:I! globalTid:I correlationId:I nameId:I! returnValue:I! callchainId:I"}},
      {"CUPTI_ACTIVITY_KIND_KERNEL",
       {"start:I! end:I! deviceId:I! contextId:I! greenContextId:I@20245 streamId:I! correlationId:I globalPid:I demangledName:I! shortName:I! mangledName:I launchType:I cacheConfig:I registersPerThread:I! gridX:I! gridY:I! gridZ:I! blockX:I! blockY:I! blockZ:I! staticSharedMemory:I! dynamicSharedMemory:I! localMemoryPerThread:I! localMemoryTotal:I! gridId:I! sharedMemoryExecuted:I graphNodeId:I sharedMemoryLimitConfig:I qmdBulkReleaseDone:I@20255 qmdPreexitDone:I@20255 qmdLastCtaDone:I@20255 graphId:I@20255 clusterX:I@20255 clusterY:I@20255 clusterZ:I@20255 clusterSchedulingPolicy:I@20255 maxPotentialClusterSize:I@20255 maxActiveClusters:I@20255 sharedMemoryRequestedPercentage:I@20256 tensorSizeMinusOneElements:T!@20262"}},
      {"CUPTI_ACTIVITY_KIND_MEMCPY",
       {"start:I! end:I! deviceId:I! contextId:I! greenContextId:I@20245 streamId:I! correlationId:I globalPid:I bytes:I! copyKind:I! deprecatedSrcId:I srcKind:I dstKind:I srcDeviceId:I srcContextId:I dstDeviceId:I dstContextId:I migrationCause:I graphNodeId:I virtualAddress:I copyCount:I@20255"}},
      {"CUPTI_ACTIVITY_KIND_MEMSET",
       {"start:I! end:I! deviceId:I! contextId:I! greenContextId:I@20240 streamId:I! correlationId:I globalPid:I value:I! bytes:I! graphNodeId:I memKind:I"}},
      {"CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
       {"start:I! end:I! deviceId:I! contextId:I! greenContextId:I@20245 streamId:I! correlationId:I globalPid:I deprecatedSyncType:I@20255 syncType:I! eventId:I! eventSyncId:I@20255"}},
      {"CUPTI_ACTIVITY_KIND_CUDA_EVENT",
       {"timestamp:I@20255 deviceId:I! contextId:I! greenContextId:I@20255 streamId:I! correlationId:I globalPid:I eventId:I! eventSyncId:I@20255"}},
      {"CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
       {"start:I! end:I! deviceId:I! contextId:I! greenContextId:I@20245 streamId:I! correlationId:I globalPid:I graphId:I! graphExecId:I!"}},
      {"CUDA_GRAPH_EVENTS",
       {"start:I! end:I! eventClass:I! globalTid:I nameId:I! graphId:I originalGraphId:I graphExecId:I"}},
      {"CUDA_GRAPH_NODE_EVENTS",
       {"start:I! end:I! eventClass:I! globalTid:I nameId:I! graphNodeId:I! originalGraphNodeId:I"}},
      {"NVTX_EVENTS",
       {"start:I! end:I eventType:I! rangeId:I category:I color:I text:T globalTid:I endGlobalTid:I textId:I domainId:I uint64Value:I int64Value:I doubleValue:R uint32Value:I int32Value:I floatValue:R jsonTextId:I jsonText:T binaryData:T@20240 eventId:I!*@20264"}},
      {"NVTX_PAYLOAD_SCHEMAS",
       {"domainId:I schemaId:I name:T type:I flags:I numEntries:I payloadSize:I alignTo:I", 20240}},
      {"NVTX_PAYLOAD_SCHEMA_ENTRIES",
       {"domainId:I! schemaId:I! idx:I! flags:I type:I name:T description:T arrayOrUnionDetail:I offset:I", 20240}},
      {"NVTX_EVENTS_PAYLOAD_SCHEMAS", {"eventId:I! globalPid:I! domainId:I! payloadSchemaID:I!", 20264}},
      {"NVTX_EXPORT_TRANSLATION", {"originalName:T! sanitizedName:T!", 20264}},
      {"GPU_METRICS", {"rawTimestamp:I!@20240 timestamp:I! typeId:I! metricId:I! value:I!", 20233}},
      {"TARGET_INFO_GPU_METRICS", {"typeId:I! sourceId:I! typeName:T! metricId:I! metricName:T!", 20233}},
      {"NET_NIC_METRIC", {"start:I! end:I! globalId:I! portId:I! metricsListId:I! metricsIdx:I! value:I!", 20233}},
      {"NET_IB_SWITCH_METRIC",
       {"start:I! end:I! globalId:I! portId:I! metricsListId:I! metricsIdx:I! value:I!", 20233}},
      {"TARGET_INFO_NETWORK_METRICS", {"metricsListId:I! metricsIdx:I! name:T! description:T! unit:T!", 20233}},
      {"TARGET_INFO_NIC_INFO", {"GUID:I! stateName:T! nicId:I! name:T! deviceId:I! vendorId:I! linkLayer:I!", 20233}},
      {"NIC_ID_MAP", {"nicId:I! globalId:I!", 20233}},
  };
  return all;
}

}  // namespace

const NsysRelease& nsys_release(const std::string& name) {
  for (const NsysRelease& release : releases)
    if (name == release.name) return release;
  std::string known;
  for (const NsysRelease& release : releases) known += fmt::format(" {}", release.name);
  throw PlanError(fmt::format(
      "nsys {} is not among the releases whose tables are known, so no export can be written; choose one of{}", name,
      known));
}

std::vector<std::string_view> table_names(int release_number) {
  std::vector<std::string_view> names;
  for (const auto& [name, text] : tables())
    if (release_number >= text.since && release_number <= text.until) names.push_back(name);
  return names;
}

std::vector<Column> columns_of(std::string_view table, int release_number) {
  std::vector<Column> columns;
  const auto entry = tables().find(table);
  if (entry == tables().end()) throw std::logic_error(fmt::format("no table {} in the schema", table));
  const TableText& text = entry->second;
  if (release_number < text.since || release_number > text.until) return columns;
  const std::string_view all = text.columns;
  std::size_t begin = 0;
  while (begin < all.size()) {
    const std::size_t end = std::min(all.find(' ', begin), all.size());
    const std::string word(all.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t colon = word.find(':'), since = word.find('@'), until = word.find('^');
    if (since != std::string::npos && release_number < std::atoi(word.c_str() + since + 1)) continue;
    if (until != std::string::npos && release_number > std::atoi(word.c_str() + until + 1)) continue;
    Column column;
    column.name = word.substr(0, colon);
    column.type = word[colon + 1] == 'I' ? "INTEGER" : word[colon + 1] == 'R' ? "REAL" : "TEXT";
    column.not_null = word.find('!') != std::string::npos;
    column.primary_key = word.find('*') != std::string::npos;
    columns.push_back(std::move(column));
  }
  return columns;
}

const std::vector<EnumTable>& enum_tables() {
  static const std::vector<EnumTable> all{
      {"ENUM_NSYS_EVENT_TYPE",
       {{33, "NvtxCategory", "NvtxCategory"},
        {34, "NvtxMark", "NvtxMark"},
        {39, "NvtxThread", "NvtxThread"},
        {59, "NvtxPushPopRange", "NvtxPushPopRange"},
        {60, "NvtxStartEndRange", "NvtxStartEndRange"},
        {75, "NvtxDomainCreate", "NvtxDomainCreate"},
        {76, "NvtxDomainDestroy", "NvtxDomainDestroy"}}},
      {"ENUM_NSYS_EVENT_CLASS",
       {{0, "TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"},
        {1, "TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"},
        {27, "TRACE_PROCESS_EVENT_OS_RUNTIME", "OS runtime"}}},
      {"ENUM_CUDA_MEMCPY_OPER",
       {{0, "CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"},
        {1, "CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"},
        {2, "CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"},
        {8, "CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"},
        {10, "CUDA_MEMCPY_KIND_PTOP", "Peer-to-Peer"}}},
      {"ENUM_CUDA_MEM_KIND",
       {{0, "CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"},
        {1, "CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"},
        {2, "CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"},
        {4, "CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"}}},
      {"ENUM_CUPTI_SYNC_TYPE",
       {{0, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN", "Unknown"},
        {1, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"},
        {2, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"},
        {3, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"},
        {4, "CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"}}},
      {"ENUM_CUPTI_OVERHEAD_TYPE",
       {{0, "OVERHEAD_UNDEFINED", "Undefined"},
        {1, "OVERHEAD_UNKNOWN", "Unknown"},
        {3, "OVERHEAD_CUPTI_BUFFER_FLUSH", "Buffer flush (Profiler)"},
        {4, "OVERHEAD_CUPTI_INSTRUMENTATION", "Instrumentation (Profiler)"}}},
      {"ENUM_CUDA_KERNEL_LAUNCH_TYPE",
       {{0, "CUDA_KERNEL_LAUNCH_TYPE_UNKNOWN", "Unknown"}, {1, "CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular"}}},
      {"ENUM_DIAGNOSTIC_SEVERITY_LEVEL",
       {{0, "UnknownLevel", "Unknown"}, {1, "Info", "Info"}, {2, "Warning", "Warning"}, {3, "Error", "Error"}}},
  };
  return all;
}

}  // namespace nsys_explain::synth
