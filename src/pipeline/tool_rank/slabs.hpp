#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/table.hpp"
#include "store/encoded_rows.hpp"

/// Long tables on their way to the files. Their rows lie on all tool ranks, and only rank 0 writes: the others bring
/// them into the form in which they are written, so that little is left for it to do.
namespace nsys_explain::pipeline {

/// Consecutive rows of a table.
struct RowRun {
  std::int64_t first = 0;  ///< row of the whole table
  Table rows;
};

/// Gives away those of rows [first, end) that lie on this tool rank, in any order. Called with ranges that follow each
/// other.
using TakeRows = std::function<std::vector<RowRun>(std::int64_t first, std::int64_t end)>;

/// One slab (store::slab_rows) in the forms in which it is written.
struct Slab {
  store::EncodedRows rows;
  std::string csv;  ///< empty where none was asked for

  template <class Archive>
  void serialize(Archive& archive) {
    archive(rows, csv);
  }
};

/// A table whose rows lie on all tool ranks. `write` is called on rank 0 only, in the order of the rows.
struct DealtTable {
  TableExtent extent;  ///< the same on all tool ranks
  TakeRows take;
  std::function<void(const Slab&)> write;
};

/// Collective: takes all rows of the tables, one slab for each tool rank at a time, encodes them there and writes them,
/// table after table. Slabs of several tables are encoded at once, so that tables shorter than a slab for each rank
/// keep all ranks busy, too. Which rank encodes what has no influence on the result.
void write_by_slabs(const exchange::Communicator& communicator, std::span<const DealtTable> tables, bool with_csv);

/// Appends rows [first, first + count) of the columns of `from` to those of `to`, where its first column is that of
/// number `at`.
void append_run(const Table& from, std::size_t first, std::size_t count, Table& to, std::size_t at = 0);

}  // namespace nsys_explain::pipeline
