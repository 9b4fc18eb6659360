#include "store/store_writer.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "store/column.hpp"

namespace nsys_explain::store {

namespace {

struct OpenTable {
  TableSchema schema;
  TableExtent extent;
  std::vector<Column> columns;
  std::size_t written = 0;  ///< rows
  Table pending;            ///< appended rows that do not make a slab yet
};

/// Groups keep the order in which their members were made, so that readers list columns in the order of the schema.
Object group_properties() {
  Object properties = own(H5Pcreate(H5P_GROUP_CREATE), H5Pclose, "create", "group properties");
  checked(H5Pset_link_creation_order(properties.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED), "track",
          "creation order");
  checked(H5Pset_obj_track_times(properties.id(), false), "switch off", "time stamps");  // reproducible files
  return properties;
}

Object create_file(const std::string& path) {
  const Object access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create", "file access properties");
#if H5_VERSION_GE(1, 10, 7)
  // Shared file systems without locks are common on clusters; nobody else writes this file.
  checked(H5Pset_file_locking(access.id(), true, true), "set", "file locking");
#endif
  return own(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose, "create", path);
}

void check_names(const TableSchema& schema) {
  const auto refuse = [&](std::string_view problem) {
    throw std::invalid_argument(
        fmt::format("table '{}' {}, so the store cannot hold it; correct its schema", schema.name, problem));
  };
  if (schema.name.empty()) refuse("has no name");
  if (schema.columns.empty()) refuse("has no columns");
  for (const ColumnSchema& column : schema.columns) {
    if (column.name.empty() || column.name == "." || column.name.find('/') != std::string::npos)
      refuse(fmt::format("has a column named '{}'", column.name));
  }
}

}  // namespace

struct StoreWriter::State {
  std::string path;
  Object file;
  std::map<std::string, OpenTable, std::less<>> tables;

  /// Runs one operation on the open file and completes the message of what fails.
  template <class Work>
  void run(const Work& work) {
    if (file.id() < 0) {
      throw std::runtime_error(
          fmt::format("the store {} is closed, so nothing can be added; write before close()", path));
    }
    try {
      work();
    } catch (const Hdf5Error& error) {
      throw std::runtime_error(fmt::format(
          "cannot {} in {}; the store is incomplete and must not be used; make room on the disk (df -h, quota) or choose another output directory, then run again",
          error.what(), path));
    }
  }

  bool exists(const std::string& name) const {
    // H5Lexists fails where a parent is missing: look at each prefix in turn.
    for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
      const std::string prefix = name.substr(0, end);
      if (checked(H5Lexists(file.id(), prefix.c_str(), H5P_DEFAULT), "look for", prefix) == 0) return false;
      if (end == std::string::npos) return true;
    }
  }

  /// Creates the group and its missing parents one by one: each with our properties.
  Object create_group(const std::string& name) const {
    Object group;
    for (std::size_t end = name.find('/', 1);; end = name.find('/', end + 1)) {
      const std::string prefix = name.substr(0, end);
      group = exists(prefix)
                  ? own(H5Gopen2(file.id(), prefix.c_str(), H5P_DEFAULT), H5Gclose, "open", prefix)
                  : own(H5Gcreate2(file.id(), prefix.c_str(), H5P_DEFAULT, group_properties().id(), H5P_DEFAULT),
                        H5Gclose, "create", prefix);
      if (end == std::string::npos) return group;
    }
  }

  Object open_or_create(const std::string& name) const {
    if (name == "/" || exists(name)) return own(H5Oopen(file.id(), name.c_str(), H5P_DEFAULT), H5Oclose, "open", name);
    return create_group(name);
  }

  void create_table(const TableSchema& schema, const TableExtent& extent) {
    check_names(schema);
    if (tables.count(schema.name) > 0) {
      throw std::runtime_error(fmt::format(
          "table '{}' is in {} already, and a second one would mix rows; append to it instead", schema.name, path));
    }
    const Object group = create_group(schema.name);
    OpenTable table{schema, extent, {}, 0, make_table(schema)};
    std::vector<std::string> column_names;
    table.columns.reserve(schema.columns.size());
    for (std::size_t c = 0; c < schema.columns.size(); ++c) {
      const ColumnSchema& column = schema.columns[c];
      const ColumnLayout layout = layout_of(column.kind, extent.rows, extent.longest_texts.at(c));
      table.columns.emplace_back(group.id(), schema.name, column, layout, extent.rows);
      column_names.push_back(column.name);
    }
    write_attribute(group.id(), schema.name, "description", schema.description);
    write_attribute(group.id(), schema.name, "columns", column_names);
    tables.emplace(schema.name, std::move(table));
  }

