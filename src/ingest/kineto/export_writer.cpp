#include "ingest/kineto/export_writer.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {

ExportWriter::ExportWriter(const std::string& path) {
  check(sqlite3_open_v2(path.c_str(), &handle_, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr));
  // A scratch file: it is of no use to anybody but the run that writes it.
  run("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; BEGIN");
  strings_ = table("StringIds", "id INTEGER PRIMARY KEY, value TEXT");
}

ExportWriter::~ExportWriter() {
  for (sqlite3_stmt* insert : inserts_) sqlite3_finalize(insert);
  sqlite3_close(handle_);
}

void ExportWriter::fail(int code) const {
  throw TraceError(fmt::format(
      "its events cannot be written to the temporary directory ({}), so its ranks are missing; make room there, or set TMPDIR to a larger disk",
      sqlite3_errstr(code)));
}

void ExportWriter::check(int code) const {
  if (code != SQLITE_OK && code != SQLITE_DONE) fail(code);
}

std::int64_t ExportWriter::run(const std::string& sql) {
  check(sqlite3_exec(handle_, sql.c_str(), nullptr, nullptr, nullptr));
  return sqlite3_changes(handle_);
}

void ExportWriter::for_each(const std::string& sql,
                            const std::function<void(const std::vector<std::int64_t>& row)>& use) {
  sqlite3_stmt* opened = nullptr;
  check(sqlite3_prepare_v2(handle_, sql.c_str(), -1, &opened, nullptr));
  const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(opened, sqlite3_finalize);
  std::vector<std::int64_t> row(static_cast<std::size_t>(sqlite3_column_count(opened)));
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(opened)) == SQLITE_ROW) {
    for (std::size_t column = 0; column < row.size(); ++column)
      row[column] = sqlite3_column_int64(opened, static_cast<int>(column));
    use(row);
  }
  check(code);
}

std::size_t ExportWriter::table(const std::string& name, const std::string& columns) {
  run(fmt::format("CREATE TABLE {} ({})", name, columns));
  std::string marks = "?";
  for (auto more = std::count(columns.begin(), columns.end(), ','); more > 0; --more) marks += ",?";
  sqlite3_stmt* insert = nullptr;
  check(sqlite3_prepare_v2(handle_, fmt::format("INSERT INTO {} VALUES ({})", name, marks).c_str(), -1, &insert,
                           nullptr));
  inserts_.push_back(insert);
  return inserts_.size() - 1;
}

void ExportWriter::row(std::size_t table, std::initializer_list<Cell> cells) {
  sqlite3_stmt* const insert = inserts_[table];
  int place = 0;
  for (const Cell& cell : cells) {
    ++place;
    if (const auto* number = std::get_if<std::int64_t>(&cell)) {
      sqlite3_bind_int64(insert, place, *number);
    } else if (const auto* text = std::get_if<std::string_view>(&cell)) {
      sqlite3_bind_text64(insert, place, text->data(), text->size(), SQLITE_STATIC, SQLITE_UTF8);
    } else {
      sqlite3_bind_null(insert, place);
    }
  }
  const int code = sqlite3_step(insert);
  sqlite3_reset(insert);
  check(code);
}

std::int64_t ExportWriter::id(const std::string& text) {
  constexpr std::size_t most_known = 1'000'000;  // beyond, each use gets an id of its own
  const auto known = ids_.find(text);
  if (known != ids_.end()) return known->second;
  const std::int64_t id = next_id_++;
  row(strings_, {id, std::string_view(text)});
  if (ids_.size() < most_known) ids_.emplace(text, id);
  return id;
}

void ExportWriter::finish() {
  run("COMMIT");
}

}  // namespace nsys_explain::ingest
