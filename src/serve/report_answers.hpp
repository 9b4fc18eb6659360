#pragma once

#include <map>

#include <nlohmann/json.hpp>

#include "serve/report_tree.hpp"
#include "serve/table_query.hpp"
#include "store/store_reader.hpp"

/// What the service answers about one report, and about all of a job.
namespace nsys_explain::serve {

using Json = nlohmann::ordered_json;

/// A report that is open: its store and its report.json. Reads, and computes nothing.
class Report {
 public:
  Report(const ReportTree& tree, const std::string& name);

  const std::string& name() const { return name_; }
  /// Whether the files are still those that were opened.
  bool is_current(const ReportTree& tree) const;
  const Json& document() const { return document_; }
  std::vector<std::string> tables() const { return store_->table_names(); }
  bool has_table(const std::string& table) const { return store_->has_table(table); }
  /// Throws Refusal where there is none.
  TableSchema schema(const std::string& table) const;
  std::int64_t row_count(const std::string& table) const;

  struct Rows {
    Table table;                     ///< the chosen columns and rows
    std::vector<std::int64_t> rows;  ///< their numbers in the table of the store, from 0
    std::int64_t matching = 0;       ///< rows that the conditions let through
  };
  Rows rows(const std::string& table, const TableQuery& query);

 private:
  /// A whole column, kept while there is room.
  std::shared_ptr<const ColumnData> column(const std::string& table, const std::string& name);

  std::string name_;
  Descriptor store_file_, json_file_;
  Stamp store_stamp_, json_stamp_;  ///< as they were opened: a file may be written over
  std::unique_ptr<store::StoreReader> store_;
  Json document_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const ColumnData>> columns_;
  std::size_t column_bytes_ = 0;
};

/// The JSON of one value: null for missing times and what is no finite number.
Json value_json(const ColumnData& column, std::size_t row);

/// Answers of the programming interface (docs/service.md). Each throws Refusal.
Json summary_answer(const Report& report);
Json verdict_answer(const Report& report);
Json findings_answer(const Report& report);
Json what_if_answer(const Report& report);
Json capture_advice_answer(const Report& report);
Json tables_answer(const Report& report);
Json table_answer(Report& report, const std::string& table, const TableQuery& query);

// Which reports are listed, and in which order: the same for pages, programs and assistants.

struct HistoryQuery {
  std::string find;             ///< in name or verdict, without regard to case; empty: all
  std::string job;              ///< only runs of this job; empty: all
  std::string order = "-date";  ///< name, date, saving, severity or step; with '-' the largest, gravest or latest first
  std::size_t limit = 100, offset = 0;
};

/// From `find`, `job`, `order`, `limit` (at most 10,000) and `offset`. Throws Refusal where one means nothing.
HistoryQuery parse_history_query(const std::vector<std::pair<std::string, std::string>>& parameters);

struct History {
  std::vector<Json> summaries;  ///< of this page
  std::size_t matching = 0;     ///< in all
};

/// Equal ones come by name. Those that cannot be read come last.
History history_of(std::vector<Json> summaries, const HistoryQuery& query);

/// What runs of one job have in common: the name without the dates, times and numbers at its end.
/// "llama/2026-11-26T10-00" and "llama/2026-11-27" are runs of "llama", "job42" of "job".
std::string job_of(std::string_view name);

}  // namespace nsys_explain::serve
