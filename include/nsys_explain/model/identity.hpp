#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain {

/// What says which rank of the profiled job a trace rank is; most trustworthy first, so `<` means "better".
enum class RankSource : std::uint8_t { user, mpi_ranks, nccl_payload, environment, file_name, file_order };

/// One source's statement about one trace rank.
struct RankClaim {
  RankSource source = RankSource::file_order;
  std::int32_t rank = 0;
  std::string detail;  ///< e.g. "SLURM_PROCID", for messages; never a value taken from the environment

  template <class Archive>
  void serialize(Archive& archive) {
    archive(source, rank, detail);
  }
};

/// What a trace rank is: one CUDA device used by one process recorded in one file.
struct TraceRankKey {
  std::string path;
  std::uint64_t global_pid = 0;  ///< nsys' serialized id: unique within the file
  std::int32_t device_id = 0;    ///< CUDA ordinal as the process saw it

  friend bool operator==(const TraceRankKey&, const TraceRankKey&) = default;
  friend bool operator<(const TraceRankKey& a, const TraceRankKey& b) {
    return std::tie(a.path, a.global_pid, a.device_id) < std::tie(b.path, b.global_pid, b.device_id);
  }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, global_pid, device_id);
  }
};

/// One profiling session, that is, one report file: all its times share one clock.
struct Session {
  std::string path;
  std::string uuid;                       ///< PROFILING_SESSION_UUID; empty before nsys 2023.3
  std::string host;                       ///< host name as the target reported it; may be empty
  std::string nsys_version;               ///< product version that exported the file; may be empty
  Nanoseconds utc_start_ns = no_time;     ///< UTC epoch at trace time 0; no_time where not recorded
  Nanoseconds system_clock_ns = no_time;  ///< the host's monotonic clock at trace time 0 (nsys 2025.6 and later)
  std::string
      boot_key;  ///< equal for sessions of one host, as far as exports tell one from another; empty where unknown

  template <class Archive>
  void serialize(Archive& archive) {
    archive(path, uuid, host, nsys_version, utc_start_ns, system_clock_ns, boot_key);
  }
};

/// Identity of one trace rank with the evidence for its number.
struct TraceRankIdentity {
  std::int32_t trace_rank = -1;  ///< number in the profiled job; unique in a run once resolved
  RankSource rank_source = RankSource::file_order;
  TraceRankKey key;
  std::int32_t process_id = 0;
  std::string process_name;
  std::string host;
  std::string gpu_name;                          ///< empty where the export does not tell
  std::string gpu_uuid;                          ///< without "GPU-"; empty where the export does not tell
  bool is_gpu_presumed = false;                  ///< the export does not say which GPU the process saw as this device
  std::int64_t kernels = 0, graph_launches = 0;  ///< of the whole capture; graphs recorded as one interval
  std::vector<RankClaim> claims;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(trace_rank, rank_source, key, process_id, process_name, host, gpu_name, gpu_uuid, is_gpu_presumed, kernels,
            graph_launches, claims);
  }
};

/// A process beside ranks that is none: it takes part in no collective of theirs and claims no rank.
struct HelperProcess {
  TraceRankKey key;
  std::int32_t process_id = 0;
  std::string process_name;
  std::string host;
  std::int64_t kernels = 0;
  Nanoseconds busy_ns = 0;                ///< some kernel of it ran
  Nanoseconds recorded_ns = 0;            ///< of its GPU: from the first start to the last end of any process' kernel
  std::vector<TraceRankKey> beside;       ///< ranks with kernels on the same GPU
  std::vector<std::int32_t> trace_ranks;  ///< the same by number, ascending, once ranks are resolved

  /// Of the recorded time of its GPU in which it keeps it busy.
  double share() const { return recorded_ns > 0 ? static_cast<double>(busy_ns) / static_cast<double>(recorded_ns) : 0; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(key, process_id, process_name, host, kernels, busy_ns, recorded_ns, beside, trace_ranks);
  }
};

/// A job in the inputs that is not analysed: another one, or another attempt at the same.
struct OtherJob {
  std::int32_t trace_ranks = 0;
  std::vector<std::string> paths;  ///< inputs that hold ranks of it, ascending
  std::string reason;              ///< what proves that it is another one
  std::string command;             ///< that analyses it
};

}  // namespace nsys_explain
