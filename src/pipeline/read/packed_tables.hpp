#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/table.hpp"
#include "pipeline/tool_rank/slabs.hpp"

/// The tables of a trace rank, small until somebody asks for them: most are only written, at the end.
namespace nsys_explain::pipeline {

/// Whether a table has a row per event and nobody looks at it as a whole: such tables stay with their trace ranks until
/// they are written, for together they are most of what rank 0 would hold.
bool is_long(std::string_view table);
/// Their names, in a fixed order.
std::vector<std::string_view> long_table_names();

/// Consecutive rows of a long table.
struct PackedRowRun {
  std::string table;
  TableExtent extent;
  std::string bytes;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(table, extent, bytes);
  }
};

class PackedTables {
 public:
  PackedTables() = default;
  explicit PackedTables(std::vector<Table> tables);

  /// The short ones, and the long ones without rows. Throws std::runtime_error where they were damaged.
  std::vector<Table> short_tables() const;
  /// Gives back what the short ones take.
  void release_short_tables() { std::string().swap(short_); }

  /// The rows of all long tables, each table's in order.
  const std::vector<PackedRowRun>& long_runs() const { return long_; }
  /// Gives back what that run takes.
  void release(std::size_t run) { std::string().swap(long_[run].bytes); }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(short_, long_);
  }

 private:
  std::string short_;
  std::vector<PackedRowRun> long_;
};

/// Throws std::runtime_error where it is of no table that reading makes.
const TableSchema& schema_of(const PackedRowRun& run);
/// Throws std::runtime_error where it was damaged.
Table unpacked(const PackedRowRun& run);

/// Whether they can be what reading makes: tables that it makes, whole, of the extents that they tell.
bool are_whole(const PackedTables& tables);

}  // namespace nsys_explain::pipeline
