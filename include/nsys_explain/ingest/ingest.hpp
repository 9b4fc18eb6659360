#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/ingest/scan_options.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/trace.hpp"

/// From files to plain traces. The only module that knows SQLite. No MPI: every tool rank calls it
/// for its own files.
namespace nsys_explain::ingest {

/// A trace that cannot be analysed at all. The message says problem, why it matters, what to do in
/// one line; it names the file only in commands to copy.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads one export. The file, its directory and its timestamps stay as they are. Events are sorted; nothing is dropped
/// without a warning that counts it. Throws TraceError.
Trace read_trace(const std::string& path, const ScanOptions& options = {});

/// When and where a session was recorded, without reading any event. Throws TraceError.
Session read_session(const std::string& path);

}  // namespace nsys_explain::ingest
