#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/pages/record_layout.hpp"

namespace nsys_explain::ingest {

/// What the schema says about how a table is stored.
struct TableFacts {
  struct Column {
    std::string name;
    bool may_be_real = false;  ///< whole numbers are stored as integers, but mean 1.0, not 1
  };

  std::uint32_t root_page = 0;
  std::vector<Column> columns;              ///< as in the records
  pages::RecordRules rules;                 ///< for its records
  std::optional<std::size_t> rowid_column;  ///< INTEGER PRIMARY KEY, which is the rowid itself
  std::string rowid_name;                   ///< by which SQL knows the rowid; empty: it has none, or columns hide it
  bool has_generated_columns = false;       ///< which records may lack
};

/// Throws TraceError.
TableFacts read_table_facts(const Database& database, std::string_view table);

}  // namespace nsys_explain::ingest
