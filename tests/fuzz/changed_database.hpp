#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nsys_explain::hostile {

/// A database that is written to. What SQLite refuses does not happen.
class ChangedDatabase {
 public:
  explicit ChangedDatabase(const std::filesystem::path& path);
  ~ChangedDatabase();
  ChangedDatabase(const ChangedDatabase&) = delete;
  ChangedDatabase& operator=(const ChangedDatabase&) = delete;

  void run(const std::string& sql) { sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr); }
  void run_with(const std::string& sql, const std::string& bytes, bool as_blob);

  /// The first column of the rows.
  std::vector<std::string> texts(const std::string& sql);
  /// The first column of the first row; 0: there is none.
  std::int64_t number(const std::string& sql);
  bool has_rows(const std::string& table);

 private:
  sqlite3* handle_ = nullptr;
};

}  // namespace nsys_explain::hostile
