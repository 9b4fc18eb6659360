#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/trace.hpp"

/// From files to plain traces. The only module (besides synth) that knows SQLite. No MPI: every tool rank calls it
/// for its own files.
namespace nsys_explain::ingest {

/// One file found on this host. Ranks exchange these to see which files they share.
struct FoundTrace {
  std::string path;
  std::int64_t bytes = 0;
  Nanoseconds modified_ns = 0;
  std::uint64_t device = 0, inode = 0;
};

struct Discovery {
  std::vector<FoundTrace> traces;   ///< sorted by path, each file once
  std::vector<InputReport> failed;  ///< arguments that name nothing we can read, with the reason
  std::vector<Warning> warnings;    ///< e.g. the same file named twice
};

/// Expands files, directories (their *.sqlite) and quoted patterns (* ? [...]). Never throws for a bad argument:
/// it becomes a failed input with a message.
Discovery discover(const std::vector<std::string>& arguments);

/// A trace that cannot be analysed at all. The message says problem, why it matters, what to do; it names no path.
class TraceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads one export. The file, its directory and its timestamps stay as they are. Events are sorted; nothing is dropped
/// without a warning that counts it. Throws TraceError.
Trace read_trace(const std::string& path);

}  // namespace nsys_explain::ingest
