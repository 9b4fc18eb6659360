#include "store/store_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <stdexcept>
#include <utility>

#include "store/hdf5_object.hpp"

namespace nsys_explain::store {

namespace {

Object type_of(hid_t dataset, std::string_view name) {
  return own(H5Dget_type(dataset), H5Tclose, "look at the type of", name);
}

ColumnKind kind_of(hid_t dataset, std::string_view name) {
  const Object type = type_of(dataset, name);
  switch (H5Tget_class(type.id())) {
    case H5T_INTEGER:
      return ColumnKind::integer;
    case H5T_FLOAT:
      return ColumnKind::real;
    case H5T_STRING:
      return ColumnKind::text;
    default:
      throw Hdf5Error(fmt::format("read '{}': it is of a type that no store holds", name));
  }
}

/// Strings of variable length that HDF5 allocated.
class VariableStrings {
 public:
  VariableStrings(hid_t type, hid_t space, std::size_t count) : type_(type), space_(space), pointers_(count) {}
  ~VariableStrings() { H5Dvlen_reclaim(type_, space_, H5P_DEFAULT, pointers_.data()); }
  VariableStrings(const VariableStrings&) = delete;
  VariableStrings& operator=(const VariableStrings&) = delete;
  char** data() { return pointers_.data(); }
  std::vector<std::string> copies() const {
    std::vector<std::string> texts;
    texts.reserve(pointers_.size());
    for (const char* pointer : pointers_) texts.emplace_back(pointer == nullptr ? "" : pointer);
    return texts;
  }

 private:
  hid_t type_, space_;
  std::vector<char*> pointers_;
};

TextColumn read_variable_texts(const Object& type, hid_t dataset, hid_t memory, hid_t file, std::size_t count,
                               std::string_view name) {
  VariableStrings strings(type.id(), memory, count);
  checked(H5Dread(dataset, type.id(), memory, file, H5P_DEFAULT, strings.data()), "read", name);
  TextColumn texts;
  for (const std::string& text : strings.copies()) texts.push_back(text);
  return texts;
}

TextColumn read_texts(hid_t dataset, hid_t memory, hid_t file, std::size_t count, std::string_view name) {
  if (count == 0) return {};
  const Object type = type_of(dataset, name);
  if (H5Tis_variable_str(type.id()) > 0) return read_variable_texts(type, dataset, memory, file, count, name);
  const std::size_t width = H5Tget_size(type.id());
  std::vector<char> packed(width * count);
  checked(H5Dread(dataset, type.id(), memory, file, H5P_DEFAULT, packed.data()), "read", name);
  TextColumn texts;
  for (std::size_t row = 0; row < count; ++row) {
    const auto begin = packed.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    texts.push_back({begin, std::find(begin, end, '\0')});
  }
  return texts;
}

constexpr hssize_t most_attribute_values = 10'000;  ///< `columns` has one for each column of its table

std::vector<std::string> text_attribute(hid_t object, const std::string& name) {
  const Object attribute = own(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, "open attribute", name);
  const Object type = own(H5Aget_type(attribute.id()), H5Tclose, "look at the type of", name);
  const Object space = own(H5Aget_space(attribute.id()), H5Sclose, "look at the size of", name);
  const hssize_t count = H5Sget_simple_extent_npoints(space.id());
  const bool is_number = H5Tget_class(type.id()) == H5T_INTEGER;
  // Else what is read would be taken for addresses.
  if (count < 1 || count > most_attribute_values || (!is_number && H5Tis_variable_str(type.id()) <= 0)) {
    throw Hdf5Error(fmt::format("read attribute '{}': it holds what no store holds", name));
  }
  if (is_number) {
    if (count != 1) throw Hdf5Error(fmt::format("read attribute '{}': it holds several numbers", name));
    std::int64_t value = 0;
    checked(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), "read", name);
    return {std::to_string(value)};
  }
  VariableStrings strings(type.id(), space.id(), static_cast<std::size_t>(count));
  checked(H5Aread(attribute.id(), type.id(), strings.data()), "read", name);
  return strings.copies();
}

herr_t add_name(hid_t group, const char* name, const H5L_info_t*, void* names) noexcept {
  // Called by C: no exception may leave.
  try {
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) return 0;
    if (H5Iget_type(object) == H5I_GROUP && H5Aexists(object, "columns") > 0) {
      static_cast<std::vector<std::string>*>(names)->emplace_back(name);
    }
    H5Oclose(object);
    return 0;
  } catch (...) {
    return -1;
  }
}

}  // namespace

