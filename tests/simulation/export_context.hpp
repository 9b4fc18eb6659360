#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "simulation/database.hpp"
#include "simulation/exports.hpp"
#include "simulation/kernel_catalogue.hpp"
#include "simulation/schema.hpp"

namespace nsys_explain::synth {

/// Bits 55..48 of every global id: nsys' VM id, 1 on ordinary machines.
inline constexpr std::int64_t global_vm_id = std::int64_t{1} << 48;

/// The part of true time that a rank's capture covers.
struct CaptureWindow {
  Nanoseconds start_ns = 0, end_ns = 0;
  bool covers(Nanoseconds from_ns, Nanoseconds to_ns) const { return from_ns >= start_ns && to_ns <= end_ns; }
};

CaptureWindow capture_window(const SimulatedJob& job, const JobPlan& plan, std::int32_t rank);

/// Texts of the file's StringIds table, numbered as they come.
class StringPool {
 public:
  std::int64_t id(const std::string& text) {
    const auto [entry, is_new] = ids_.emplace(text, static_cast<std::int64_t>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return entry->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, std::int64_t> ids_;
  std::vector<std::string> texts_;
};

/// Ids under which one captured rank's rows appear.
struct RankIdentity {
  std::int32_t rank = 0;
  std::int64_t global_pid = 0;
  std::array<std::int64_t, 2> threads{};  ///< globalTid by HostCall::thread
  std::int64_t device = 0;
  std::int64_t context = 1;
  std::int64_t first_correlation = 1, correlation_stride = 1;
  CaptureWindow window;
  Nanoseconds shift_ns = 0;  ///< all true times move on by this: ExportStyle::repeats

  std::int64_t correlation(std::uint32_t call) const { return first_correlation + call * correlation_stride; }
};

/// Everything the writers of one session's file share.
struct ExportContext {
  const SimulatedJob& job;
  const JobPlan& plan;
  const TrueSession& session;
  const NsysRelease& release;
  int nccl_version;
  std::vector<KernelType> catalogue;
  std::vector<RankIdentity> ranks;  ///< the captured ones
  Database& database;
  StringPool strings;

  Table table(std::string_view name) const { return {database, std::string(name), columns_of(name, release.number)}; }
  bool has_table(std::string_view name) const { return !columns_of(name, release.number).empty(); }
  const RankEvents& events(const RankIdentity& identity) const {
    return job.ranks[static_cast<std::size_t>(identity.rank)];
  }
  /// Times as exported: trace time, or UTC by this session's clock where the plan asks for normalised timestamps.
  Nanoseconds host_time(Nanoseconds true_ns) const { return origin_ns() + trace_time_ns(session, true_ns); }
  /// GPU times are multiples of the GPU's tick.
  Nanoseconds gpu_time(Nanoseconds true_ns) const {
    const Nanoseconds exact = trace_time_ns(session, true_ns);
    return origin_ns() + exact - exact % plan.clocks.gpu_tick_ns;
  }
  Nanoseconds origin_ns() const { return plan.export_style.utc_timestamps ? reported_utc_start_ns(session) : 0; }
  std::int64_t stream_id(std::uint8_t stream) const { return stream_ids[stream]; }
  /// The captured ranks as often as the plan repeats the job, each time as late as the former ends.
  std::vector<RankIdentity> rank_passes() const;
  /// Order in which `rows` rows are written: as recorded, or shuffled where the plan says so.
  std::vector<std::uint32_t> row_order(std::size_t rows, std::uint64_t salt) const;
};

/// Calls, kernels, copies, sets, synchronisations, events, graphs, profiler overhead. Returns the number of kernel
/// rows.
std::int64_t write_activity_rows(ExportContext& context);

/// Profiler overhead, module loading, file reads, context switches and calls into MPI: what holds host threads up; CPU
/// samples.
void write_host_rows(ExportContext& context);

/// NVTX ranges and NCCL's payloads.
void write_nvtx_rows(ExportContext& context);

/// NVLink throughput samples of the GPUs of this session's ranks.
void write_gpu_metric_rows(ExportContext& context);

/// Samples of the NICs of this session's ranks.
void write_nic_metric_rows(ExportContext& context);

/// Samples of the switch ports that these are plugged into.
void write_switch_metric_rows(ExportContext& context);

/// What nsys says about the session, the machine, processes and capture. Last: it also writes the strings.
void write_session_facts(ExportContext& context);

}  // namespace nsys_explain::synth
