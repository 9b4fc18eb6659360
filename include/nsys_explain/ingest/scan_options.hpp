#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// How rows leave the file. `pages`: straight from the pages of the table, an error where that is not possible;
/// `automatic`: so, too, but through SQLite where it is not possible.
enum class Reader : std::uint8_t { automatic, sqlite, pages };

struct ScanOptions {
  Reader reader = Reader::automatic;
  int threads = 1;                                           ///< that decode pages; results do not depend on it
  std::function<void(std::int64_t rows)> on_rows = nullptr;  ///< may be empty; called now and then while rows are read
};

/// What the scans of one file met.
struct ScanLog {
  std::vector<Warning> warnings;
};

}  // namespace nsys_explain::ingest
