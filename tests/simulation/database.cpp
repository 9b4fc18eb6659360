#include "simulation/database.hpp"

#include <stdexcept>

#include <fmt/format.h>
#include <sqlite3.h>

namespace nsys_explain::synth {

Database::Database(const std::string& path) : path_(path) {
  if (sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr) != SQLITE_OK)
    fail("be created");
  execute(
      "PRAGMA page_size=4096; PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; BEGIN");
}

Database::~Database() {
  sqlite3_close(handle_);
}

void Database::fail(const char* action) const {
  throw std::runtime_error(
      fmt::format("{} cannot {} ({}), so the simulated job is incomplete; check the disk and rerun", path_, action,
                  handle_ == nullptr ? "no memory" : sqlite3_errmsg(handle_)));
}

void Database::execute(const std::string& sql) {
  if (sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) fail("be written");
}

sqlite3_stmt* Database::prepare(const std::string& sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) fail("be written");
  return statement;
}

void Database::finish() {
  execute("COMMIT");
}

Table::Table(Database& database, std::string name, std::vector<Column> columns)
    : database_(database), name_(std::move(name)), columns_(std::move(columns)) {}

Table::~Table() {
  sqlite3_finalize(statement_);
}

int Table::column(std::string_view name) const {
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].name == name) return static_cast<int>(i) + 1;
  return 0;
}

void Table::create() {
  if (statement_ != nullptr) return;
  std::string definition, values;
  for (const Column& column : columns_) {
    const char* separator = definition.empty() ? "" : ", ";
    definition += fmt::format("{}\"{}\" {}{}{}", separator, column.name, column.type,
                              column.not_null ? " NOT NULL" : "", column.primary_key ? " PRIMARY KEY" : "");
    values += fmt::format("{}?", separator);
  }
  database_.execute(fmt::format("CREATE TABLE IF NOT EXISTS \"{}\" ({})", name_, definition));
  statement_ = database_.prepare(fmt::format("INSERT INTO \"{}\" VALUES ({})", name_, values));
}

void Table::set(int column, std::int64_t value) {
  create();
  if (column > 0) sqlite3_bind_int64(statement_, column, value);
}

void Table::set_text(int column, std::string_view value) {
  create();
  if (column > 0) sqlite3_bind_text(statement_, column, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

void Table::set_blob(int column, std::string_view value) {
  create();
  if (column > 0) sqlite3_bind_blob(statement_, column, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
}

void Table::set_null(int column) {
  create();
  if (column > 0) sqlite3_bind_null(statement_, column);
}

void Table::insert() {
  create();
  if (sqlite3_step(statement_) != SQLITE_DONE) {
    sqlite3_reset(statement_);
    throw std::runtime_error(
        fmt::format("a row of {} cannot be written, so the export is incomplete; check the disk and rerun", name_));
  }
  sqlite3_reset(statement_);
  ++rows_;
}

}  // namespace nsys_explain::synth
