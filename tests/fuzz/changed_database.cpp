#include "fuzz/changed_database.hpp"

#include <stdexcept>

namespace nsys_explain::hostile {

ChangedDatabase::ChangedDatabase(const std::filesystem::path& path) {
  if (sqlite3_open(path.c_str(), &handle_) != SQLITE_OK) throw std::runtime_error("cannot open " + path.string());
  run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
}

ChangedDatabase::~ChangedDatabase() {
  run("COMMIT");
  sqlite3_close(handle_);
}

void ChangedDatabase::run_with(const std::string& sql, const std::string& bytes, bool as_blob) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return;
  const int size = static_cast<int>(bytes.size());
  if (as_blob) {
    sqlite3_bind_blob(statement, 1, bytes.data(), size, SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_text(statement, 1, bytes.data(), size, SQLITE_TRANSIENT);
  }
  sqlite3_step(statement);
  sqlite3_finalize(statement);
}

std::vector<std::string> ChangedDatabase::texts(const std::string& sql) {
  std::vector<std::string> result;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return result;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement, 0));
    result.emplace_back(bytes == nullptr ? "" : bytes,
                        bytes == nullptr ? 0 : static_cast<std::size_t>(sqlite3_column_bytes(statement, 0)));
  }
  sqlite3_finalize(statement);
  return result;
}

std::int64_t ChangedDatabase::number(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) return 0;
  const std::int64_t result = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  sqlite3_finalize(statement);
  return result;
}

bool ChangedDatabase::has_rows(const std::string& table) {
  return number("SELECT 1 FROM \"" + table + "\" LIMIT 1") == 1;
}

}  // namespace nsys_explain::hostile
