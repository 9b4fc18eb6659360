#include "analysis/questions/question.hpp"

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {
namespace {

/// How grave a status of CUDA is: column `severity` of table cuda_errors.
enum class StatusSeverity : std::uint8_t {
  answer,   ///< not ready, already enabled, not supported: programs ask on purpose
  failure,  ///< the call failed, the process goes on: no memory, no resources
  fatal     ///< CUDA's documentation: the process must be ended to use CUDA again; or the hardware failed
};

struct Status {
  std::int16_t number;
  std::string_view name;
  StatusSeverity severity;
};

/// Numbers and consequences as in CUDA 13's driver_types.h; what is not here counts as an answer.
constexpr auto statuses = std::to_array<Status>({
    {2, "cudaErrorMemoryAllocation", StatusSeverity::failure},
    {46, "cudaErrorDevicesUnavailable", StatusSeverity::failure},
    {98, "cudaErrorInvalidDeviceFunction", StatusSeverity::failure},
    {209, "cudaErrorNoKernelImageForDevice", StatusSeverity::failure},
    {214, "cudaErrorECCUncorrectable", StatusSeverity::fatal},
    {220, "cudaErrorNvlinkUncorrectable", StatusSeverity::fatal},
    {226, "cudaErrorContained", StatusSeverity::fatal},
    {500, "cudaErrorSymbolNotFound", StatusSeverity::answer},
    {600, "cudaErrorNotReady", StatusSeverity::answer},
    {700, "cudaErrorIllegalAddress", StatusSeverity::fatal},
    {701, "cudaErrorLaunchOutOfResources", StatusSeverity::failure},
    {702, "cudaErrorLaunchTimeout", StatusSeverity::fatal},
    {704, "cudaErrorPeerAccessAlreadyEnabled", StatusSeverity::answer},
    {709, "cudaErrorContextIsDestroyed", StatusSeverity::answer},
    {710, "cudaErrorAssert", StatusSeverity::fatal},
    {714, "cudaErrorHardwareStackError", StatusSeverity::fatal},
    {715, "cudaErrorIllegalInstruction", StatusSeverity::fatal},
    {716, "cudaErrorMisalignedAddress", StatusSeverity::fatal},
    {717, "cudaErrorInvalidAddressSpace", StatusSeverity::fatal},
    {718, "cudaErrorInvalidPc", StatusSeverity::fatal},
    {719, "cudaErrorLaunchFailure", StatusSeverity::fatal},
    {721, "cudaErrorTensorMemoryLeak", StatusSeverity::fatal},
    {801, "cudaErrorNotSupported", StatusSeverity::answer},
    {810, "cudaErrorMpsClientTerminated", StatusSeverity::fatal},
    {911, "cudaErrorExternalDevice", StatusSeverity::fatal},
    {999, "cudaErrorUnknown", StatusSeverity::failure},
});

Status status_of(std::int16_t number) {
  const auto known =
      std::find_if(statuses.begin(), statuses.end(), [&](const Status& one) { return one.number == number; });
  return known != statuses.end() ? *known : Status{number, "", StatusSeverity::answer};
}

struct Returned {
  std::int64_t count = 0;
  Nanoseconds first_ns = 0;
};

/// At the first trace rank of the process (tables.hpp).
Table cuda_errors_table(const RankEvents& events) {
  Table table = make_table(schema::cuda_errors);
  if (!speaks_for_process(events.process, events.device)) return table;
  std::map<std::pair<std::string_view, std::int16_t>, Returned> by_name;
  for (const ApiCall& call : events.process.api_calls) {
    if (call.return_value == 0) continue;
    Returned& returned = by_name[{events.trace.strings[call.name], call.return_value}];
    returned.first_ns = returned.count == 0 ? call.end_ns : std::min(returned.first_ns, call.end_ns);
    ++returned.count;
  }
  struct Row {
    std::string_view name;
    Status status;
    Returned returned;
  };
  std::vector<Row> rows;
  for (const auto& [key, returned] : by_name) rows.push_back({key.first, status_of(key.second), returned});
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::tie(b.status.severity, a.returned.first_ns) < std::tie(a.status.severity, b.returned.first_ns);
  });
  RowWriter row(table);
  for (const auto& [name, status, returned] : rows)
    row << name << std::int64_t{status.number} << status.name << returned.count << returned.first_ns
        << static_cast<std::int64_t>(status.severity);
  return table;
}

