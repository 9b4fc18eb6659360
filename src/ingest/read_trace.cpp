#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "ingest/cuda_events.hpp"
#include "ingest/database.hpp"
#include "ingest/host_events.hpp"
#include "ingest/host_identity.hpp"
#include "ingest/input_file.hpp"
#include "ingest/link_metrics.hpp"
#include "ingest/metadata.hpp"
#include "ingest/no_gpu_work.hpp"
#include "ingest/nvtx_events.hpp"
#include "ingest/rank_claims.hpp"
#include "ingest/run_facts.hpp"
#include "ingest/string_table.hpp"
#include "ingest/trace_builder.hpp"
#include "ingest/trace_time.hpp"
#include "ingest/trace_warnings.hpp"
#include "ingest/unread_tables.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

Session make_session(const std::string& path, const Database& database, const Metadata& metadata) {
  Session session;
  session.path = path;
  session.uuid = metadata.session_uuid;
  session.host = read_host(database, metadata);
  session.nsys_version = metadata.product_version;
  // An export tells nothing about boots. Two sessions of one host share a boot if their host clocks agree with their
  // UTC starts, which is the clock module's to judge; a rounded difference of the two would break at its edges.
  // PyTorch's profiler relates its times to UTC in each process, and no better than collectives do.
  if (!metadata.is_of_pytorch) session.boot_key = session.host;
  return session;
}

/// Launchers tell every process how many ranks the job has.
std::int32_t world_size_of(const Metadata& metadata) {
  const auto found = metadata.environment.find("WORLD_SIZE");
  if (found == metadata.environment.end()) return 0;
  const std::string& text = found->second;
  std::int32_t size = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), size);
  return problem == std::errc() && end == text.data() + text.size() ? std::max(0, size) : 0;
}

}  // namespace

Trace read_trace(const std::string& path, const ScanOptions& options) {
  const InputFile file(path);
  const Database database(file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only,
                          options);
  const Metadata metadata = read_metadata(database);
  Trace trace;
  trace.session = make_session(path, database, metadata);
  trace.facts = read_run_facts(database, metadata);
  trace.world_size = world_size_of(metadata);
  trace.has_kernel_table = database.has_table("CUPTI_ACTIVITY_KIND_KERNEL");
  read_diagnostics(database, trace.warnings);

  const TimeBase time_base = read_time_base(database, metadata, trace.session, trace.warnings);
  StringTable strings(database);
  TraceBuilder builder;
  const Reading reading{database, time_base, strings, builder, trace.warnings};
  read_gpu_activity(reading);
  read_api_calls(reading);
  const ThreadNameRanks thread_name_ranks = read_nvtx_events(reading);
  read_synchronization(reading);
  read_host_events(reading);

  trace.processes = builder.finish();
  name_processes(database, trace.processes);
  identify_gpus(database, metadata, trace.processes, trace.warnings);
  read_gpu_metrics(database, time_base, trace.processes, trace.warnings);
  trace.network = read_network_metrics(database, time_base, trace.warnings);
  claim_ranks(database, metadata, thread_name_ranks, trace.processes, trace.warnings);
  warn_about_gaps(metadata, strings, trace);
  warn_about_unread_tables(database, trace.warnings);
  std::optional<Warning> no_kernels = no_kernels_warning(database, metadata, strings, trace);
  trace.strings = strings.release();
  for (Warning& warning : database.log().warnings) trace.warnings.push_back(std::move(warning));
  if (no_kernels) trace.warnings.push_back(*std::move(no_kernels));  // the last of them is what the input is known by
  return trace;
}

Session read_session(const std::string& path) {
  const InputFile file(path);
  const Database database(file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only);
  const Metadata metadata = read_metadata(database);
  Session session = make_session(path, database, metadata);
  std::vector<Warning> told_when_the_trace_is_read;
  read_time_base(database, metadata, session, told_when_the_trace_is_read);
  return session;
}

}  // namespace nsys_explain::ingest
