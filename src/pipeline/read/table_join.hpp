#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nsys_explain/model/table.hpp"

/// Tables of trace ranks, those of one name below each other.
namespace nsys_explain::pipeline {

/// A table of several trace ranks, by trace rank, and where it was met first: number `place` of that one's tables.
struct JoinedTable {
  std::int32_t first_trace_rank = 0;
  std::uint32_t place = 0;
  Table rows;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(first_trace_rank, place, rows);
  }
};

/// Appends rows of a table of a trace rank to the joined one.
void append_rows_of(std::int32_t trace_rank, const Table& rows, std::size_t first, std::size_t count, Table& joined);

/// The schema of a rank table once the tables of all trace ranks are joined: with a column `trace_rank` in front.
TableSchema with_trace_rank(TableSchema schema);

/// Throws std::runtime_error where tables of one name have other columns.
class TableJoin {
 public:
  /// Takes the tables of a trace rank; these are to come in ascending order.
  void add(std::int32_t trace_rank, std::vector<Table> tables);
  /// Appends what several tool ranks have joined of trace ranks that come after those so far.
  void add(std::vector<JoinedTable> parts);
  /// In the order in which the trace ranks, one after the other, have shown them.
  std::vector<JoinedTable> take() && { return std::move(joined_); }

 private:
  std::map<std::string, std::size_t> position_;
  std::vector<JoinedTable> joined_;
};

}  // namespace nsys_explain::pipeline
