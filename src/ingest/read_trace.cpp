
#include <fmt/format.h>

#include "ingest/event_readers.hpp"
#include "ingest/export_content.hpp"
#include "ingest/input_file.hpp"
#include "ingest/masked_secrets.hpp"
#include "ingest/rank_resolution.hpp"
#include "ingest/trace_content.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

/// ENUM_DIAGNOSTIC_SEVERITY_LEVEL.
constexpr std::int64_t nsys_warning = 2, nsys_error = 3;
constexpr std::size_t longest_read = 16'384, longest_text = 500;
constexpr std::size_t most_texts = 50;

/// One line of valid UTF-8 of at most 500 bytes, without secrets: white space of any kind becomes one space.
std::string tidy(std::string_view text) {
  std::string line;
  for (const char c : valid_utf8(text.substr(0, longest_read))) {
    const bool is_space = static_cast<unsigned char>(c) <= ' ';
    if (is_space && (line.empty() || line.back() == ' ')) continue;
    line += is_space ? ' ' : c;
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  line = without_secrets(std::move(line));
  if (line.size() > longest_text) {
    std::size_t cut = longest_text;
    while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
    line.resize(cut);
    line += " ...";
  }
  return line;
}

/// nsys has one level for "this may be slow" and "events were dropped"; the second means that sums are short. That the
/// CPU is not sampled, say because nsys does not know its vendor, is an error to it, and takes nothing from GPU work.
/// "Not all CUDA events might have been collected." stands in every capture of a range: what ran before it is not in
/// it.
Severity severity_of(std::int64_t level, std::string_view text, bool is_range) {
  if (is_range && text.starts_with("Not all ") && text.find("might have been collected") != std::string_view::npos)
    return Severity::info;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* mark : {"cpu sampling", "ip sampling", "cpu vendor"})
    if (lower.find(mark) != std::string::npos) return Severity::info;
  if (level == nsys_error) return Severity::error;
  for (const char* mark : {"not all ", "dropped", "lost", "missing", "overflow", "incomplete", "out of memory"})
    if (lower.find(mark) != std::string::npos) return Severity::data_loss;
  return Severity::info;
}

bool has_any_launch(const Trace& trace) {
  return std::any_of(trace.processes.begin(), trace.processes.end(),
                     [](const ProcessTrace& process) { return !process.api_calls.empty(); });
}

bool has_kernels_of(const ProcessTrace& process) {
  return std::any_of(process.devices.begin(), process.devices.end(),
                     [](const DeviceTrace& device) { return !device.kernels.empty(); });
}

bool has_any_kernel(const Trace& trace) {
  return std::any_of(trace.processes.begin(), trace.processes.end(), has_kernels_of);
}

/// By the ids in their rows: true also where these are all 0, as other tools write them.
bool have_kernels_other_processes_than_calls(const Trace& trace) {
  return std::none_of(trace.processes.begin(), trace.processes.end(), [](const ProcessTrace& process) {
    return has_kernels_of(process) && !process.api_calls.empty();
  });
}

/// DIAGNOSTIC_EVENT: what nsys itself warned about, each text once with its count.
void read_diagnostics(const Database& database, std::vector<Warning>& warnings) {
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> by_level;
  TableScan scan(database, "DIAGNOSTIC_EVENT");
  const auto severity = scan.integer("severity");
  const auto text = scan.text("text");
  bool is_range = false;  // cudaProfilerStart, an NVTX range or a key began the capture
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      is_range = is_range || text[row].starts_with("Profiling started due to ");
      if (severity[row] != nsys_warning && severity[row] != nsys_error) continue;
      ++by_level[{severity[row], tidy(text[row])}];
    }
  });
  std::map<std::pair<Severity, std::string>, std::int64_t> counts;
  for (const auto& [place, count] : by_level)
    counts[{severity_of(place.first, place.second, is_range), place.second}] += count;
  std::size_t shown = 0;
  std::int64_t hidden = 0;
  for (auto place = counts.rbegin(); place != counts.rend(); ++place) {  // errors first
    if (shown++ < most_texts) {
      warnings.push_back(
          {place->first.first, WarningSource::trace, place->second, "Nsight Systems reported: " + place->first.second});
    } else {
      hidden += place->second;
    }
  }
  if (hidden > 0) {
    warnings.push_back({Severity::info, WarningSource::trace, hidden,
                        "further diagnostics of Nsight Systems are not listed; the GUI shows them all"});
  }
}

/// What the trace lacks as a whole: tables that are not there, launches that cannot be found, names that were mended.
void warn_about_gaps(const Metadata& metadata, const StringTable& strings, Trace& trace) {
  const auto warn = [&](Severity severity, std::int64_t count, std::string message) {
    if (count > 0) trace.warnings.push_back({severity, WarningSource::trace, count, std::move(message)});
  };
  const bool has_kernels = has_any_kernel(trace);
  if (has_kernels && !has_any_launch(trace)) {
    warn(Severity::info, 1,
         "the export holds no CUDA API calls: launches cannot be told from waiting; capture with nsys profile -t cuda");
  } else if (has_kernels && have_kernels_other_processes_than_calls(trace)) {
    warn(
        Severity::data_loss, 1,
        "no process has both kernels and CUDA calls, by the ids of their rows (globalPid, globalTid): which call launched a kernel, and in which NVTX range, is not known; export the report again with nsys, and leave its ids as they are");
  } else if (has_kernels) {
    warn(
        Severity::info, count_kernels_without_call(trace.processes),
        "kernels have no launching API call in the export (launched before the captured window, or on the device): they count as GPU work, but why they started when they did is not known");
  }
  if (metadata.nccl_domain_filtered) {
    warn(
        Severity::info, 1,
        "the capture excluded NCCL's NVTX domain: collectives are known by kernel names only; capture without an NVTX domain filter");
  }
  if (metadata.partial_export) {
    warn(
        Severity::info, 1,
        "only some tables or a span of time were exported: what lies outside is missing here; export without --tables and --times");
  }
  if (metadata.schema_major == 0) {
    warn(Severity::info, 1,
         "the export does not tell its schema version: columns are taken by name; export with nsys 2022.1 or later");
  }
  warn(
      Severity::info, strings.shortened_texts(),
      fmt::format(
          "names are longer than {} bytes: of each, its beginning and a hash stand in the results, which would hold it in every row else; nothing to do unless the ends of names matter",
          StringTable::longest_kept));
  warn(Severity::info, strings.repaired_texts(),
       "names were not valid UTF-8: the wrong bytes are shown as U+FFFD; names may differ from those in the program");
  warn(Severity::data_loss, strings.unknown_ids(),
       "names refer to strings that the export does not hold: they are shown empty; export the report again");
}

