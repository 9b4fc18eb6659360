#pragma once

#include <optional>

#include "ingest/database.hpp"
#include "nsys_explain/model/diagnostic.hpp"

/// What an export holds, told without reading its events.
namespace nsys_explain::ingest {

// How much an export holds, told without reading its events.

/// How much an export holds, by how its rows are kept when it is read.
struct EventCounts {
  std::int64_t packed = 0;  ///< kernels, CUDA calls and NVTX ranges: nearly all there is, as a rule (PackedEvents)
  std::int64_t others = 0;  ///< copies, synchronisations, calls into the system, samples
};

/// Counted by the largest row number of each table, without reading rows; from the file's size where SQLite could not
/// open it without a copy, or nsys has yet to export it. Nothing where it cannot be opened: reading will say so.
EventCounts count_events(const std::string& path);

/// How many kernels of NCCL an export holds, by those among the first of its kernels; 0 where that cannot be told.
std::int64_t estimate_arrivals(const std::string& path);

/// How many trace ranks an export can hold at most: pairs of process and device with a CUDA context. Reads no event.
/// Nothing where the export does not list contexts (many do not), or cannot be read.
std::optional<std::int64_t> most_trace_ranks(const std::string& path);

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