/// All calls that returned one status.
struct Failure {
  StatusSeverity severity = StatusSeverity::answer;
  std::string_view meaning, first_call;
  Nanoseconds first_ns = 0;
  std::int64_t calls = 0;
  std::set<std::int32_t> trace_ranks;
};

std::map<std::int64_t, Failure> failures_of(const Table& errors) {
  std::map<std::int64_t, Failure> failures;
  const auto& ranks = column(errors, schema::trace_rank);
  for (std::size_t i = 0; i < errors.row_count(); ++i) {
    const auto severity = static_cast<StatusSeverity>(column(errors, schema::cuda_errors.severity)[i]);
    if (severity == StatusSeverity::answer) continue;
    const Nanoseconds first_ns = column(errors, schema::cuda_errors.first_ns)[i];
    Failure& failure = failures[column(errors, schema::cuda_errors.status)[i]];
    if (failure.calls == 0 || first_ns < failure.first_ns) {
      failure.first_call = column(errors, schema::cuda_errors.name)[i];
      failure.first_ns = first_ns;
    }
    failure.severity = severity;
    failure.meaning = column(errors, schema::cuda_errors.meaning)[i];
    failure.calls += column(errors, schema::cuda_errors.count)[i];
    failure.trace_ranks.insert(static_cast<std::int32_t>(ranks[i]));
  }
  return failures;
}

std::string advice_for(std::int64_t status, StatusSeverity severity) {
  constexpr std::int64_t no_memory = 2, ecc = 214, nvlink = 220;
  if (status == no_memory)
    return "make room: a smaller batch, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or find what fills the memory (capture with --cuda-memory-usage=true, table gpu_memory); a caching allocator that frees all it has and asks again stalls its rank";
  if (status == ecc || status == nvlink)
    return "drain the node: nvidia-smi -q -d ECC,ROW_REMAPPER, nvidia-smi nvlink -e, dmesg for Xid; run dcgmi diag -r 3";
  if (severity == StatusSeverity::fatal)
    return "find the kernel that failed: run again with CUDA_LAUNCH_BLOCKING=1, or under compute-sanitizer; look for Xid in dmesg; times after the error are not those of a working job";
  return "read the program's log at that time; the call did not do what it was called for";
}

void find_cuda_errors(const JobReport& report, std::vector<Finding>& findings) {
  const Table* const errors = find_table(report.tables, schema::cuda_errors);
  if (errors == nullptr) return;
  for (const auto& [status, failure] : failures_of(*errors)) {
    const bool is_fatal = failure.severity == StatusSeverity::fatal;
    Finding finding;
    finding.id = "cuda-errors";
    finding.severity = is_fatal ? FindingSeverity::high : FindingSeverity::medium;
    finding.trace_ranks.assign(failure.trace_ranks.begin(), failure.trace_ranks.end());
    if (finding.trace_ranks.size() == 1) finding.place = place_of(report, finding.trace_ranks.front());
    finding.title = fmt::format("{} of {} returned {} ({}), {}{}", failure.first_call,
                                trace_ranks_text(finding.trace_ranks), failure.meaning, status,
                                failure.calls == 1 ? "once" : fmt::format("the first of {} calls", failure.calls),
                                is_fatal ? ": the process can do no more on its GPU" : "");
    finding.evidence = {fmt::format("rows: cuda_errors where status = {}", status)};
    finding.recommendation = advice_for(status, failure.severity);
    findings.push_back(std::move(finding));
  }
}

}  // namespace

Question cuda_errors() {
  return {.shown = {.table = schema::cuda_errors.table_name(), .findings = {"cuda-errors"}, .view = "host"},
          .rows = cuda_errors_table,
          .of_hosts = true,
          .find = find_cuda_errors};
}

}  // namespace nsys_explain::analysis::questions