ThreadNameRanks read_mpi_ranks(const Database& database) {
  ThreadNameRanks ranks;
  TableScan scan(database, "MPI_RANKS");
  const auto global_tid = scan.integer("globalTid", Presence::required);
  const auto rank = scan.integer("rank", Presence::required);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      if (global_tid[row] == no_time || rank[row] < 0 || rank[row] > std::numeric_limits<std::int32_t>::max()) continue;
      ranks[process_of(global_tid[row])].insert(static_cast<std::int32_t>(rank[row]));
    }
  });
  return ranks;
}

/// Rank in the largest communicator with a known member count. A process that drives several GPUs holds several ranks
/// of it: then NCCL says nothing about the process as a whole. Empty then, and where NCCL told nothing.
struct NcclClaim {
  std::set<std::int32_t> ranks;
  std::int32_t rank_count = 0;
};

NcclClaim largest_communicator(const ProcessTrace& process) {
  NcclClaim claim;
  std::uint64_t communicator = 0;
  for (const NcclCall& call : process.nccl_calls) {  // sorted by start: of equally large ones the first is the world
    if (call.rank < 0 || call.rank_count <= 0 || call.rank_count < claim.rank_count) continue;
    if (call.rank_count > claim.rank_count) {
      claim = {{}, call.rank_count};
      communicator = call.communicator;
    }
    // Before NCCL 2.25 all communicators look alike (0): then those of one size must agree.
    if (call.communicator == communicator) claim.ranks.insert(call.rank);
  }
  return claim;
}

/// Processes that used CUDA, or all where none did. The environment belongs to what nsys launched: whether it is that
/// of a rank shows once ranks are told from helpers (tell_helpers).
std::vector<ProcessTrace*> profiled_processes(std::vector<ProcessTrace>& processes) {
  std::vector<ProcessTrace*> with_cuda, all;
  for (ProcessTrace& process : processes) {
    all.push_back(&process);
    if (!process.devices.empty() || !process.api_calls.empty()) with_cuda.push_back(&process);
  }
  return with_cuda.empty() ? all : with_cuda;
}

void claim_from_environment(const Metadata& metadata, ProcessTrace& process) {
  for (const std::string& name : rank_variables()) {
    const auto found = metadata.environment.find(name);
    if (found == metadata.environment.end()) continue;
    if (const auto rank = parse_rank_number(found->second))
      process.claims.push_back({RankSource::environment, *rank, name});
  }
}

/// Adds what the export says about ranks to ProcessTrace::claims, most trustworthy first: MPI_RANKS (or nsys' thread
/// names), the rank in the largest communicator that NCCL told about, the environment of the profiled processes.
/// A source that contradicts itself about a process claims nothing and gives a warning.
void claim_ranks(const Database& database, const Metadata& metadata, const ThreadNameRanks& thread_name_ranks,
                 std::vector<ProcessTrace>& processes, std::vector<Warning>& warnings) {
  const ThreadNameRanks mpi_ranks = read_mpi_ranks(database);
  std::int64_t contradictions = 0;
  for (ProcessTrace& process : processes) {
    const auto claim_from = [&](const ThreadNameRanks& ranks, const char* detail) {
      const auto found = ranks.find(process.global_pid);
      if (found == ranks.end()) return false;
      if (found->second.size() > 1) {
        ++contradictions;
        return false;
      }
      process.claims.push_back({RankSource::mpi_ranks, *found->second.begin(), detail});
      return true;
    };
    if (!claim_from(mpi_ranks, "MPI_RANKS")) claim_from(thread_name_ranks, "name of the MPI thread");
    const NcclClaim nccl = largest_communicator(process);
    if (nccl.ranks.size() == 1) {
      process.claims.push_back({RankSource::nccl_payload, *nccl.ranks.begin(),
                                fmt::format("rank in the largest communicator, of {} ranks", nccl.rank_count)});
    }
  }
  for (ProcessTrace* const process : profiled_processes(processes)) claim_from_environment(metadata, *process);
  if (contradictions > 0) {
    warnings.push_back(
        {Severity::info, WarningSource::trace, contradictions,
         "processes have several MPI ranks by this export: MPI's ranks are not used for them; name the ranks with a rank map if the numbers come out wrong"});
  }
}

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
  return parse_rank_number(found->second).value_or(0);
}

std::vector<LauncherId> launchers_of(const Metadata& metadata) {
  std::vector<LauncherId> ids;
  for (const std::string& name : launcher_variables())
    if (const auto found = metadata.environment.find(name); found != metadata.environment.end())
      ids.push_back({name, fnv1a(found->second)});
  return ids;
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
  trace.launchers = launchers_of(metadata);
  trace.is_of_pytorch = metadata.is_of_pytorch;
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
