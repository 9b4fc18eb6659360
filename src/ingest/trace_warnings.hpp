#pragma once

#include <vector>

#include "ingest/database.hpp"
#include "ingest/metadata.hpp"
#include "ingest/string_table.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// DIAGNOSTIC_EVENT: what nsys itself warned about, each text once with its count.
void read_diagnostics(const Database& database, std::vector<Warning>& warnings);

/// What the trace lacks as a whole: tables that are not there, launches that cannot be found, names that were mended.
void warn_about_gaps(const Metadata& metadata, const StringTable& strings, Trace& trace);

}  // namespace nsys_explain::ingest
