#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/inspector.hpp"

/// Logs of NCCL Inspector, NCCL's profiler plugin (plugins/profiler/inspector in NCCL's sources; format v4.0 of
/// NCCL 2.28 to v4.2): a file "HOST-pidPID.log" per process, a JSON object per line. A line with `coll_perf` is a
/// collective that has ended, one with `p2p_perf` (since NCCL 2.30) a send or receive; those with `dump_stats` and
/// proxies are others. Logs have holes by design: small messages and what did not fit a ring buffer between two dumps
/// are left out.
namespace nsys_explain::ingest {

struct InspectorLog {
  std::vector<InspectorRecord> records;  ///< as logged, times in UTC of the host
  std::vector<Warning> warnings;         ///< lines that could not be used, and why
};

/// What a log says. Lines that are damaged or of another format are counted in the warnings; nothing throws.
InspectorLog parse_inspector_log(std::string_view text);

/// The log of one process: the file of that process id in `directory` whose host is this one as far as both names go
/// ("node1" and "node1.example.org"), or, where the export names no host, the only one of that id. No record and a
/// warning where there is none. Throws nothing for a bad file; std::runtime_error where the directory cannot be read.
InspectorLog read_inspector_log(const std::string& directory, const std::string& host, std::int32_t process_id);

/// Names, sizes and modification times of the logs of a directory, as text: what a cache must know of them. Throws
/// std::runtime_error where there is no such directory.
std::string list_inspector_logs(const std::string& directory);

}  // namespace nsys_explain::ingest