struct StoreReader::State {
  std::string path;
  Object file;
  std::vector<std::string> names;
  mutable std::map<std::string, TableSchema, std::less<>> schemas;  ///< of those that were asked for

  template <class Work>
  auto run(const Work& work) const {
    try {
      return work();
    } catch (const Hdf5Error& error) {
      throw std::runtime_error(
          fmt::format("cannot {} in {}; the store is damaged or incomplete, so its numbers cannot be "
                      "trusted; run the analysis again",
                      error.what(), path));
    }
  }

  Object group(std::string_view name) const {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw std::out_of_range(
          fmt::format("{} has no table '{}'; its tables are: {}", path, name, fmt::join(names, ", ")));
    }
    return own(H5Gopen2(file.id(), std::string(name).c_str(), H5P_DEFAULT), H5Gclose, "open", name);
  }

  Object dataset(const Object& group, const std::string& column) const {
    return own(H5Dopen2(group.id(), column.c_str(), H5P_DEFAULT), H5Dclose, "open column", column);
  }

  /// `select`: chooses `count` rows in the dataspace of a column.
  template <class Select>
  ColumnData read_column(const Object& group, const ColumnSchema& column, hsize_t count, const Select& select) const {
    const Object data = dataset(group, column.name);
    const Object space = own(H5Dget_space(data.id()), H5Sclose, "look at the size of", column.name);
    if (count > 0) checked(select(space.id()), "select in", column.name);
    const Object memory = own(H5Screate_simple(1, &count, nullptr), H5Sclose, "create", "dataspace");
    const std::size_t rows = count;
    switch (column.kind) {
      case ColumnKind::integer:
      case ColumnKind::time: {
        std::vector<std::int64_t> values(rows);
        if (rows > 0) {
          checked(H5Dread(data.id(), H5T_NATIVE_INT64, memory.id(), space.id(), H5P_DEFAULT, values.data()), "read",
                  column.name);
        }
        return values;
      }
      case ColumnKind::real: {
        std::vector<double> values(rows);
        if (rows > 0) {
          checked(H5Dread(data.id(), H5T_NATIVE_DOUBLE, memory.id(), space.id(), H5P_DEFAULT, values.data()), "read",
                  column.name);
        }
        return values;
      }
      case ColumnKind::text:
        break;
    }
    return read_texts(data.id(), memory.id(), space.id(), rows, column.name);
  }

  template <class Select>
  Table read_columns(const TableSchema& all, const std::vector<std::string>& columns, hsize_t count,
                     const Select& select) const {
    Table table{{all.name, all.description, {}}, {}};
    for (const std::string& column : columns) table.schema.columns.push_back(all.columns[all.index_of(column)]);
    run([&] {
      const Object from = group(all.name);
      for (const ColumnSchema& column : table.schema.columns) {
        table.columns.push_back(read_column(from, column, count, select));
      }
      return 0;
    });
    return table;
  }
};

