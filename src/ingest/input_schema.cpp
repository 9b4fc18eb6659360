#include "ingest/input_schema.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include "ingest/input_file.hpp"

namespace nsys_explain::ingest {
namespace {

/// Beginnings of names of tables that are read, and of such as describe others or nsys itself.
constexpr std::array<std::string_view, 12> no_events{
    "ENUM_",        "TARGET_INFO_",         "META_DATA_", "EXPORT_META_DATA", "NVTX_PAYLOAD_", "NVTX_EVENTS_PAYLOAD_",
    "NVTX_EXPORT_", "DYNAMIC_NVTXPAYLOAD_", "ANALYSIS_",  "GENERIC_EVENT_",   "NIC_ID_MAP",    "PROCESSES"};

/// Tables whose rows are read; a call chain is part of its event.
constexpr std::array<std::string_view, 31> read_tables{"COMPOSITE_EVENTS",
                                                       "CUBLAS_EVENTS",
                                                       "CUDA_CALLCHAINS",
                                                       "CUDA_GPU_MEMORY_USAGE_EVENTS",
                                                       "CUDA_GRAPH_NODE_EVENTS",
                                                       "CUDNN_EVENTS",
                                                       "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                                                       "CUPTI_ACTIVITY_KIND_DRIVER",
                                                       "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                                                       "CUPTI_ACTIVITY_KIND_KERNEL",
                                                       "CUPTI_ACTIVITY_KIND_MEMCPY",
                                                       "CUPTI_ACTIVITY_KIND_MEMSET",
                                                       "CUPTI_ACTIVITY_KIND_OVERHEAD",
                                                       "CUPTI_ACTIVITY_KIND_RUNTIME",
                                                       "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION",
                                                       "DIAGNOSTIC_EVENT",
                                                       "GPU_METRICS",
                                                       "MPI_COLLECTIVES_EVENTS",
                                                       "MPI_OTHER_EVENTS",
                                                       "MPI_P2P_EVENTS",
                                                       "MPI_RANKS",
                                                       "MPI_START_WAIT_EVENTS",
                                                       "NET_IB_SWITCH_METRIC",
                                                       "NET_NIC_METRIC",
                                                       "NIC_METRIC",
                                                       "NVTX_EVENTS",
                                                       "OSRT_API",
                                                       "OSRT_CALLCHAINS",
                                                       "PROFILER_OVERHEAD",
                                                       "SAMPLING_CALLCHAINS",
                                                       "SCHED_EVENTS"};

/// nsys calls tables of events so; users and other tools add some of their own.
bool is_named_as_events(std::string_view table) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  return table.find('_') != std::string_view::npos && table.find_first_not_of(letters) == std::string_view::npos;
}

/// With --lazy=false nsys makes all its tables, most of them empty. False where SQLite cannot tell.
bool has_rows(const Database& database, std::string_view table) {
  const std::string sql = fmt::format("SELECT 1 FROM {} LIMIT 1", quoted_identifier(table));
  sqlite3_stmt* statement = nullptr;
  const bool found = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
                     sqlite3_step(statement) == SQLITE_ROW;
  sqlite3_finalize(statement);
  return found;
}

}  // namespace

bool is_unread(std::string_view table) {
  return is_named_as_events(table) && !std::binary_search(read_tables.begin(), read_tables.end(), table) &&
         std::none_of(no_events.begin(), no_events.end(),
                      [&](std::string_view start) { return table.starts_with(start); });
}

void warn_about_unread_tables(const Database& database, std::vector<Warning>& warnings) {
  constexpr std::size_t most_named = 8, longest_name = 64;
  std::vector<std::string> unread;
  for (const auto& [table, columns] : database.tables()) {
    if (!is_unread(table) || table.size() > longest_name) continue;
    if (has_rows(database, table)) unread.push_back(table);
  }
  if (unread.empty()) return;
  const std::size_t hidden = unread.size() - std::min(unread.size(), most_named);
  unread.resize(unread.size() - hidden);
  warnings.push_back(
      {Severity::info, WarningSource::trace, 1,
       fmt::format(
           "the export holds tables that are not read ({}{}): what they tell is in no result here; look at them by SQL, or in the GUI of Nsight Systems",
           fmt::join(unread, ", "), hidden > 0 ? fmt::format(", and {} more", hidden) : "")});
}

namespace {

std::int64_t count_all_rows(const Database& database, const std::string& table) {
  const std::string sql = "SELECT count(*) FROM " + quoted_identifier(table);
  sqlite3_stmt* statement = nullptr;
  const bool is_counted = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK &&
                          sqlite3_step(statement) == SQLITE_ROW;
  const std::int64_t rows = is_counted ? sqlite3_column_int64(statement, 0) : -1;
  sqlite3_finalize(statement);
  return rows;
}

}  // namespace

std::vector<InputTable> input_tables(const std::string& path) {
  const InputFile file(path);
  const Database database(file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only);
  std::vector<InputTable> tables;
  for (const auto& [name, columns] : database.tables())
    tables.push_back({name, columns, count_all_rows(database, name), is_unread(name)});
  return tables;
}

}  // namespace nsys_explain::ingest
