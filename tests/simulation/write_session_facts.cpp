#include <algorithm>
#include <ctime>
#include <set>

#include <fmt/format.h>

#include "simulation/export_context.hpp"
#include "simulation/places.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::int64_t a_second = 1'000'000'000;

std::string utc_text(Nanoseconds utc_ns) {
  const std::time_t seconds = utc_ns / a_second;
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  return text;
}

void add_pair(Table& table, const std::string& name, const std::string& value) {
  table.set_text(1, name);
  table.set_text(2, value);
  table.insert();
}

void write_session_clock(ExportContext& context) {
  const TrueSession& session = context.session;
  const Nanoseconds utc = reported_utc_start_ns(session);
  Table start = context.table("TARGET_INFO_SESSION_START_TIME");
  start.set(start.column("utcEpochNs"), utc);
  start.set_text(start.column("utcTime"), utc_text(utc));
  start.set_text(start.column("localTime"), utc_text(utc));
  start.set(start.column("systemClockNs"), session.system_clock_ns);
  start.insert();

  const Nanoseconds duration =
      trace_time_ns(session, context.plan.export_style.repeats * context.job.end_ns) + 50'000'000;
  // Old releases count from about zero, 2025.5 and later from the node's boot.
  const Nanoseconds from = context.release.number >= 20255 ? session.system_clock_ns : 1'000'000;
  Table details = context.table("ANALYSIS_DETAILS");
  details.set(details.column("globalVid"), global_vm_id);
  details.set(details.column("duration"), duration);
  details.set(details.column("startTime"), from);
  details.set(details.column("stopTime"), from + duration);
  details.insert();
}

void write_export_metadata(ExportContext& context) {
  const NsysRelease& release = context.release;
  const PayloadStyle payload = context.plan.export_style.payload;
  const bool blobs = payload == PayloadStyle::blob || payload == PayloadStyle::hex_text;
  Table table = context.table(context.has_table("META_DATA_EXPORT") ? "META_DATA_EXPORT" : "EXPORT_META_DATA");
  const std::string report = context.session.file_name.substr(0, context.session.file_name.rfind('.')) + ".nsys-rep";
  add_pair(table, "EXPORT_PRODUCT_NAME", "NVIDIA Nsight Systems");
  add_pair(table, "EXPORT_PRODUCT_VERSION", release.product_version);
  add_pair(table, "EXPORT_SCHEMA_VERSION",
           fmt::format("{}.{}.{}", release.schema_major, release.schema_minor, release.schema_micro));
  add_pair(table, "EXPORT_SCHEMA_VERSION_MAJOR", std::to_string(release.schema_major));
  add_pair(table, "EXPORT_SCHEMA_VERSION_MINOR", std::to_string(release.schema_minor));
  add_pair(table, "EXPORT_SCHEMA_VERSION_MICRO", std::to_string(release.schema_micro));
  add_pair(table, "EXPORT_HOST", "export-host");
  add_pair(table, "EXPORT_USER", "export-user");
  add_pair(table, "EXPORT_PARAM_INPUT_FILE", report);
  add_pair(table, "EXPORT_PARAM_LAZY", context.plan.export_style.lazy ? "true" : "false");
  add_pair(table, "EXPORT_PARAM_INCLUDE_JSON", payload == PayloadStyle::json ? "true" : "false");
  add_pair(table, "EXPORT_PARAM_INCLUDE_BLOBS", blobs ? "true" : "false");
  add_pair(table, "EXPORT_PARAM_TIME_NORMALIZE", context.plan.export_style.utc_timestamps ? "true" : "false");
  add_pair(table, "EXPORT_PARAM_TIME_SHIFT", "0");
  add_pair(table, "EXPORT_PARAM_TABLES_TO_EXPORT", "");
  add_pair(table, "EXPORT_PARAM_TIMES_TO_EXPORT", "");
}

