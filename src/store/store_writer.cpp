#include "nsys_explain/store/store_writer.hpp"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "column.hpp"
#include "hdf5_object.hpp"

namespace nsys_explain::store {

namespace {

struct OpenTable {
  std::vector<std::string> column_names;
  std::vector<Column> columns;
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
    if (column.name.empty() || column.name == "." || column.name.find('/') != std::string::npos) {
      refuse(fmt::format("has a column named '{}'", column.name));
    }
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
      throw std::runtime_error(
          fmt::format("cannot {} in {}; the store is incomplete and must not be used; make room on the disk (df -h, "
                      "quota) or choose another output directory, then run again",
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
    if (name == "/" || exists(name)) {
      return own(H5Oopen(file.id(), name.c_str(), H5P_DEFAULT), H5Oclose, "open", name);
    }
    return create_group(name);
  }

  void create_table(const TableSchema& schema, const TableExtent& extent) {
    check_names(schema);
    if (tables.count(schema.name) > 0) {
      throw std::runtime_error(fmt::format(
          "table '{}' is in {} already, and a second one would mix rows; append to it instead", schema.name, path));
    }
    const Object group = create_group(schema.name);
    OpenTable table;
    table.columns.reserve(schema.columns.size());
    for (std::size_t c = 0; c < schema.columns.size(); ++c) {
      const ColumnSchema& column = schema.columns[c];
      table.columns.emplace_back(group.id(), schema.name, column, extent.rows, extent.longest_texts.at(c));
      table.column_names.push_back(column.name);
    }
    write_attribute(group.id(), schema.name, "description", schema.description);
    write_attribute(group.id(), schema.name, "columns", table.column_names);
    tables.emplace(schema.name, std::move(table));
  }

  /// Checks everything before the first column grows: a refused chunk leaves all columns equally long.
  void append(const Table& chunk) {
    const auto found = tables.find(chunk.schema.name);
    if (found == tables.end()) {
      throw std::invalid_argument(fmt::format(
          "table '{}' is not in {}, so rows have no place to go; call create_table first", chunk.schema.name, path));
    }
    std::vector<Column>& columns = found->second.columns;
    if (chunk.columns.size() != columns.size()) {
      throw std::invalid_argument(
          fmt::format("a chunk of table '{}' has {} columns instead of {}, so values would move "
                      "to other columns; make it with make_table",
                      chunk.schema.name, chunk.columns.size(), columns.size()));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const std::size_t rows = std::visit([](const auto& values) { return values.size(); }, chunk.columns[i]);
      if (rows != chunk.row_count()) {
        throw std::invalid_argument(
            fmt::format("column '{}' of table '{}' has {} rows where the first has {}, so rows would not belong "
                        "together; fill all columns alike",
                        found->second.column_names[i], chunk.schema.name, rows, chunk.row_count()));
      }
      columns[i].check(chunk.columns[i]);
    }
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].append(chunk.columns[i]);
  }

  void close() {
    for (auto& [name, table] : tables) {
      for (Column& column : table.columns) column.close();
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
    throw std::runtime_error(
        fmt::format("cannot {}; the tables of this run cannot be stored; check that the directory exists, is writable "
                    "and has room",
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
