#pragma once

#include <cstdint>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// How rows leave the file. `pages`: straight from the pages of the table, an error where that is not possible;
/// `automatic`: so, too, but through SQLite where it is not possible.
enum class Reader : std::uint8_t { automatic, sqlite, pages };

struct ScanOptions {
  Reader reader = Reader::automatic;
  int threads = 1;  ///< that decode pages; results do not depend on it
};

/// What the scans of one file met.
struct ScanLog {
  std::int64_t rows = 0;
  std::vector<Warning> warnings;
};

}  // namespace nsys_explain::ingest
