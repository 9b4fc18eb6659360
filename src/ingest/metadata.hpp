#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"

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

/// Variables that may be looked at: ranks, visible GPUs, and two numbers that order launches.
const std::vector<std::string>& environment_variables();

/// Reads META_DATA_EXPORT (EXPORT_META_DATA before 2023.3), META_DATA_CAPTURE and the environment.
/// Throws TraceError for what cannot be read by design: not an Nsight Systems export, or a schema whose major number is
/// neither 2 nor 3.
Metadata read_metadata(const Database& database);

}  // namespace nsys_explain::ingest
