#include "ingest/input_schema.hpp"

#include <sqlite3.h>

#include "ingest/database.hpp"
#include "ingest/input_file.hpp"
#include "ingest/unread_tables.hpp"

namespace nsys_explain::ingest {
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
