#pragma once

#include <optional>

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

/// What an export tells of its capture, host, processes and GPUs.
namespace nsys_explain::ingest {

/// What an export says about itself. Only the keys listed here are taken from the metadata tables: they also hold
/// command lines, user names, working directories and the whole environment of the profiled program.
struct Metadata {
  bool has_export_table = false;
  std::string product_version;
  int schema_major = 0;            ///< 0: not told
  bool times_are_utc = false;      ///< exported with --ts-normalize=true
  std::int64_t time_shift_ns = 0;  ///< exported with --ts-shift
  bool partial_export = false;     ///< only some tables or a span of time were exported
  bool is_of_pytorch = false;      ///< made of a trace of PyTorch's profiler
  std::string session_uuid;
  std::string device_display_name;
  std::optional<bool> cuda_traced;    ///< whether the capture was told to trace CUDA, of any process; empty: not told
  bool nccl_domain_filtered = false;  ///< the capture asked for NVTX domains and NCCL's was not among them

  /// Values of the variables listed in environment_variables() that the profiler saw, each once; a variable that was
  /// seen with different values is left out. They never leave this module but as numbers.
  std::map<std::string, std::string> environment;
};

/// Variables that may be looked at: ranks, visible GPUs, two numbers that order launches, and ids of launchers.
const std::vector<std::string>& environment_variables();

/// Those among them that say which rank a process is, in the order of trust: a launcher inside another one (mpirun in
/// one Slurm task) knows better.
const std::vector<std::string>& rank_variables();

/// Those that are the same for all processes of one run of a launcher, and others for another run.
const std::vector<std::string>& launcher_variables();

/// Reads META_DATA_EXPORT (EXPORT_META_DATA before 2023.3), META_DATA_CAPTURE and the environment.
/// Throws TraceError for what cannot be read by design: not an Nsight Systems export, or a schema whose major number is
/// neither 2 nor 3.
Metadata read_metadata(const Database& database);

// What the metadata tables of an export tell of the machine, the software and the capture. They also hold command
// lines, environments, user names and paths: only the entries named here are taken, never others, and no value is
// longer than `longest_fact` bytes.

inline constexpr std::size_t longest_fact = 96;

/// Of the host and the capture, in this order, each where the export tells it: nsys (that exported), driver,
/// cuda_driver (the CUDA version that the driver supports), os, linux_kernel, cpu, cpu_cores, network_driver (OFED),
/// traced (kinds of events asked for), cuda_graphs (Graph or Node: how graphs were traced), and the variables
/// CUDA_DEVICE_MAX_CONNECTIONS and CUDA_LAUNCH_BLOCKING, where they are numbers.
std::vector<RunFact> read_run_facts(const Database& database, const Metadata& metadata);

/// NvDriverVersion as nvidia-smi shows it: exports hold "580.95.05", or the digits alone ("52510517": 525.105.17,
/// Windows "42600": 426.00).
std::string driver_version(std::string_view recorded);

/// CudaDriverVersion "12080": 12.8. Empty: it is no such number.
std::string cuda_version(std::string_view recorded);

/// Host name of the profiled machine as the target reported it: TARGET_INFO_SYSTEM_ENV, else the capture's device name.
/// (EXPORT_HOST is where the export ran, often another machine.) Empty where the export does not tell.
std::string read_host(const Database& database, const Metadata& metadata);

/// Fills ProcessTrace::name from PROCESSES, which lists every process of the machine.
void name_processes(const Database& database, std::vector<ProcessTrace>& processes);

/// Fills gpu_name, gpu_uuid, gpu_id and gpu_facts of every device. A device id is the CUDA ordinal that the process
/// saw, so the way to the GPU is, best first: TARGET_INFO_CUDA_DEVICE (nsys 2025.1 and later), the position in
/// CUDA_VISIBLE_DEVICES, the profiler's own ordinal. The last two are assumptions and give a warning; where they too
/// say nothing, both stay empty.
void identify_gpus(const Database& database, const Metadata& metadata, std::vector<ProcessTrace>& processes,
                   std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
