#pragma once

#include <functional>
#include <string>
#include <vector>

#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace nsys_explain::synth {

/// The value of AWS_SECRET_ACCESS_KEY in every export begins with this: it must never reach a report.
inline constexpr const char* secret_prefix = "synthetic-secret-";

/// What was written for one session.
struct WrittenExport {
  std::string path;
  std::int64_t kernels = 0;  ///< rows of CUPTI_ACTIVITY_KIND_KERNEL
  std::int64_t bytes = 0;    ///< size of the file
};

/// True where the activity has a row in its rank's export: captured, not dropped, not hidden in an opaque graph.
bool is_exported(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank, std::uint32_t activity);

/// Writes one SQLite file per session into `directory` (created if missing) as `nsys export` does: tables without rows
/// are not created, no index, no journal left behind. Sessions without a captured rank get no file. Several threads
/// write a file each, and call `on_written` with it, which may remove it. Throws std::runtime_error where a file cannot
/// be written, and what `on_written` throws.
std::vector<WrittenExport> write_exports(const SimulatedJob& job, const JobPlan& plan, const std::string& directory,
                                         const std::function<void(const WrittenExport&)>& on_written = {});

/// Writes the logs of NCCL Inspector into `directory` (created if missing), a file per process, where the plan asks for
/// them. Ranks that were not captured have logs, too. Throws std::runtime_error where a file cannot be written.
void write_inspector_logs(const SimulatedJob& job, const JobPlan& plan, const std::string& directory);

enum class TruthDetail { full, summary };

/// truth.json: sessions, ranks, communicators, faults and (full) every instance. Times are true time.
std::string truth_json(const SimulatedJob& job, const JobPlan& plan, TruthDetail detail);

}  // namespace nsys_explain::synth
