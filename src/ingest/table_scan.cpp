#include "ingest/table_scan.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

#include "ingest/pages/page_rows.hpp"

namespace nsys_explain::ingest {
namespace {

/// What the schema says about how a table is stored.
struct TableFacts {
  struct Column {
    std::string name;
    bool may_be_real = false;  ///< whole numbers are stored as integers, but mean 1.0, not 1
  };

  std::uint32_t root_page = 0;
  std::vector<Column> columns;              ///< as in the records
  pages::RecordRules rules;                 ///< for its records
  std::optional<std::size_t> rowid_column;  ///< INTEGER PRIMARY KEY, which is the rowid itself
  std::string rowid_name;                   ///< by which SQL knows the rowid; empty: it has none, or columns hide it
  bool has_generated_columns = false;       ///< which records may lack
};

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
  for (const char* part : {"REAL", "FLOA", "DOUB"})
    if (upper(type).find(part) != std::string::npos) return true;
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

/// Throws TraceError.
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

/// Throws pages::PageSurprise where only SQLite knows what a column means.
pages::PageScan plan_pages(const pages::PageFile& file, const TableFacts& facts, const ScanColumns& columns) {
  if (!file.has_utf8_texts()) throw pages::PageSurprise("texts are not in UTF-8");
  if (facts.has_generated_columns) throw pages::PageSurprise("some of its columns are generated");
  if (facts.rowid_name.empty()) throw pages::PageSurprise("its rowid has no name");
  pages::PageScan plan{facts.root_page, facts.rules, {}, columns.size()};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!columns[i]->exists) continue;
    const auto found = std::find_if(facts.columns.begin(), facts.columns.end(),
                                    [&](const auto& column) { return column.name == columns[i]->name; });
    const auto position = static_cast<std::size_t>(found - facts.columns.begin());
    const bool is_text = columns[i]->type == ColumnType::text;
    if (is_text && found->may_be_real) throw pages::PageSurprise("a column with fractions is wanted as text");
    plan.columns.push_back({position, i, is_text, facts.rowid_column == position});
  }
  std::stable_sort(plan.columns.begin(), plan.columns.end(),
                   [](const auto& a, const auto& b) { return a.position < b.position; });
  return plan;
}

void fill_absent(ScanColumn& column, std::size_t rows) {
  if (column.type == ColumnType::integer && column.values.integers.size() < rows)
    column.values.integers.resize(rows, no_time);
  if (column.type == ColumnType::text && column.values.texts.size() < rows) column.values.texts.resize(rows);
}

/// Shows the decoded columns through the scan's own for the time of the call.
void show_batch(pages::PageBatch& batch, ScanColumns& columns, const std::function<void(const RowSpan&)>& use) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i]->exists) {
      std::swap(columns[i]->values, batch.columns[i]);
    } else {
      fill_absent(*columns[i], batch.rows);
    }
  }
  use({batch.rows, batch.first_rowid, batch.last_rowid, batch.share_read});
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (columns[i]->exists) std::swap(columns[i]->values, batch.columns[i]);
}

std::size_t output_of(const ScanColumns& columns, std::string_view name) {
  const auto found = std::find_if(columns.begin(), columns.end(),
                                  [&](const auto& column) { return column->exists && column->name == name; });
  if (found == columns.end()) throw std::logic_error("a scan by time does not ask for its times");
  return static_cast<std::size_t>(found - columns.begin());
}

/// By run of the zone map: whether it touches none of the times.
std::vector<bool> outside_of(const std::vector<Interval>& zones, const std::vector<Interval>& times,
                             Nanoseconds shift_ns) {
  std::vector<bool> outside(zones.size(), true);
  for (const Interval& time : times) {
    Interval in_file;
    if (__builtin_add_overflow(time.start_ns, shift_ns, &in_file.start_ns) ||
        __builtin_add_overflow(time.end_ns, shift_ns, &in_file.end_ns))
      return {};
    for (std::size_t run = 0; run < zones.size(); ++run)
      if (zones[run].start_ns <= in_file.end_ns && zones[run].end_ns >= in_file.start_ns) outside[run] = false;
  }
  return outside;
}

/// Tables with fewer runs of pages are not worth their zone map; one of more would take more than 16 MB.
constexpr std::size_t fewest_zones = 4, most_zones = std::size_t{1} << 20;

/// One pass over a table with whichever reader can.
class TablePass {
 public:
  TablePass(const Database& database, const std::string& table, ScanColumns& columns, const BatchSink& sink,
            const std::optional<Nanoseconds>& time_shift_ns, SharesRead& shares)
      : database_(database),
        table_(table),
        columns_(columns),
        sink_(sink),
        time_shift_ns_(time_shift_ns),
        shares_(shares) {}

  void run() {
    const TableFacts facts = read_table_facts(database_, table_);
    try {
      if (database_.options().reader == Reader::sqlite || !read_pages(facts)) read_rest(facts);
    } catch (const pages::PageDamage& damage) {
      throw TraceError(fmt::format(
          "table {} is damaged ({}; {} rows were read before): the others cannot be trusted, so the trace was not read; copy the file again or repeat the export with nsys export",
          table_, damage.what(), seen_.rows));
    }
    if (!facts.rowid_name.empty() && !facts.rowid_column && !is_partial_) warn_about_gap();
  }