  OpenTable& find(const std::string& name) {
    const auto found = tables.find(name);
    if (found != tables.end()) return found->second;
    throw std::invalid_argument(
        fmt::format("table '{}' is not in {}, so rows have no place to go; call create_table first", name, path));
  }

  /// Checks everything before the first row is taken: a refused chunk leaves all columns equally long.
  void append(const Table& chunk) {
    OpenTable& table = find(chunk.schema.name);
    check_rows(chunk, table.schema, table.extent.longest_texts);
    require_room(table, table.pending.row_count() + chunk.row_count());
    for (std::size_t row = 0; row < chunk.row_count();) {
      const std::size_t slab = std::min(slab_rows, table.extent.rows - table.written);
      const std::size_t taken = std::min(slab - table.pending.row_count(), chunk.row_count() - row);
      if (taken == slab) {
        write_slab(table, encode_rows(chunk, table.extent, row, slab));
      } else {
        std::vector<std::size_t> rows(taken);
        std::iota(rows.begin(), rows.end(), row);
        append_rows(table.pending, chunk, rows);
        if (table.pending.row_count() == slab)
          write_slab(table, encode_rows(std::exchange(table.pending, make_table(table.schema)), table.extent, 0, slab));
      }
      row += taken;
    }
  }

  void append(const EncodedRows& slab) {
    OpenTable& table = find(slab.table);
    require_room(table, slab.rows);
    if (slab.columns.size() != table.columns.size() || table.pending.row_count() > 0 ||
        slab.rows != std::min<std::size_t>(slab_rows, table.extent.rows - table.written)) {
      throw std::invalid_argument(fmt::format(
          "{} encoded rows of table '{}' are not its next slab, so they would lie in the wrong place; encode and append slab by slab",
          slab.rows, slab.table));
    }
    write_slab(table, slab);
  }

  static void require_room(const OpenTable& table, std::size_t more) {
    if (table.written + more <= table.extent.rows) return;
    throw std::runtime_error(fmt::format(
        "table '{}' gets more than the {} rows that were announced, so the last have no place; announce what is appended",
        table.schema.name, table.extent.rows));
  }

  static void write_slab(OpenTable& table, const EncodedRows& slab) {
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      table.columns[c].write(slab.columns[c], table.written, slab.rows);
    table.written += slab.rows;
  }

  void close() {
    for (auto& [name, table] : tables) {
      for (Column& column : table.columns) column.close();
      if (table.written == table.extent.rows) continue;
      throw std::logic_error(fmt::format(
          "table {} got {} of the {} rows that were announced, so the rest would read as zeros; announce what is appended",
          name, table.written + table.pending.row_count(), table.extent.rows));
    }
    tables.clear();
    checked(H5Fflush(file.id(), H5F_SCOPE_GLOBAL), "write", "file");
    checked(file.close(), "close", "file");
  }
};

StoreWriter::StoreWriter(const std::string& path) : state_(std::make_unique<State>()) {
  prepare_hdf5();
  state_->path = path;
  try {
    state_->file = create_file(path);
  } catch (const Hdf5Error& error) {
    throw std::runtime_error(fmt::format(
        "cannot {}; the tables of this run cannot be stored; check that the directory exists, is writable and has room",
        error.what()));
  }
}

StoreWriter::~StoreWriter() = default;

void StoreWriter::set_attribute(std::string_view path, std::string_view name, std::string_view value) {
  const std::string object(path);
  state_->run([&] { write_attribute(state_->open_or_create(object).id(), object, name, value); });
}

void StoreWriter::set_attribute(std::string_view path, std::string_view name, std::int64_t value) {
  const std::string object(path);
  state_->run([&] { write_attribute(state_->open_or_create(object).id(), object, name, value); });
}

void StoreWriter::create_table(const TableSchema& schema, const TableExtent& extent) {
  state_->run([&] { state_->create_table(schema, extent); });
}

void StoreWriter::append(const Table& chunk) {
  state_->run([&] { state_->append(chunk); });
}

void StoreWriter::append(const EncodedRows& slab) {
  state_->run([&] { state_->append(slab); });
}

void StoreWriter::write(const Table& table) {
  state_->run([&] {
    state_->create_table(table.schema, extent_of(table));
    state_->append(table);
  });
}

void StoreWriter::close() {
  if (state_->file.id() < 0) return;
  state_->run([&] { state_->close(); });
}

}  // namespace nsys_explain::store
