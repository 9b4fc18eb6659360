#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/job_report.hpp"

/// The whole run: from files to reports.
namespace nsys_explain::pipeline {

/// What the user asked for. One of these: its order is that of the questions.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct JobSpecification {
  std::vector<std::string> inputs;  ///< files, directories, patterns
  std::string output_directory = "nsys-explain-report";
  std::string title;       ///< --title: what the user calls the run, for its reports; empty: nothing
  bool overwrite = false;  ///< --force: replace results in a directory that is not empty
  bool write_csv = false;
  bool quiet = false;  ///< no progress and no summary, only problems
  /// --nsys-command: the program that exports reports. A plan that is read back never says what runs.
  std::string nsys_command = "nsys";
  bool export_reports = false;               ///< --export: let nsys export reports that have no export beside them
  std::string category_map_path;             ///< --category-map: categories of kernels in gputrc2graph's JSON
  bool gpu_trace = false;                    ///< --gpu-trace: also the table with a row per GPU activity
  std::vector<std::string> categories_of;    ///< --categories-of: PATTERN=MAP[,SECONDS] of inputs with another one
  std::string categories;                    ///< --categories: which map; empty: "llm", or the only one of the file
  std::optional<double> elapsed_unprofiled;  ///< run time in seconds without the profiler: tells the time off the GPU
  std::string rank_map_path;
  std::string rank_regex;
  std::string job_of;           ///< --job-of: whose job is analysed where there are several; empty: the largest
  std::string topology_path;    ///< --topology: racks of hosts
  std::string link_peaks_path;  ///< --link-peaks: NVLink peaks by GPU name, before the built-in ones
  std::optional<std::int32_t> require_ranks;
  std::string filter_time, filter_nvtx, steps;  ///< a part of the run (window.hpp); empty: not asked for
  std::int64_t warmup_steps = 0;                ///< --skip-warmup
  bool whole_run = false;                       ///< --whole-run: start-up and all, not the steady steps
  std::string phase_map_path;
  std::vector<std::string> communication_kernels;  ///< --communication-kernels: patterns beside the built-in table
  std::string ncu_path, cublas_log_path, weights_path,
      gpu_peaks_path;                        ///< analysis/tables/side_files.hpp; empty: not given
  std::string inspector_directory;           ///< --inspector: logs of NCCL Inspector; empty: none
  std::string nvml_path;                     ///< likewise
  std::string requests_path;                 ///< --requests: likewise
  std::string trt_profile_path;              ///< --trt-profile: ingest/side_files.hpp
  std::string memory_snapshot_path;          ///< --memory-snapshot: likewise
  std::vector<std::string> nccl_log_paths;   ///< --nccl-log: analysis/tables/side_files.hpp
  double nvml_utc_offset_hours = 0;          ///< of calendar times in that file
  std::string perfetto_path;                 ///< --perfetto: a timeline for trace viewers; empty: none
  std::string perfetto_window;               ///< part of it, in job time (analysis::parse_time_window); empty: all
  std::int64_t perfetto_events = 2'000'000;  ///< most events in it
  ingest::Reader reader = ingest::Reader::automatic;
  std::optional<std::int32_t> threads;             ///< of each tool rank; empty: the cores it may use
  std::optional<std::int64_t> memory_limit_bytes;  ///< --memory-limit: of each tool rank; empty: none
  std::optional<ClockMethod> clock_method;         ///< --clock: what may relate sessions; empty: whatever does
  std::optional<Nanoseconds> ptp_uncertainty_ns;   ///< the user vouches for UTC to within this
  std::string cache_directory;                     ///< --cache: what was read of traces, for later runs
  std::optional<double> timeout_s;                 ///< --timeout: the run ends by then, finished or not
  std::string prometheus_path;                     ///< --prometheus: metrics for the node exporter
  bool show_timing = false;                        ///< --timing: what each phase took
  bool summary_line = false;                       ///< --summary-line: one line of JSON instead of the summary
  std::vector<std::string> shard_directories;      ///< merge: finish the run that left these; `inputs` is empty
  bool only_shards = false;                        ///< merge --only-shards: no trace is opened

  /// What a run needs of it that finishes this one.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(inputs, title, write_csv, gpu_trace, export_reports, category_map_path, categories, categories_of,
            elapsed_unprofiled, rank_map_path, rank_regex, topology_path, link_peaks_path, require_ranks, filter_time,
            filter_nvtx, steps, warmup_steps, whole_run, phase_map_path, ncu_path, cublas_log_path, weights_path,
            gpu_peaks_path, nvml_path, nvml_utc_offset_hours, inspector_directory, requests_path, trt_profile_path,
            memory_snapshot_path, nccl_log_paths, reader, clock_method, ptp_uncertainty_ns, cache_directory,
            communication_kernels, job_of);
  }
};

/// docs/outputs.md, Exit codes. The same on every tool rank.
enum ExitCode : int {
  all_analysed = 0,
  wrong_usage = 2,
  nothing_analysed = 3,
  some_inputs_failed = 4,
  results_not_written = 5,
};

/// Collective: runs the job; the summary goes to `out`, problems to `problems`, both on tool rank 0 only. Throws
/// nothing.
int run(const JobSpecification& job, const exchange::Communicator& communicator, std::ostream& out,
        std::ostream& problems);

/// Every table that a run writes to the store and as CSV: its columns with unit and meaning.
void print_schema(std::ostream& out);

/// The tables and columns of an export with their numbers of rows, and which of them are read. Returns an exit code.
int print_input_schema(const std::string& path, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::pipeline
