#pragma once

#include <map>
#include <stdexcept>

#include "nsys_explain/ingest/discovery.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// How rows leave the file. `pages`: straight from the pages of the table, an error where that is not possible;
/// `automatic`: so, too, but through SQLite where it is not possible.
enum class Reader : std::uint8_t { automatic, sqlite, pages };

/// A zone map: from the first start to the last end of the rows in each run of pages, by table. Times as in the file.
using ZoneMap = std::map<std::string, std::vector<Interval>>;

/// Part of a file: of tables in the zone map, runs of pages that touch one of the times. Other rows may come with them.
struct FilePart {
  const ZoneMap* zones = nullptr;  ///< what a former reading of the same file learnt; nullptr: everything is read
  std::vector<Interval> times;     ///< trace time
};

struct ScanOptions {
  Reader reader = Reader::automatic;
  int threads = 1;                                           ///< that decode pages; results do not depend on it
  std::function<void(std::int64_t rows)> on_rows = nullptr;  ///< may be empty; called now and then while rows are read
  FilePart part = {};                                        ///< what is read; everything where not said
  ZoneMap* learnt_zones = nullptr;                           ///< takes the zone map of what is read
};

/// What the scans of one file met.
struct ScanLog {
  std::vector<Warning> warnings;
};

// From files to plain traces. The only module that knows SQLite. No MPI: every tool rank calls it
// for its own files.

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
