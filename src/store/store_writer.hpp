#pragma once

#include "store/encoded_rows.hpp"

/// The only module that knows HDF5. One group per table, one dataset per column: chunked and deflated, or compact where
/// it is short; units and descriptions are attributes. See docs/outputs.md, The store.
namespace nsys_explain::store {

class StoreWriter {
 public:
  /// Creates (and truncates) the file. Throws std::runtime_error: problem, why it matters, what to do.
  explicit StoreWriter(const std::string& path);
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// Attributes of the group `path` ("/" is the file itself), which is created where it does not exist.
  void set_attribute(std::string_view path, std::string_view name, std::string_view value);
  void set_attribute(std::string_view path, std::string_view name, std::int64_t value);

  /// Creates the table's group and datasets. close() holds the caller to the rows of the extent, append() to the
  /// longest texts. Throws if the table exists already.
  void create_table(const TableSchema& schema, const TableExtent& extent);

  /// Appends the rows of a chunk to a table created before with the same schema. Throws std::runtime_error where the
  /// disk is full, and std::invalid_argument where columns differ in length or do not fit the schema.
  void append(const Table& chunk);

  /// The same with rows that were encoded elsewhere: the next slab of the table. Not after other rows that do not end a
  /// slab.
  void append(const EncodedRows& slab);

  /// create_table + append.
  void write(const Table& table);

  /// Flushes and closes; errors of the last write surface here. The destructor closes silently.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace nsys_explain::store
