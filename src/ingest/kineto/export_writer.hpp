#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

struct sqlite3;
struct sqlite3_stmt;

namespace nsys_explain::ingest {

/// A value of a row; nothing: NULL.
using Cell = std::variant<std::monostate, std::int64_t, std::string_view>;

/// A new SQLite file that is written row by row in one transaction. Throws TraceError where it cannot be written.
class ExportWriter {
 public:
  explicit ExportWriter(const std::string& path);
  ~ExportWriter();
  ExportWriter(const ExportWriter&) = delete;
  ExportWriter& operator=(const ExportWriter&) = delete;

  /// Number of rows that its last statement changed.
  std::int64_t run(const std::string& sql);
  /// Rows of integers; `use` may write rows of other tables.
  void for_each(const std::string& sql, const std::function<void(const std::vector<std::int64_t>& row)>& use);
  /// A table with these columns ("start INTEGER, name TEXT"), and its number for `row`.
  std::size_t table(const std::string& name, const std::string& columns);
  void row(std::size_t table, std::initializer_list<Cell> cells);
  /// Id of a text in StringIds.
  std::int64_t id(const std::string& text);
  void finish();

 private:
  [[noreturn]] void fail(int code) const;
  void check(int code) const;

  sqlite3* handle_ = nullptr;
  std::vector<sqlite3_stmt*> inserts_;
  std::size_t strings_ = 0;
  std::int64_t next_id_ = 1;
  std::unordered_map<std::string, std::int64_t> ids_;
};

}  // namespace nsys_explain::ingest