/// Variables of the process that nsys launched. Per-rank values exist only where nsys wraps a single rank.
std::vector<std::pair<std::string, std::string>> environment(const ExportContext& context) {
  const JobPlan& plan = context.plan;
  const std::int32_t node = context.session.node;
  std::vector<std::pair<std::string, std::string>> all{
      {"PATH", "/usr/local/cuda/bin:/usr/bin:/bin"},
      {"NCCL_DEBUG", "WARN"},
      {"AWS_SECRET_ACCESS_KEY", fmt::format("{}{:016x}", secret_prefix, Draw(plan.seed, Purpose::identity, 3).bits())}};
  const bool one_rank = plan.export_style.files == FileLayout::per_rank;
  const std::int32_t rank = context.session.ranks.front();
  const std::int32_t local = context.job.places[static_cast<std::size_t>(rank)].local_rank;
  switch (plan.export_style.rank_hint) {
    case RankHint::slurm:
      all.emplace_back("SLURM_NODEID", std::to_string(node));
      all.emplace_back("SLURM_NTASKS", std::to_string(plan.layout.ranks()));
      if (one_rank) all.emplace_back("SLURM_PROCID", std::to_string(rank));
      if (one_rank) all.emplace_back("SLURM_LOCALID", std::to_string(local));
      break;
    case RankHint::open_mpi:
      if (one_rank) all.emplace_back("OMPI_COMM_WORLD_RANK", std::to_string(rank));
      if (one_rank) all.emplace_back("OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(local));
      break;
    case RankHint::torchrun:
      if (one_rank) all.emplace_back("RANK", std::to_string(rank));
      if (one_rank) all.emplace_back("LOCAL_RANK", std::to_string(local));
      all.emplace_back("GROUP_RANK", std::to_string(node));
      break;
    default:
      break;
  }
  if (plan.export_style.isolated_devices && one_rank) all.emplace_back("CUDA_VISIBLE_DEVICES", std::to_string(local));
  return all;
}

void write_capture_metadata(ExportContext& context) {
  const auto variables = environment(context);
  if (context.has_table("META_DATA_CAPTURE")) {
    Table table = context.table("META_DATA_CAPTURE");
    Draw draw(context.plan.seed, Purpose::identity, 4, static_cast<std::uint64_t>(context.session.ranks.front()));
    const std::uint64_t high = draw.bits(), low = draw.bits();
    add_pair(table, "CAPTURE_EVENT_TYPE", "Cuda");
    if (context.plan.capture.nvtx) add_pair(table, "CAPTURE_EVENT_TYPE", "NvtxEvents");
    add_pair(table, "DEVICE_DISPLAY_NAME", node_name(context.session.node));
    add_pair(table, "CUDA_GRAPH_TRACE_OPTIONS:MODE",
             context.plan.workload.graph_mode == GraphMode::node ? "Node" : "Graph");
    add_pair(table, "PROCESS_0:COMMAND", "python3");
    add_pair(table, "PROCESS_0:ARGUMENT_0", "train.py");
    for (const auto& [name, value] : variables)
      add_pair(table, "PROCESS_0:ENVIRONMENT_VARIABLE", fmt::format("{}=\"{}\"", name, value));
    add_pair(table, "PROFILING_SESSION_UUID",
             fmt::format("{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFF,
                         low >> 48, low & 0xFFFFFFFFFFFF));
  }
  Table table = context.table("TARGET_INFO_SYSTEM_ENV");
  const auto add = [&](const char* name, int number, const std::string& value) {
    table.set(table.column("globalVid"), global_vm_id);
    table.set_text(table.column("devStateName"), "Local (CLI)");
    table.set_text(table.column("name"), name);
    table.set(table.column("nameEnum"), number);
    table.set_text(table.column("value"), value);
    table.insert();
  };
  std::string joined;
  for (const auto& [name, value] : variables) joined += fmt::format("{}={};", name, value);
  add("CpuArchitecture", 3, "x86_64");
  add("NvDriverVersion", 205, "580.95.05");
  add("OsDescription", 605, "Ubuntu 22.04.5 LTS");
  add("DeviceEnvironment", 610, joined);
  add("CudaDriverVersion", 611, "13000");
  add("Hostname", 619, node_name(context.session.node));
}

void write_gpu(Table& table, const RankPlace& place) {
  static constexpr std::pair<const char*, std::int64_t> facts[] = {{"vmId", global_vm_id},
                                                                   {"isDiscrete", 1},
                                                                   {"l2CacheSize", 52428800},
                                                                   {"totalMemory", 85029158912},
                                                                   {"memoryBandwidth", 3352320000000},
                                                                   {"clockRate", 1980000000},
                                                                   {"smCount", 132},
                                                                   {"luid", 0},
                                                                   {"revision", 161},
                                                                   {"threadsPerWarp", 32},
                                                                   {"asyncEngines", 3},
                                                                   {"maxWarpsPerSm", 64},
                                                                   {"maxBlocksPerSm", 32},
                                                                   {"maxThreadsPerBlock", 1024},
                                                                   {"computeMajor", 9},
                                                                   {"computeMinor", 0},
                                                                   {"smMajor", 9},
                                                                   {"smMinor", 0}};
  for (const auto& [name, value] : facts) table.set(table.column(name), value);
  table.set(table.column("id"), place.local_rank);
  table.set_text(table.column("name"), "NVIDIA H100 80GB HBM3");
  table.set_text(table.column("busLocation"), fmt::format("0000:{:02x}:00.0", 0x18 + 0x11 * place.local_rank));
  table.set(table.column("pwGpuId"), place.local_rank);
  table.set_text(table.column("uuid"), place.gpu_uuid);
  table.set_text(table.column("chipName"), "GH100");
  table.set(table.column("cuDevice"), place.local_rank);
  table.insert();
}

/// Every session sees all GPUs of its node; (pid, ordinal) is mapped for the processes it profiled.
void write_devices(ExportContext& context) {
  if (!context.plan.export_style.device_tables) return;
  Table gpus = context.table("TARGET_INFO_GPU");
  for (const RankPlace& place : context.job.places)
    if (place.node == context.session.node) write_gpu(gpus, place);
  if (!context.has_table("TARGET_INFO_CUDA_DEVICE")) return;
  Table devices = context.table("TARGET_INFO_CUDA_DEVICE");
  for (const RankIdentity& identity : context.ranks) {
    const RankPlace& place = context.job.places[static_cast<std::size_t>(identity.rank)];
    devices.set(devices.column("gpuId"), place.local_rank);
    devices.set(devices.column("cudaId"), place.device_id);
    devices.set(devices.column("pid"), place.process_id);
    devices.set_text(devices.column("uuid"), place.gpu_uuid);
    devices.set(devices.column("numMultiprocessors"), 132);
    devices.insert();
  }
}

void write_contexts(ExportContext& context) {
  const bool modern = context.has_table("TARGET_INFO_CUDA_CONTEXT_INFO");
  Table contexts = context.table(modern ? "TARGET_INFO_CUDA_CONTEXT_INFO" : "TARGET_INFO_CUDA_NULL_STREAM");
  Table streams = context.table("TARGET_INFO_CUDA_STREAM");
  for (const RankIdentity& identity : context.ranks) {
    const std::int32_t pid = context.job.places[static_cast<std::size_t>(identity.rank)].process_id;
    for (Table* table : {&contexts, &streams}) {
      table->set(table->column("hwId"), 0);
      table->set(table->column("vmId"), 1);
      table->set(table->column("processId"), pid);
      table->set(table->column("contextId"), identity.context);
    }
    contexts.set(contexts.column(modern ? "nullStreamId" : "streamId"), stream_ids[0]);
    contexts.set(contexts.column("deviceId"), identity.device);
    contexts.set(contexts.column("isGreenContext"), 0);
    contexts.insert();
    for (std::uint8_t stream = 0; stream < context.events(identity).stream_count; ++stream) {
      // NCCL's streams have high priority: a negative number stored unsigned.
      streams.set(streams.column("streamId"), context.stream_id(stream));
      streams.set(streams.column("priority"), stream == 0 ? 0 : 4294967295 - 4);
      streams.set(streams.column("flag"), stream == 0 ? 3 : 2);
      streams.insert();
    }
  }
}

void write_processes(ExportContext& context) {
  Table processes = context.table("PROCESSES");
  Table threads = context.table("ThreadNames");
  Table ranks = context.table("MPI_RANKS");
  const auto add_process = [&](std::int64_t pid, const char* name) {
    processes.set(processes.column("globalPid"), global_vm_id | (pid << 24));
    processes.set(processes.column("pid"), pid);
    processes.set_text(processes.column("name"), name);
    processes.insert();
  };
  add_process(1, "systemd");  // nsys lists processes that it did not profile, too
  std::set<std::int64_t> added;
  for (const RankIdentity& identity : context.ranks) {
    const std::int32_t pid = context.job.places[static_cast<std::size_t>(identity.rank)].process_id;
    if (added.insert(pid).second) add_process(pid, "python3");
    for (std::size_t thread = 0; thread < identity.threads.size(); ++thread) {
      threads.set(threads.column("nameId"), context.strings.id(thread == 0 ? "pt_main_thread" : "pt_autograd_0"));
      threads.set(threads.column("priority"), 20);
      threads.set(threads.column("globalTid"), identity.threads[thread]);
      threads.insert();
    }
    if (context.plan.export_style.rank_hint == RankHint::mpi_ranks) {
      ranks.set(ranks.column("globalTid"), identity.threads[0]);
      ranks.set(ranks.column("rank"), identity.rank);
      ranks.insert();
    }
  }
}

void write_diagnostics(ExportContext& context) {
  if (!context.has_table("DIAGNOSTIC_EVENT")) return;
  constexpr int info = 1, warning = 2;
  Table table = context.table("DIAGNOSTIC_EVENT");
  const auto add = [&](int severity, const std::string& text) {
    table.set(table.column("timestamp"), 0);
    table.set(table.column("timestampType"), 1);
    table.set(table.column("source"), 1);
    table.set(table.column("severity"), severity);
    table.set_text(table.column("text"), text);
    table.set(table.column("globalPid"), context.ranks.front().global_pid);
    table.insert();
  };
  add(info, "Profiling has started.");
  if (context.plan.capture.drop_share > 0) add(warning, "Not all CUDA events might have been collected.");
}

void write_enums(ExportContext& context) {
  for (const EnumTable& values : enum_tables()) {
    Table table(context.database, values.name,
                {{"id", "INTEGER", true, true}, {"name", "TEXT", false, false}, {"label", "TEXT", false, false}});
    for (const EnumTable::Value& value : values.values) {
      table.set(1, value.id);
      table.set_text(2, value.name);
      table.set_text(3, value.label);
      table.insert();
    }
  }
}

void write_strings(ExportContext& context) {
  Table table = context.table("StringIds");
  const std::vector<std::string>& texts = context.strings.texts();
  for (std::size_t id = 0; id < texts.size(); ++id) {
    table.set(1, static_cast<std::int64_t>(id));
    table.set_text(2, texts[id]);
    table.insert();
  }
}

}  // namespace

void write_session_facts(ExportContext& context) {
  write_session_clock(context);
  write_export_metadata(context);
  write_capture_metadata(context);
  write_devices(context);
  write_contexts(context);
  write_processes(context);
  write_diagnostics(context);
  write_enums(context);
  write_strings(context);
}

}  // namespace nsys_explain::synth
