#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nsys_explain/model/fold_rows.hpp"

namespace nsys_explain {

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
