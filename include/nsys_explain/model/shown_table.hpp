#pragma once

#include <limits>
#include <set>

#include "nsys_explain/model/table.hpp"

/// Tables made smaller for people.
namespace nsys_explain {

/// A column of what a table adds up to.
struct FoldedColumn {
  enum class By {
    key,
    sum,
    largest,
    smallest,
    median,       ///< the lower one
    mean,         ///< weighted by `of`; values that are not finite do not count
    rows,         ///< how many; `from` is any column
    share,        ///< sum of the row's / that of all rows, those that `only_where` leaves out included; from 0 to 1
    at_largest,   ///< the value in the row with the largest `of`, the first of them
    at_smallest,  ///< likewise
  };
  std::string_view name;  ///< there
  std::string_view from;  ///< the column of the table; its kind and unit stay
  By by = By::sum;        ///< all but `key`, `at_largest` and `at_smallest` want numbers
  std::string_view of = {};
};

constexpr std::size_t every_row = std::numeric_limits<std::size_t>::max();

/// How the rows of a table are added up: a row for all that agree in the keys.
struct Folding {
  std::vector<FoldedColumn> columns = {};
  /// A name of `columns`: most of it first, then by keys. Empty: by keys, or by first rows.
  std::string_view order = {};
  bool by_first_rows = false;
  std::size_t most = 50;  ///< rows that are kept
  /// Rows that do not count: those that have 0 in this column; of texts, another than `is` or, where that is empty,
  /// `is_not`.
  std::string_view only_where = {}, is = {}, is_not = {};
};

/// The rows of these trace ranks added up; empty `trace_ranks`: all rows. Throws std::out_of_range where the table
/// lacks a column.
Table fold_rows(const Table& table, const Folding& folding, const std::set<std::int64_t>& trace_ranks = {});

/// Of `table`, with the columns of `other` that are no keys of it: those of its row with equal keys, else 0 or "".
/// The keys are the columns that both have.
Table joined_by_keys(Table table, const Table& other);

/// How people see a table, and who rests on it. report.json, report.md and report.html are drawn from this; what is
/// empty is not drawn.
struct ShownTable {
  /// A column of the section in report.md.
  struct Cell {
    std::string_view heading;
    std::string_view column;       ///< of `folding`
    std::string_view per = {};     ///< a column in ns that it is divided by: GB/s
    bool is_code = false;          ///< a name of the traces
    std::string_view if_set = {};  ///< of a column with 0 or 1: the word for 1; 0 is "-"
  };
  /// Sums of another table with the same keys; 0 and "" where it has no such row.
  struct Beside {
    std::string_view table;
    Folding folding;
  };
  std::string_view table;
  std::vector<std::string_view> findings = {};  ///< ids of those that rest on it
  std::string_view view = {};                   ///< of report.html that shows their evidence; empty: the table itself
  std::string_view list = {};                   ///< its sums in report.json
  std::string_view in = "activity";             ///< the object there that has this list; empty: report.json itself
  Folding folding = {};
  std::vector<Beside> beside = {};
  /// The section of report.md, where a finding rests on it.
  std::string_view title = {}, derivation = {};
  std::vector<Cell> cells = {};
  std::size_t lines = 8;
  std::string_view rest = {};  ///< where the other rows are
  std::string_view note = {};  ///< a sentence below
};

struct JobReport;

/// A figure of the row with that `name`; 0 where there is none.
std::int64_t figure_of(const Table& sums, std::string_view name, std::string_view figure);

/// The sums that `shown` declares, over the trace ranks of the report; over its processes where none has GPU work. A
/// table without columns where `tables` lack it.
Table sums_of(const std::vector<Table>& tables, const JobReport& report, const ShownTable& shown);

}  // namespace nsys_explain
