#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulation/database.hpp"

namespace nsys_explain::synth {

/// One nsys release whose exports we can write.
struct NsysRelease {
  int number = 0;  ///< year x 10 + minor: 20262
  const char* name = "";
  const char* product_version = "";
  int schema_major = 0, schema_minor = 0, schema_micro = 0;
};

/// Throws PlanError for a release that is not in the list.
const NsysRelease& nsys_release(const std::string& name);

/// Columns of a table as this release exports it; empty where the release has no such table.
std::vector<Column> columns_of(std::string_view table, int release_number);

/// Names of the tables this release can hold, in alphabetical order.
std::vector<std::string_view> table_names(int release_number);

struct EnumTable {
  const char* name;
  struct Value {
    int id;
    const char* name;
    const char* label;
  };
  std::vector<Value> values;
};

/// The ENUM_* tables that readers of our tables need.
const std::vector<EnumTable>& enum_tables();

}  // namespace nsys_explain::synth
