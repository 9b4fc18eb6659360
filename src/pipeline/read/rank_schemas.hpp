#pragma once

#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::pipeline {

/// Of every table that a trace rank may have, as make_rank_tables() makes it: without a trace rank column.
std::vector<TableSchema> rank_table_schemas();

}  // namespace nsys_explain::pipeline