StoreReader::StoreReader(const std::string& path) : state_(std::make_unique<State>()) {
  prepare_hdf5();
  state_->path = path;
  const auto refuse = [&](std::string_view why) {
    return std::runtime_error(
        fmt::format("cannot read {}: {}; name the store.h5 that a run of nsys-explain-mpi wrote", path, why));
  };
  try {
    const Object access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create", "file access properties");
#if H5_VERSION_GE(1, 10, 7)
    checked(H5Pset_file_locking(access.id(), true, true), "set", "file locking");
#endif
    state_->file = own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open", path);
    if (H5Aexists(state_->file.id(), "schema_version") <= 0) throw refuse("it is HDF5, but no store");
    // Groups that were made without an index by creation are listed by name.
    hsize_t place = 0;
    if (H5Literate(state_->file.id(), H5_INDEX_CRT_ORDER, H5_ITER_INC, &place, add_name, &state_->names) < 0) {
      state_->names.clear();
      place = 0;
      checked(H5Literate(state_->file.id(), H5_INDEX_NAME, H5_ITER_INC, &place, add_name, &state_->names), "list",
              path);
    }
  } catch (const Hdf5Error& error) {
    throw refuse(error.what());
  }
}

StoreReader::~StoreReader() = default;

const std::vector<std::string>& StoreReader::table_names() const {
  return state_->names;
}

bool StoreReader::has_table(std::string_view name) const {
  return std::find(state_->names.begin(), state_->names.end(), name) != state_->names.end();
}

TableSchema StoreReader::schema(std::string_view name) const {
  if (const auto known = state_->schemas.find(name); known != state_->schemas.end()) return known->second;
  return state_->run([&] {
    const Object group = state_->group(name);
    TableSchema schema{std::string(name), text_attribute(group.id(), "description").at(0), {}};
    for (const std::string& column : text_attribute(group.id(), "columns")) {
      const Object data = state_->dataset(group, column);
      schema.columns.push_back({column, kind_of(data.id(), column), text_attribute(data.id(), "unit").at(0),
                                text_attribute(data.id(), "description").at(0)});
    }
    state_->schemas.emplace(schema.name, schema);
    return schema;
  });
}

std::int64_t StoreReader::row_count(std::string_view name) const {
  const TableSchema table = schema(name);
  return state_->run([&]() -> std::int64_t {
    if (table.columns.empty()) return 0;
    const Object group = state_->group(name);
    const Object data = state_->dataset(group, table.columns.front().name);
    const Object space = own(H5Dget_space(data.id()), H5Sclose, "look at the size of", name);
    return H5Sget_simple_extent_npoints(space.id());
  });
}

Table StoreReader::read(std::string_view name, std::int64_t first, std::int64_t count) const {
  std::vector<std::string> columns;
  for (const ColumnSchema& column : schema(name).columns) columns.push_back(column.name);
  return read(name, first, count, columns);
}

Table StoreReader::read(std::string_view name, std::int64_t first, std::int64_t count,
                        const std::vector<std::string>& columns) const {
  const std::int64_t rows = row_count(name);
  const auto begin = static_cast<hsize_t>(std::clamp<std::int64_t>(first, 0, rows));
  const auto wanted = static_cast<hsize_t>(std::clamp<std::int64_t>(count, 0, rows - static_cast<std::int64_t>(begin)));
  return state_->read_columns(schema(name), columns, wanted, [&](hid_t space) {
    return H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &wanted, nullptr);
  });
}

Table StoreReader::read_rows(std::string_view name, std::span<const std::int64_t> rows,
                             const std::vector<std::string>& columns) const {
  const std::vector<hsize_t> points(rows.begin(), rows.end());
  return state_->read_columns(schema(name), columns, points.size(), [&](hid_t space) {
    return H5Sselect_elements(space, H5S_SELECT_SET, points.size(), points.data());
  });
}

Table StoreReader::read(std::string_view name) const {
  return read(name, 0, row_count(name));
}

std::optional<std::string> StoreReader::attribute(std::string_view path, std::string_view name) const {
  return state_->run([&]() -> std::optional<std::string> {
    const std::string object(path);
    if (object != "/" && H5Lexists(state_->file.id(), object.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
    const Object group = own(H5Oopen(state_->file.id(), object.c_str(), H5P_DEFAULT), H5Oclose, "open", path);
    if (H5Aexists(group.id(), std::string(name).c_str()) <= 0) return std::nullopt;
    return text_attribute(group.id(), std::string(name)).at(0);
  });
}

}  // namespace nsys_explain::store
