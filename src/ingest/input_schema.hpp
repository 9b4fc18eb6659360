#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nsys_explain::ingest {

/// A table of an export.
struct InputTable {
  std::string name;
  std::vector<std::string> columns;  ///< in their order
  std::int64_t rows = 0;             ///< -1: SQLite cannot count them
  bool is_unread = false;            ///< events that this program does not look at
};

/// By name. Throws TraceError where the file is no export.
std::vector<InputTable> input_tables(const std::string& path);

}  // namespace nsys_explain::ingest
