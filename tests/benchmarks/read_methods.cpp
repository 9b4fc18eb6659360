#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/table_scan.hpp"
#include "nsys_explain/model/time.hpp"

/// Ways to read the columns that an analysis needs from one export, each run as a process of its own so that its peak
/// memory is its own: `read_methods FILE METHOD [THREADS]`. Prints one line of JSON. Methods that read rows give equal
/// checksums; `pread` and `memcpy` are limits of the machine over as many bytes.
namespace {

using namespace nsys_explain;

struct Needed {
  const char* table;
  std::vector<std::string> integers, texts;
};

const std::vector<Needed>& needed() {
  static const std::vector<Needed> tables = {
      {"CUPTI_ACTIVITY_KIND_KERNEL",
       {"start", "end", "deviceId", "contextId", "streamId", "correlationId", "globalPid", "demangledName", "shortName",
        "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "registersPerThread", "graphNodeId"},
       {}},
      {"CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId", "nameId", "returnValue"}, {}},
      {"NVTX_EVENTS", {"start", "end", "eventType", "globalTid", "textId", "domainId"}, {"text"}}};
  return tables;
}

struct Result {
  std::int64_t rows = 0;
  std::uint64_t checksum = 0;  ///< over integers and lengths of texts; NULL counts nothing
};

Result read_by_stepping(const std::string& path) {
  Result result;
  sqlite3* handle = nullptr;
  if (sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(handle));
  }
  for (const Needed& table : needed()) {
    std::string columns;
    for (const std::string& name : table.integers) columns += (columns.empty() ? "\"" : ", \"") + name + '"';
    for (const std::string& name : table.texts) columns += ", \"" + name + '"';
    sqlite3_stmt* statement = nullptr;
    const std::string sql = fmt::format("SELECT {} FROM {}", columns, table.table);
    if (sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(handle));
    }
    const int integers = static_cast<int>(table.integers.size()), all = sqlite3_column_count(statement);
    while (sqlite3_step(statement) == SQLITE_ROW) {
      for (int c = 0; c < integers; ++c)
        result.checksum += static_cast<std::uint64_t>(sqlite3_column_int64(statement, c));
      for (int c = integers; c < all; ++c) {
        if (sqlite3_column_text(statement, c) != nullptr) {
          result.checksum += static_cast<std::uint64_t>(sqlite3_column_bytes(statement, c));
        }
      }
      ++result.rows;
    }
    sqlite3_finalize(statement);
  }
  sqlite3_close(handle);
  return result;
}

Result read_by_scanning(const std::string& path, const ingest::ScanOptions& options) {
  Result result;
  const ingest::Database database(path, ingest::OpenMode::read_only, options);
  for (const Needed& table : needed()) {
    ingest::TableScan scan(database, table.table);
    std::vector<ingest::IntegerColumn> integers;
    std::vector<ingest::TextColumn> texts;
    for (const std::string& name : table.integers) integers.push_back(scan.integer(name));
    for (const std::string& name : table.texts) texts.push_back(scan.text(name));
    scan.for_each_batch([&](std::size_t rows) {
      for (const ingest::IntegerColumn& column : integers) {
        for (std::size_t row = 0; row < rows; ++row) {
          if (column[row] != no_time) result.checksum += static_cast<std::uint64_t>(column[row]);
        }
      }
      for (const ingest::TextColumn& column : texts) {
        for (std::size_t row = 0; row < rows; ++row) result.checksum += column[row].size();
      }
      result.rows += static_cast<std::int64_t>(rows);
    });
  }
  return result;
}

constexpr std::size_t window_bytes = 1 << 20;

Result read_bytes(const std::string& path) {
  Result result;
  std::vector<char> window(window_bytes);
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (off_t offset = 0; true; offset += static_cast<off_t>(window_bytes)) {
    const ssize_t got = ::pread(descriptor, window.data(), window.size(), offset);
    if (got <= 0) break;
    result.checksum += static_cast<std::uint64_t>(window[static_cast<std::size_t>(got) / 2]);
  }
  ::close(descriptor);
  return result;
}

Result copy_memory(std::uintmax_t bytes) {
  Result result;
  std::vector<char> source(256 * window_bytes, 'x'), target(256 * window_bytes, 'y');
  for (std::uintmax_t done = 0; done < bytes; done += source.size()) {
    std::memcpy(target.data(), source.data(), source.size());
    result.checksum += static_cast<std::uint64_t>(target[done % target.size()]);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: read_methods FILE step|sqlite|pages|pread|memcpy [THREADS]\n");
    return 2;
  }
  const std::string path = argv[1], method = argv[2];
  const int threads = argc > 3 ? std::stoi(argv[3]) : 1;
  const std::uintmax_t bytes = std::filesystem::file_size(path);
  const std::map<std::string, std::function<Result()>> methods = {
      {"step", [&] { return read_by_stepping(path); }},
      {"sqlite",
       [&] {
         return read_by_scanning(path, {ingest::Reader::sqlite, 1, {}});
       }},
      {"pages",
       [&] {
         return read_by_scanning(path, {ingest::Reader::pages, threads, {}});
       }},
      {"pread", [&] { return read_bytes(path); }},
      {"memcpy", [&] { return copy_memory(bytes); }}};
  const auto found = methods.find(method);
  if (found == methods.end()) return 2;
  const auto start = std::chrono::steady_clock::now();
  const Result result = found->second();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto cpu = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  fmt::print(
      R"({{"method": "{}", "threads": {}, "seconds": {:.4f}, "cpu_seconds": {:.4f}, "rows": {}, "checksum": {}, )"
      R"("bytes": {}, "peak_memory_bytes": {}}})"
      "\n",
      method, threads, seconds, cpu(usage.ru_utime) + cpu(usage.ru_stime), result.rows, result.checksum, bytes,
      usage.ru_maxrss * 1024);
  return 0;
}
