#include "ingest/export_content.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>

#include "ingest/export_report.hpp"
#include "ingest/input_file.hpp"
#include "ingest/table_scan.hpp"

namespace nsys_explain::ingest {
namespace {

/// Few exports hold less than the first of these for a row; reports are compressed. An event took 232 to 475 bytes in
/// six traces in JSON, and 18 to 28 packed.
constexpr std::int64_t bytes_per_row = 48, fewest_bytes_per_row = 8, report_bytes_per_row = 16;
constexpr std::int64_t json_bytes_per_row = 200, packed_json_bytes_per_row = 14;

EventCounts counts_by_size(const std::string& path, std::int64_t bytes_of_row) {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(path, missing);
  return missing ? EventCounts() : EventCounts{static_cast<std::int64_t>(bytes) / bytes_of_row, 0};
}

/// The number that `sql` gives; false where SQLite cannot run it.
bool query(const Database& database, const std::string& sql, std::int64_t& number) {
  sqlite3_stmt* statement = nullptr;
  bool has_row = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr) == SQLITE_OK;
  has_row = has_row && sqlite3_step(statement) == SQLITE_ROW;
  if (has_row) number = sqlite3_column_int64(statement, 0);
  sqlite3_finalize(statement);
  return has_row;
}

/// `most`: what the file has room for; tools that delete rows leave the numbers of others as they are.
std::int64_t count_rows(const Database& database, std::int64_t most, std::initializer_list<std::string_view> tables) {
  std::int64_t sum = 0;
  for (const std::string_view table : tables) {
    if (!database.has_table(table)) continue;
    std::int64_t rows = 0;
    // A table WITHOUT ROWID, which nsys does not write, is counted row by row.
    const std::string name = quoted_identifier(table);
    if (!query(database, fmt::format("SELECT max(rowid) FROM {}", name), rows))
      query(database, fmt::format("SELECT count(*) FROM (SELECT 1 FROM {} LIMIT {})", name, most), rows);
    sum += std::clamp<std::int64_t>(rows, 0, most);
  }
  return std::min(sum, most);
}

constexpr std::int64_t looked_at_kernels = 200'000;  ///< a second or less, where there are more

}  // namespace

EventCounts count_events(const std::string& path) {
  if (is_report_name(path)) return counts_by_size(path, report_bytes_per_row);
  if (needs_export(path))
    return counts_by_size(path, path.ends_with(".gz") ? packed_json_bytes_per_row : json_bytes_per_row);
  if (has_sidecar(path)) return counts_by_size(path, bytes_per_row);
  try {
    const InputFile file(path);
    const Database database(file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only);
    const std::int64_t most = counts_by_size(path, fewest_bytes_per_row).packed;
    return {count_rows(database, most,
                       {"CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER",
                        "NVTX_EVENTS"}),
            count_rows(database, most,
                       {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                        "CUDA_GRAPH_NODE_EVENTS", "CUDA_GPU_MEMORY_USAGE_EVENTS", "OSRT_API", "SCHED_EVENTS",
                        "GPU_METRICS", "NET_NIC_METRIC", "NIC_METRIC", "StringIds"})};
  } catch (const TraceError&) {
    return {};
  }
}

std::int64_t estimate_arrivals(const std::string& path) {
  if (needs_export(path) || has_sidecar(path)) return 0;
  try {
    const InputFile file(path);
    const Database database(file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only);
    constexpr std::string_view table = "CUPTI_ACTIVITY_KIND_KERNEL";
    const std::int64_t kernels = count_rows(database, counts_by_size(path, fewest_bytes_per_row).packed, {table});
    std::int64_t communicating = 0;
    const bool is_told =
        query(database,
              fmt::format("SELECT count(*) FROM (SELECT shortName FROM {} LIMIT {}) WHERE shortName IN "
                          "(SELECT id FROM StringIds WHERE value LIKE 'nccl%')",
                          table, looked_at_kernels),
              communicating);
    const std::int64_t looked_at = std::min(kernels, looked_at_kernels);
    return is_told && looked_at > 0 ? communicating * kernels / looked_at : 0;
  } catch (const TraceError&) {
    return 0;
  }
}

namespace {

std::optional<std::int64_t> count_pairs(const Database& database) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> pairs;  // machine, process, device
  bool complete = true;
  // nsys up to 2023 lists contexts by their default streams.
  for (const char* table : {"TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_NULL_STREAM"}) {
    TableScan scan(database, table);
    const auto vm = scan.integer("vmId");
    const auto process = scan.integer("processId");
    const auto device = scan.integer("deviceId");
    scan.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) {
        complete = complete && process[row] != no_time && device[row] != no_time;
        pairs.emplace(vm[row], process[row], device[row]);
      }
    });
  }
  if (pairs.empty() || !complete) return std::nullopt;
  return static_cast<std::int64_t>(pairs.size());
}

}  // namespace

std::optional<std::int64_t> most_trace_ranks(const std::string& path) {
  try {
    const InputFile file(path);
    return count_pairs({file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only});
  } catch (const TraceError&) {
    return std::nullopt;  // said when the trace is read
  }
}

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