 private:
  /// False where SQLite has to read what is left.
  bool read_pages(const TableFacts& facts) {
    try {
      pages::PageScan plan = plan_pages(database_.page_file(), facts, columns_);
      leave_out_other_times(plan);
      std::vector<Interval> zones;
      pages::for_each_page_batch(database_.page_file(), plan, database_.options().threads,
                                 [&](pages::PageBatch& batch) {
                                   zones.resize(batch.run + 1, {std::numeric_limits<Nanoseconds>::max(), no_time});
                                   zones.back() = batch.times;
                                   show_batch(batch, columns_, [&](const RowSpan& span) { take(span); });
                                 });
      ZoneMap* const learnt = database_.options().learnt_zones;
      if (learnt != nullptr && time_shift_ns_ && zones.size() >= fewest_zones && zones.size() <= most_zones)
        learnt->emplace(table_, std::move(zones));
      return true;
    } catch (const pages::PageSurprise& surprise) {
      if (database_.options().reader == Reader::pages) {
        throw TraceError(fmt::format(
            "the pages of table {} cannot be read as they are ({}): the trace was not read; leave out --reader pages",
            table_, surprise.what()));
      }
      database_.log().warnings.push_back(
          {Severity::info, WarningSource::trace, 1,
           fmt::format(
               "table {} was read through SQLite, not page by page, because of this: {}; nothing is missing, it takes longer; export the report again for speed",
               table_, surprise.what())});
      return false;
    }
  }

  void leave_out_other_times(pages::PageScan& plan) {
    if (!time_shift_ns_) return;
    plan.times = {output_of(columns_, "start"), output_of(columns_, "end")};
    const FilePart& part = database_.options().part;
    if (part.zones == nullptr) return;
    const auto zones = part.zones->find(table_);
    if (zones == part.zones->end()) return;
    plan.unwanted = outside_of(zones->second, part.times, *time_shift_ns_);
    is_partial_ = true;
  }

  /// SQLite follows the pages of a table wherever they lead, so it gets only what has been checked. The trees of tables
  /// WITHOUT ROWID, which nsys does not write, are not: only the bounds of the database hold for them.
  void read_rest(const TableFacts& facts) {
    if (!facts.rowid_name.empty())
      pages::check_pages(database_.page_file(), {facts.root_page, facts.rules}, database_.options().threads);
    const SqliteScan rest{table_, facts.rowid_name, seen_.rows > 0 ? std::optional(seen_.last_rowid) : std::nullopt};
    for_each_sqlite_batch(database_, rest, columns_, [&](const RowSpan& batch) { take(batch); });
  }

  void take(const RowSpan& batch) {
    if (seen_.rows == 0) seen_.first_rowid = batch.first_rowid;
    seen_.last_rowid = batch.last_rowid;
    seen_.rows += batch.rows;
    shares_ = {shares_.after, batch.share_read, batch.rows};
    sink_(batch.rows);
    if (database_.options().on_rows) database_.options().on_rows(static_cast<std::int64_t>(batch.rows));
  }

  /// nsys numbers the rows it writes from 1, without gaps. Rows ascend, so there are no more of them than numbers.
  void warn_about_gap() {
    if (seen_.rows == 0) return;
    const auto first = static_cast<std::uint64_t>(std::min<std::int64_t>(seen_.first_rowid, 1));
    const std::uint64_t missing = static_cast<std::uint64_t>(seen_.last_rowid) - first - (seen_.rows - 1);
    if (missing == 0) return;
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    database_.log().warnings.push_back(
        {Severity::data_loss, WarningSource::trace, static_cast<std::int64_t>(std::min(missing, most)),
         fmt::format(
             "rows are missing in table {} ({} were read; row numbers have gaps): deleted by a tool, or lost with a damaged page; sums are short by them; export the report again",
             table_, seen_.rows)});
  }

  const Database& database_;
  const std::string& table_;
  ScanColumns& columns_;
  const BatchSink& sink_;
  const std::optional<Nanoseconds>& time_shift_ns_;
  SharesRead& shares_;
  RowSpan seen_;
  bool is_partial_ = false;
};

}  // namespace

TableScan::TableScan(const Database& database, std::string_view table)
    : database_(database), table_(table), table_exists_(database.has_table(table)) {}

IntegerColumn TableScan::integer(std::string_view name, Presence presence) {
  return IntegerColumn(add(name, ColumnType::integer, presence));
}

TextColumn TableScan::text(std::string_view name, Presence presence) {
  return TextColumn(add(name, ColumnType::text, presence));
}

const ScanColumn& TableScan::add(std::string_view name, ColumnType type, Presence presence) {
  auto column = std::make_unique<ScanColumn>();
  column->name = name;
  column->type = type;
  column->exists = database_.has_column(table_, name);
  if (table_exists_ && !column->exists && presence == Presence::required) {
    throw TraceError(fmt::format(
        "table {} has no column {}: its rows cannot be used without it; export the report again with nsys export, without changing the database",
        table_, name));
  }
  columns_.push_back(std::move(column));
  return *columns_.back();
}

void TableScan::for_each_batch(const BatchSink& sink) {
  if (table_exists_) TablePass(database_, table_, columns_, sink, time_shift_ns_, shares_).run();
}

}  // namespace nsys_explain::ingest
