#include "analysis/findings/cuda_error_findings.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "analysis/tables/cuda_errors.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis {
namespace {

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

}  // namespace

void add_cuda_error_findings(const JobReport& report, std::vector<Finding>& findings) {
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

}  // namespace nsys_explain::analysis
