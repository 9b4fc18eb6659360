#include "ingest/table_facts.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <functional>

namespace nsys_explain::ingest {
namespace {

std::string text_of(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text == nullptr ? std::string() : std::string(text);
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
  return text;
}

void for_each_row(const Database& database, std::string_view table, const char* sql,
                  const std::function<void(sqlite3_stmt*)>& use) {
  sqlite3_stmt* statement = nullptr;
  int code = sqlite3_prepare_v2(database.handle(), sql, -1, &statement, nullptr);
  if (code == SQLITE_OK) {
    sqlite3_bind_text(statement, 1, table.data(), static_cast<int>(table.size()), SQLITE_TRANSIENT);
    while ((code = sqlite3_step(statement)) == SQLITE_ROW) use(statement);
  }
  sqlite3_finalize(statement);
  if (code != SQLITE_DONE) throw_sqlite_error(database.handle(), code, table);
}

/// A superset of what SQLite takes for REAL affinity (https://sqlite.org/datatype3.html, 3.1).
bool sounds_real(const std::string& type) {
  for (const char* part : {"REAL", "FLOA", "DOUB"}) {
    if (upper(type).find(part) != std::string::npos) return true;
  }
  return false;
}

/// The rowid has three names; columns may take them.
std::string find_rowid_name(const Database& database, std::string_view table, const TableFacts& facts) {
  for (const char* name : {"rowid", "_rowid_", "oid"}) {
    const bool is_column = std::any_of(facts.columns.begin(), facts.columns.end(),
                                       [&](const auto& column) { return upper(column.name) == upper(name); });
    if (is_column) continue;
    sqlite3_stmt* statement = nullptr;
    const std::string sql = fmt::format("SELECT {} FROM {}", name, quoted_identifier(table));
    const int code = sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &statement, nullptr);
    sqlite3_finalize(statement);
    return code == SQLITE_OK ? name : "";  // tables WITHOUT ROWID know none of them
  }
  return "";
}

}  // namespace

TableFacts read_table_facts(const Database& database, std::string_view table) {
  TableFacts facts;
  for_each_row(database, table, "SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?1",
               [&](sqlite3_stmt* row) { facts.root_page = static_cast<std::uint32_t>(sqlite3_column_int64(row, 0)); });
  std::size_t key_columns = 0;
  bool key_is_integer = false;
  const char* columns = "SELECT name, type, pk, hidden, \"notnull\", dflt_value IS NULL FROM pragma_table_xinfo(?1)";
  for_each_row(database, table, columns, [&](sqlite3_stmt* row) {
    const std::string type = text_of(row, 1);
    if (sqlite3_column_int(row, 2) > 0) {
      ++key_columns;
      key_is_integer = upper(type) == "INTEGER";
      facts.rowid_column = facts.columns.size();
    }
    facts.has_generated_columns |= sqlite3_column_int(row, 3) != 0;
    facts.columns.push_back({text_of(row, 0), sounds_real(type)});
    const bool never_null = sqlite3_column_int(row, 4) != 0, has_no_default = sqlite3_column_int(row, 5) != 0;
    facts.rules.never_null.push_back(never_null);
    // SQLite adds no column without a value for the rows that exist.
    if (never_null && has_no_default) facts.rules.fewest_columns = facts.columns.size();
  });
  // A primary key that is not the rowid has an index of its own (INTEGER PRIMARY KEY DESC is such a one).
  bool key_has_index = false;
  for_each_row(database, table, "SELECT 1 FROM pragma_index_list(?1) WHERE origin = 'pk'",
               [&](sqlite3_stmt*) { key_has_index = true; });
  if (key_columns != 1 || !key_is_integer || key_has_index) facts.rowid_column.reset();
  if (facts.rowid_column) facts.rules.never_null[*facts.rowid_column] = false;  // the record holds NULL instead
  if (facts.has_generated_columns) facts.rules = {std::vector<bool>(facts.columns.size()), 0};
  facts.rowid_name = find_rowid_name(database, table, facts);
  return facts;
}

}  // namespace nsys_explain::ingest
