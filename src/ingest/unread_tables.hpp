#pragma once

#include <string_view>
#include <vector>

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// True of a table that is named as nsys names events, and whose rows this program does not look at.
bool is_unread(std::string_view table);

/// Names once the tables of nsys with rows that this program does not look at.
void warn_about_unread_tables(const Database& database, std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
