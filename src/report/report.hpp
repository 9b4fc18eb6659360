#pragma once

#include <map>

#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

/// Pure functions from the result to text. They read no file, no clock and no environment.
namespace nsys_explain::report {

/// report.json, schema_version 1.0: the contract of docs/outputs.md. Ends with a newline.
std::string to_json(const JobReport& report);

/// report.md: verdict, findings, then tables, readable as plain text in a terminal.
std::string to_markdown(const JobReport& report);

/// Whether the tool was built with the page of report.html.
bool has_html();

/// What report.html needs of a table with rows of every trace rank that is too long to be held.
struct LongTable {
  /// Up to most_shown_rows() of each trace rank that is shown, and most_followed_rows of those that are followed; in
  /// the table's order.
  Table first_rows;
  std::size_t rows = 0;
};

/// Rows of one trace rank that report.html shows of a table at most.
std::size_t most_shown_rows(const TableSchema& schema);
/// Rows of a trace rank that it follows, for pictures of its course over time.
inline constexpr std::size_t most_followed_rows = 256;
/// Whether it shows rows of each of so many trace ranks that have any; else those of ranks_to_follow() only.
bool shows_every_rank(const TableSchema& schema, std::size_t rows_in_all, std::size_t trace_ranks);
/// The trace ranks whose course over time the page holds: late ones, and others evenly among the rest. Not empty where
/// there is a trace rank.
std::set<std::int64_t> ranks_to_follow(const JobReport& report);

/// report.html: one self-contained page. Empty where has_html() is false. `long_tables`, by name, stand for the tables
/// of that name in the report, which are empty there.
std::string to_html(const JobReport& report, const std::map<std::string, LongTable>& long_tables = {});

/// The few lines printed at the end of a run: the verdict and where the reports lie.
std::string to_summary(const JobReport& report, std::string_view output_directory);

/// The same in one line of JSON, for job logs. `exit_code`: of the run.
std::string to_summary_line(const JobReport& report, std::string_view output_directory, int exit_code);

/// Metrics in the text format of Prometheus (version 0.0.4), as the node exporter's textfile collector reads them.
/// Every series carries the label `results`, so that files of several jobs can lie side by side.
/// `exit_code`: of the run.
std::string to_prometheus(const JobReport& report, std::string_view output_directory, int exit_code);
/// How that begins, and nothing else does.
inline constexpr std::string_view prometheus_mark = "# HELP nsys_explain_run_info ";

/// What each phase of the run took, as lines for a terminal.
std::string to_phase_table(const RunFacts& run);

/// Header line and rows of a table as CSV (RFC 4180, UTF-8). Text that a spreadsheet would run as a formula is
/// defused with a leading apostrophe.
std::string csv_header(const TableSchema& schema);
std::string csv_rows(const Table& chunk);

/// 1234567 -> "1.235 ms": three or four significant digits and a unit that fits.
std::string format_duration(Nanoseconds duration_ns);
std::string format_bytes(std::int64_t bytes);

// Pure functions from a comparison of runs to text.

std::string comparison_to_json(const Comparison& comparison);
std::string comparison_to_markdown(const Comparison& comparison);
/// One self-contained page without scripts.
std::string comparison_to_html(const Comparison& comparison);
/// The verdict in one or two lines.
std::string comparison_summary(const Comparison& comparison);

// Tables as a person or a script reads them in a terminal. Pure functions.

struct TextStyle {
  bool colour = false;          ///< ANSI colours, for terminals
  std::size_t cell_width = 60;  ///< longer text loses its middle
};

/// Aligned columns with a heading line; durations and bytes with units, numbers to the right. Ends with a newline.
std::string table_text(const Table& table, const TextStyle& style);

/// An array of one object per row, keys in column order; missing times and non-finite numbers are null.
std::string table_json(const Table& table);

/// Units of nsys' --timeunit.
enum class TimeUnit { nsec, usec, msec, sec };

/// The table with its columns of nanoseconds in another unit, whose names end in it: wait_ns -> wait_us. What is
/// missing stays so. In nsec only the texts change: bare numbers.
Table in_time_unit(Table table, TimeUnit unit);

/// The rows of `table` whose integer column holds `value`; all others are left out.
Table rows_where(const Table& table, std::string_view column, std::int64_t value);

/// At most `count` rows, those with the largest value of an integer column first; ties stay in their order.
Table largest_rows(const Table& table, std::string_view column, std::size_t count);

/// The first `count` rows.
Table first_rows(const Table& table, std::size_t count);

}  // namespace nsys_explain::report
