#include "ingest/kineto/kineto_tables.hpp"

#include <utility>

#include <fmt/format.h>

namespace nsys_explain::ingest {
namespace {

/// As in docs/input.md, "Process, thread, device".
constexpr int process_shift = 24;
constexpr std::int64_t id_mask = (std::int64_t{1} << process_shift) - 1;

constexpr std::int64_t push_pop_range = 59, domain_create = 75;  // ENUM_NSYS_EVENT_TYPE
constexpr std::int64_t nccl_domain = 1;

/// 2000-01-01: times without a base that lie after it are UTC.
constexpr Nanoseconds first_utc_ns = 946'684'800'000'000'000;

Cell cell(std::int64_t value) {
  return value < 0 ? Cell() : Cell(value);
}

/// "Memcpy DtoH (Device -> Pinned)": ENUM_CUDA_MEMCPY_OPER, and twice ENUM_CUDA_MEM_KIND.
struct CopyKinds {
  std::int64_t copy = 0, source = -1, destination = -1;
};

std::int64_t memory_kind(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> kinds{
      {{"Pageable", 0}, {"Pinned", 1}, {"Device", 2}, {"Array", 3}, {"Managed", 4}}};
  for (const auto& [known, kind] : kinds)
    if (name == known) return kind;
  return -1;
}

CopyKinds copy_kinds(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 5> directions{
      {{"HtoD", 1}, {"DtoH", 2}, {"DtoD", 8}, {"HtoH", 9}, {"PtoP", 10}}};
  CopyKinds kinds;
  for (const auto& [known, kind] : directions)
    if (name.find(known) != std::string_view::npos) kinds.copy = kind;
  const std::size_t open = name.find('('), arrow = name.find(" -> "), close = name.find(')');
  if (open < arrow && arrow < close && close != std::string_view::npos) {
    kinds.source = memory_kind(name.substr(open + 1, arrow - open - 1));
    kinds.destination = memory_kind(name.substr(arrow + 4, close - arrow - 4));
  }
  return kinds;
}

/// CUpti_ActivitySynchronizationType.
std::int64_t wait_type(std::string_view kind) {
  if (kind.starts_with("Event")) return 1;
  if (kind.starts_with("Stream Wait")) return 2;
  if (kind.starts_with("Stream")) return 3;
  return kind.starts_with("Context") ? 4 : 0;
}

}  // namespace

KinetoTables::KinetoTables(const std::string& exported)
    : writer_(exported),
      kernels_(writer_.table(
          "CUPTI_ACTIVITY_KIND_KERNEL",
          "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER")),
      copies_(writer_.table(
          "CUPTI_ACTIVITY_KIND_MEMCPY",
          "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER")),
      sets_(writer_.table(
          "CUPTI_ACTIVITY_KIND_MEMSET",
          "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes INTEGER")),
      calls_(writer_.table(
          "CUPTI_ACTIVITY_KIND_RUNTIME",
          "start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER, callchainId INTEGER")),
      waits_(writer_.table(
          "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
          "start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, eventId INTEGER, eventSyncId INTEGER")),
      records_(writer_.table(
          "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
          "deviceId INTEGER, contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, eventId INTEGER, eventSyncId INTEGER")),
      ranges_(writer_.table(
          "NVTX_EVENTS",
          "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonText TEXT")),
      collectives_(writer_.table("collective_kernels", "correlationId INTEGER, textId INTEGER, jsonText TEXT")) {}

std::int64_t KinetoTables::global_pid() const {
  return process_ < 0 ? 0 : process_ << process_shift;
}

std::int64_t KinetoTables::global_tid(const TraceEvent& event) {
  if (process_ < 0) process_ = event.process > 0 && event.process <= id_mask ? event.process : 1;
  std::int64_t thread = event.thread;
  if (thread < 0 || thread > id_mask)
    thread =
        thread_numbers_.try_emplace(thread, id_mask - static_cast<std::int64_t>(thread_numbers_.size())).first->second;
  return global_pid() | (thread & id_mask);
}

/// Empty, and counted, where the event has no time.
std::optional<KinetoTables::Span> KinetoTables::span(const TraceEvent& event) {
  Span time;
  if (event.start_ns && event.duration_ns) {
    if (!origin_ns_) origin_ns_ = event.start_ns;
    if (!__builtin_sub_overflow(*event.start_ns, *origin_ns_, &time.start) &&
        !__builtin_add_overflow(time.start, *event.duration_ns, &time.end)) {
      return time;
    }
  }
  ++unreadable_;
  return std::nullopt;
}

void KinetoTables::add_event(const std::string& object) {
  ++events_;
  const std::optional<TraceEvent> event = parser_.event(object);
  if (!event) {
    ++unreadable_;
    return;
  }
  constexpr std::size_t most_processes = 256;
  if (event->is_process_name && process_names_.size() < most_processes) process_names_[event->process] = event->name;
  const std::string& category = event->category;
  const bool is_call = category == "cuda_runtime" || category == "cuda_driver";
  const bool is_kernel = category == "kernel", is_copy = category == "gpu_memcpy", is_set = category == "gpu_memset";
  const bool is_operator = category == "cpu_op", is_range = category == "user_annotation";
  const bool is_wait = category == "cuda_sync", is_function = category == "python_function";
  is_amd_ = is_amd_ || (is_call && event->name.starts_with("hip"));
  if (!event->is_complete ||
      !(is_call || is_kernel || is_copy || is_set || is_operator || is_range || is_wait || is_function))
    return;
  const std::optional<Span> time = span(*event);
  if (!time) return;
  if (is_call) return add_call(*event, *time);
  if (is_operator || is_range) return add_range(*event, *time, is_operator);
  if (is_function) return host_ranges_.add_function(time->start, time->end, global_tid(*event), event->name);
  has_rows_before_process_ = has_rows_before_process_ || process_ < 0;
  if (is_kernel) return add_kernel(*event, *time);
  if (is_wait) return add_wait(*event, *time);
  add_memory(*event, *time, is_set);
}

void KinetoTables::add_kernel(const TraceEvent& event, const Span& time) {
  writer_.row(kernels_, {time.start, time.end, cell(event.device), cell(event.context), cell(event.stream),
                         cell(event.correlation), global_pid(), writer_.id(event.name), cell(event.registers),
                         event.grid[0], event.grid[1], event.grid[2], event.block[0], event.block[1], event.block[2],
                         cell(event.shared_bytes), event.graph_node > 0 ? Cell(event.graph_node) : Cell()});
  if (!event.name.starts_with("nccl")) return;
  ++communication_kernels_;
  add_collective(event);
}

/// The call becomes a range when all launches are known: rows of the launch may come later.
void KinetoTables::add_collective(const TraceEvent& event) {
  if (event.correlation < 0) return;
  const auto call = collective_call(event.collective, distributed_.rank);
  if (call) ++told_collectives_;
  writer_.row(collectives_, {event.correlation, call ? Cell(writer_.id(call->label)) : Cell(),
                             call ? Cell(std::string_view(call->payload)) : Cell()});
}

void KinetoTables::add_memory(const TraceEvent& event, const Span& time, bool is_set) {
  if (is_set) {
    writer_.row(sets_, {time.start, time.end, cell(event.device), cell(event.context), cell(event.stream),
                        cell(event.correlation), global_pid(), cell(event.bytes)});
    return;
  }
  const CopyKinds kinds = copy_kinds(event.name);
  writer_.row(copies_, {time.start, time.end, cell(event.device), cell(event.context), cell(event.stream),
                        cell(event.correlation), global_pid(), cell(event.bytes), kinds.copy, cell(kinds.source),
                        cell(kinds.destination)});
}

void KinetoTables::add_call(const TraceEvent& event, const Span& time) {
  writer_.row(calls_,
              {time.start, time.end, global_tid(event), cell(event.correlation), writer_.id(event.name), Cell()});
}

/// A wait names the record that it waits for by the call that made it; the record itself is no event.
void KinetoTables::add_wait(const TraceEvent& event, const Span& time) {
  const std::int64_t type = wait_type(event.wait_kind);
  const bool has_record = event.recorded_correlation > 0 && event.recorded_stream >= 0;
  writer_.row(waits_, {time.start, time.end, cell(event.device), cell(event.context), cell(event.stream),
                       cell(event.correlation), global_pid(), type, cell(event.cuda_event),
                       has_record ? Cell(event.recorded_correlation) : Cell()});
  if (!has_record || !recorded_.insert(event.recorded_correlation).second) return;
  writer_.row(records_, {cell(event.device), cell(event.context), event.recorded_stream, event.recorded_correlation,
                         global_pid(), cell(event.cuda_event), event.recorded_correlation});
}

/// Operators repeat, so their names go to StringIds; annotations may all differ. PyTorch told collectives on its
/// operators before it did on NCCL's kernels.
void KinetoTables::add_range(const TraceEvent& event, const Span& time, bool is_operator) {
  const std::int64_t thread = global_tid(event);
  if (const auto call = is_operator ? collective_call(event.collective, distributed_.rank) : std::nullopt)
    host_ranges_.add_collective(time.start, time.end, thread, *call);
  writer_.row(ranges_, {time.start, time.end, push_pop_range, is_operator ? Cell() : Cell(std::string_view(event.name)),
                        thread, is_operator ? Cell(writer_.id(event.name)) : Cell(), std::int64_t{0}, Cell()});
}

void KinetoTables::add_member(std::string_view name, const std::string& value) {
  if (name == "baseTimeNanoseconds") base_ns_ = std::max<std::int64_t>(integer_or_none(value), 0);
  if (name == "deviceProperties") devices_ = parser_.devices(value);
  if (name == "distributedInfo") distributed_ = parser_.distributed(value);
  if (name == "hostname") host_ = parser_.text(value);
  if (name == "cuda_driver_version" && integer_or_none(value) > 0) driver_ = value;
  is_amd_ = is_amd_ || name == "hip_runtime_version" || name == "roctracer_version";
}

/// NCCL's calls as its own ranges would show them: as long as the call that launched the kernel. Of a call that
/// launched several, a graph, nobody could tell which range is whose.
void KinetoTables::write_calls_into_nccl() {
  told_collectives_ += host_ranges_.finish();
  if (told_collectives_ > 0) {
    writer_.row(ranges_, {std::int64_t{0}, Cell(), domain_create, std::string_view("NCCL"), global_pid(), Cell(),
                          nccl_domain, Cell()});
    writer_.run(fmt::format(
        "INSERT INTO NVTX_EVENTS SELECT r.start, r.end, {}, NULL, r.globalTid, k.textId, {}, k.jsonText FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN (SELECT * FROM collective_kernels GROUP BY correlationId HAVING count(*) = 1) k ON k.correlationId = r.correlationId WHERE k.textId IS NOT NULL",
        push_pop_range, nccl_domain));
  }
  writer_.run("DROP TABLE collective_kernels");
}

std::string KinetoTables::host() const {
  return host_.empty() ? host_in_file_name(file_name_, process_) : host_;
}

void KinetoTables::write_session() {
  const auto metadata = writer_.table("META_DATA_EXPORT", "name TEXT, value TEXT");
  const auto capture = writer_.table("META_DATA_CAPTURE", "name TEXT, value TEXT");
  const auto start = writer_.table("TARGET_INFO_SESSION_START_TIME", "utcEpochNs INTEGER");
  const auto processes = writer_.table("PROCESSES", "globalPid INTEGER, pid INTEGER, name TEXT");
  const auto system = writer_.table("TARGET_INFO_SYSTEM_ENV", "name TEXT, value TEXT");
  writer_.row(metadata, {std::string_view("EXPORT_SCHEMA_VERSION_MAJOR"), std::string_view("3")});
  writer_.row(capture, {std::string_view("CAPTURE_EVENT_TYPE"), std::string_view("PyTorch profiler")});
  const auto variable = [&](std::string_view name, std::int64_t value) {
    if (value < 0) return;
    const std::string pair = fmt::format("{}=\"{}\"", name, value);
    writer_.row(capture, {std::string_view("PROCESS_0:ENVIRONMENT_VARIABLE"), std::string_view(pair)});
  };
  variable("RANK", distributed_.rank);
  variable("WORLD_SIZE", distributed_.world_size);
  if (!driver_.empty()) writer_.row(system, {std::string_view("CudaDriverVersion"), std::string_view(driver_)});
  if (const std::string name = host(); !name.empty())
    writer_.row(system, {std::string_view("Hostname"), std::string_view(name)});
  std::int64_t utc_ns = 0;
  if (origin_ns_ && !__builtin_add_overflow(base_ns_, *origin_ns_, &utc_ns) && utc_ns >= first_utc_ns)
    writer_.row(start, {utc_ns});
  const auto name = process_names_.find(process_);
  if (name != process_names_.end()) writer_.row(processes, {global_pid(), process_, std::string_view(name->second)});
}

void KinetoTables::write_devices() {
  const auto gpus = writer_.table(
      "TARGET_INFO_GPU",
      "id INTEGER, cuDevice INTEGER, name TEXT, computeMajor INTEGER, computeMinor INTEGER, smCount INTEGER, totalMemory INTEGER, maxWarpsPerSm INTEGER, threadsPerWarp INTEGER, maxShmemPerSm INTEGER");
  const auto mapping = writer_.table("TARGET_INFO_CUDA_DEVICE", "gpuId INTEGER, cudaId INTEGER, pid INTEGER");
  for (const DeviceProperties& device : devices_) {
    const std::int64_t warps = device.warp_threads > 0 ? device.threads_per_multiprocessor / device.warp_threads : 0;
    writer_.row(
        gpus, {device.id, device.id, std::string_view(device.name), device.major, device.minor, device.multiprocessors,
               device.memory_bytes, warps, device.warp_threads, device.shared_bytes_per_multiprocessor});
    writer_.row(mapping, {device.id, device.id, process_});
  }
}

std::string host_in_file_name(std::string_view name, std::int64_t process) {
  const std::string mark = fmt::format("_{}.", process);
  const std::size_t at = name.find(mark);
  if (at == std::string_view::npos) return {};
  std::string_view rest = name.substr(at + mark.size());
  const std::size_t digits = rest.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return {};
  rest.remove_prefix(digits);
  return rest == ".pt.trace.json" || rest == ".pt.trace.json.gz" ? std::string(name.substr(0, at)) : std::string();
}

std::vector<Warning> KinetoTables::finish(std::int64_t left_out) {
  if (has_rows_before_process_ && process_ >= 0) {
    for (const char* table : {"KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "CUDA_EVENT"})
      writer_.run(
          fmt::format("UPDATE CUPTI_ACTIVITY_KIND_{} SET globalPid = {} WHERE globalPid = 0", table, global_pid()));
  }
  write_calls_into_nccl();
  write_session();
  write_devices();
  writer_.finish();
  std::vector<Warning> warnings;
  if (unreadable_ + left_out > 0) {
    warnings.push_back(
        {Severity::data_loss, WarningSource::trace, unreadable_ + left_out,
         "events of the trace are no JSON objects, too long, or without a time that is a number: they are left out, so sums are short; record the trace again if there are many"});
  }
  if (communication_kernels_ > told_collectives_) {
    warnings.push_back(
        {Severity::info, WarningSource::trace, communication_kernels_ - told_collectives_,
         "kernels of NCCL do not tell their process group, and neither do the operators that launched them, so communicators and message sizes are inferred or missing; record with a current PyTorch, which writes them (Kineto of April 2024 or later)"});
  }
  return warnings;
}

}  // namespace nsys_explain::ingest
