#pragma once

#include <optional>

#include "ingest/database.hpp"
#include "ingest/metadata.hpp"
#include "ingest/string_table.hpp"
#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// Of an export without a kernel: that it is, what it holds instead, why, as far as its own facts tell, and what to do.
/// "Record CUDA" is no advice where CUDA was recorded. None of an export with kernels.
std::optional<Warning> no_kernels_warning(const Database& database, const Metadata& metadata,
                                          const StringTable& strings, const Trace& trace);

}  // namespace nsys_explain::ingest
