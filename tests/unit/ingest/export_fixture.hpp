#pragma once

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>

#include "nsys_explain/ingest/ingest.hpp"

/// Hand-made exports for tests: a directory of its own for each test and SQL as it would have been written by nsys.
namespace nsys_explain::ingest::testing {

/// A directory that is removed with everything in it.
class TestDirectory {
 public:
  TestDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "ingest-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class ScratchTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name = "trace.sqlite") const { return (directory_.path() / name).string(); }
  const std::filesystem::path& directory() const { return directory_.path(); }

 private:
  TestDirectory directory_;
};

/// A connection that writes.
class Writer {
 public:
  explicit Writer(const std::string& path) {
    if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(handle_));
    (*this)("PRAGMA synchronous = OFF");  // tests need no protection against power cuts
  }
  ~Writer() { sqlite3_close(handle_); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Writer& operator()(const std::string& sql) {
    char* message = nullptr;
    if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, &message) != SQLITE_OK) {
      throw std::runtime_error(sql + ": " + message);
    }
    return *this;
  }

 private:
  sqlite3* handle_ = nullptr;
};

/// What every export since 2023.3 has: metadata, session start, strings.
inline void add_basics(Writer& sql, const std::string& schema_major = "3") {
  sql("CREATE TABLE META_DATA_EXPORT (name TEXT NOT NULL, value TEXT)");
  sql("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2026.2.1.210'),"
      "('EXPORT_SCHEMA_VERSION', '" +
      schema_major + ".25.0'), ('EXPORT_SCHEMA_VERSION_MAJOR', '" + schema_major + "')");
  sql("CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER NOT NULL, utcTime TEXT, localTime TEXT, "
      "systemClockNs INTEGER)");
  sql("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, 'x', 'x', 5000000000)");
  sql("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)");
}

/// Process 0x0001 000064 000000: hardware 0, VM 1, pid 100; and its thread 101.
inline constexpr std::int64_t pid_100 = 0x0001000064000000;
inline constexpr std::int64_t tid_101 = pid_100 + 101;
/// pid 200.
inline constexpr std::int64_t pid_200 = 0x00010000C8000000;
inline constexpr std::int64_t tid_201 = pid_200 + 201;

inline void add_kernel_table(Writer& sql) {
  sql("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT "
      "NULL,contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,launchType INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER,blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER, graphNodeId INTEGER)");
}

struct KernelRow {
  std::int64_t start = 0, end = 0;
  int device = 0, stream = 7, correlation = 0, name = 0;
  std::int64_t global_pid = pid_100;
};

inline void add_kernel(Writer& sql, const KernelRow& k) {
  std::ostringstream row;
  row << "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL(start, end, deviceId, contextId, streamId, correlationId, globalPid,"
         "demangledName, shortName, registersPerThread, gridX, gridY, gridZ, blockX, blockY, blockZ) VALUES ("
      << k.start << "," << k.end << "," << k.device << ",1," << k.stream << "," << k.correlation << "," << k.global_pid
      << "," << k.name << "," << k.name << ",32,1,2,3,4,5,6)";
  sql(row.str());
}

inline void add_runtime_table(Writer& sql) {
  sql("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER,"
      "globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL)");
}

inline void add_nvtx_table(Writer& sql, const std::string& more_columns = ", binaryData TEXT") {
  sql("CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,"
      "text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, jsonTextId INTEGER,jsonText TEXT" +
      more_columns + ")");
}

inline std::string text_of(std::int64_t number) {
  return std::to_string(number);
}

inline std::string bytes_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// Everything that must not change: names, contents (as a hash) and modification times in a directory.
inline std::map<std::string, std::string> snapshot(const std::filesystem::path& directory) {
  std::map<std::string, std::string> result;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    const auto modified = std::filesystem::last_write_time(entry.path()).time_since_epoch().count();
    const std::string bytes = bytes_of(entry.path().string());
    result[entry.path().filename().string()] = std::to_string(modified) + ":" + std::to_string(bytes.size()) + ":" +
                                               std::to_string(std::hash<std::string>()(bytes));
  }
  result["."] = std::to_string(std::filesystem::last_write_time(directory).time_since_epoch().count());
  return result;
}

/// The message of the TraceError that reading the file gives; "" if it gives none.
inline std::string error_of(const std::string& path) {
  try {
    read_trace(path);
  } catch (const TraceError& error) {
    return error.what();
  }
  return "";
}

inline bool has_warning(const Trace& trace, const std::string& part, std::int64_t count = -1) {
  for (const Warning& warning : trace.warnings) {
    if (warning.message.find(part) != std::string::npos && (count < 0 || warning.count == count)) return true;
  }
  return false;
}

}  // namespace nsys_explain::ingest::testing
