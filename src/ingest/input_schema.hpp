#pragma once

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"

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

/// True of a table that is named as nsys names events, and whose rows this program does not look at.
bool is_unread(std::string_view table);

/// Names once the tables of nsys with rows that this program does not look at.
void warn_about_unread_tables(const Database& database, std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
