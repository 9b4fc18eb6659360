#pragma once

#include <vector>

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// Names once the tables of nsys with rows that this program does not look at.
void warn_about_unread_tables(const Database& database, std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
