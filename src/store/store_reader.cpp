#include "store/store_reader.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "store/encoded_rows.hpp"
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

/// Texts of one width, of the rows chosen in `file`.
void read_short_texts(hid_t dataset, const Object& type, hid_t memory, hid_t file, std::size_t count,
                      std::string_view name, TextColumn& texts) {
  const std::size_t width = H5Tget_size(type.id());
  std::vector<char> packed(width * count);
  checked(H5Dread(dataset, type.id(), memory, file, H5P_DEFAULT, packed.data()), "read", name);
  for (std::size_t row = 0; row < count; ++row) {
    const auto begin = packed.begin() + static_cast<std::ptrdiff_t>(row * width);
    const auto end = begin + static_cast<std::ptrdiff_t>(width);
    texts.push_back({begin, std::find(begin, end, '\0')});
  }
}

constexpr hssize_t most_attribute_values = 1'000;  ///< `columns` has one for each column of its table

std::vector<std::string> text_attribute(hid_t object, const std::string& name) {
  const Object attribute = own(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, "open attribute", name);
  const Object type = own(H5Aget_type(attribute.id()), H5Tclose, "look at the type of", name);
  const Object space = own(H5Aget_space(attribute.id()), H5Sclose, "look at the size of", name);
  const hssize_t count = H5Sget_simple_extent_npoints(space.id());
  const bool is_number = H5Tget_class(type.id()) == H5T_INTEGER;
  // Else what is read would be taken for addresses.
  if (count < 1 || count > most_attribute_values || (is_number && H5Tget_size(type.id()) > sizeof(std::int64_t)) ||
      (!is_number && H5Tis_variable_str(type.id()) <= 0)) {
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

struct Entries {
  std::vector<std::string> tables, links;  ///< links: that may lead to other files
};

herr_t add_name(hid_t group, const char* name, const H5L_info_t* facts, void* found) noexcept {
  // Called by C: no exception may leave.
  try {
    auto& entries = *static_cast<Entries*>(found);
    if (facts->type != H5L_TYPE_HARD) {
      entries.links.emplace_back(name);
      return 0;
    }
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) return 0;
    if (H5Iget_type(object) == H5I_GROUP && H5Aexists(object, "columns") > 0) entries.tables.emplace_back(name);
    H5Oclose(object);
    return 0;
  } catch (...) {
    return -1;
  }
}

Entries entries_of(hid_t file, const std::string& path) {
  Entries found;
  hsize_t place = 0;
  if (H5Literate(file, H5_INDEX_CRT_ORDER, H5_ITER_INC, &place, add_name, &found) >= 0) return found;
  // Groups that were made without an index by creation are listed by name.
  found = {};
  place = 0;
  checked(H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, &place, add_name, &found), "list", path);
  return found;
}

/// Which rows are read.
struct RowRange {
  hsize_t first = 0, count = 0;
  void select(hid_t space, hsize_t from, hsize_t rows, const std::string& name) const {
    const hsize_t begin = first + from;
    checked(H5Sselect_hyperslab(space, H5S_SELECT_SET, &begin, nullptr, &rows, nullptr), "select in", name);
  }
};

struct RowList {
  std::vector<hsize_t> rows;
  hsize_t count = rows.size();
  void select(hid_t space, hsize_t from, hsize_t rows_now, const std::string& name) const {
    checked(H5Sselect_elements(space, H5S_SELECT_SET, rows_now, rows.data() + from), "select in", name);
  }
};

}  // namespace

struct StoreReader::State {
  std::string name;  ///< for messages
  Object file;
  std::uint64_t file_bytes = 0;
  std::vector<std::string> names;
  struct Known {
    TableSchema schema;
    std::int64_t rows = 0;
  };
  mutable std::map<std::string, Known, std::less<>> known;  ///< of the tables that were asked for

  template <class Work>
  auto run(const Work& work) const {
    try {
      return work();
    } catch (const Hdf5Error& error) {
      throw std::runtime_error(fmt::format(
          "cannot {} in {}; the store is damaged or incomplete, so its numbers cannot be trusted; run the analysis again",
          error.what(), this->name));
    }
  }

  Object group(std::string_view table) const {
    if (std::find(names.begin(), names.end(), table) == names.end()) {
      throw std::out_of_range(
          fmt::format("{} has no table '{}'; its tables are: {}", this->name, table, fmt::join(names, ", ")));
    }
    return own(H5Gopen2(file.id(), std::string(table).c_str(), H5P_DEFAULT), H5Gclose, "open", table);
  }

  /// Looks at each column before any is read: all are as long as the first, and no bytes of the file are two values'.
  Known facts_of(std::string_view name) const {
    const Object table = group(name);
    Known found{{std::string(name), text_attribute(table.id(), "description").at(0), {}}, 0};
    std::uint64_t bytes = 0;
    for (const std::string& column : text_attribute(table.id(), "columns")) {
      const Object data = open_column(table.id(), found.schema.name, column);
      const StoredValues values = stored_values(data.id(), fmt::format("{}/{}", name, column));
      if (found.schema.columns.empty()) found.rows = values.rows;
      bytes += values.bytes;
      if (values.rows != found.rows || bytes > file_bytes) {
        throw Hdf5Error(
            fmt::format("read '{}/{}' ({} rows in {} bytes beside {} rows of other columns, in a file of {})", name,
                        column, values.rows, values.bytes, found.rows, file_bytes));
      }
      found.schema.columns.push_back({column, kind_of(data.id(), column), text_attribute(data.id(), "unit").at(0),
                                      text_attribute(data.id(), "description").at(0)});
    }
    return found;
  }

  const Known& facts(std::string_view name) const {
    if (const auto found = known.find(name); found != known.end()) return found->second;
    return known.emplace(std::string(name), run([&] { return facts_of(name); })).first->second;
  }

  template <class Values, class Rows>
  static ColumnData read_numbers(const Object& data, hid_t type, const std::string& name, const Rows& rows) {
    Values values(rows.count);
    if (rows.count == 0) return values;
    const Object space = own(H5Dget_space(data.id()), H5Sclose, "look at the size of", name);
    const Object memory = own(H5Screate_simple(1, &rows.count, nullptr), H5Sclose, "create", "dataspace");
    rows.select(space.id(), 0, rows.count, name);
    checked(H5Dread(data.id(), type, memory.id(), space.id(), H5P_DEFAULT, values.data()), "read", name);
    return values;
  }

  /// By slabs, since texts take more room in the file than in a TextColumn.
  template <class Rows>
  TextColumn read_texts(const Object& data, const std::string& name, const Rows& rows) const {
    TextColumn texts;
    const Object type = type_of(data.id(), name);
    const Object space = own(H5Dget_space(data.id()), H5Sclose, "look at the size of", name);
    const bool are_long = H5Tis_variable_str(type.id()) > 0;
    std::uint64_t bytes_left = file_bytes;
    for (hsize_t from = 0; from < rows.count; from += slab_rows) {
      const hsize_t count = std::min<hsize_t>(slab_rows, rows.count - from);
      const Object memory = own(H5Screate_simple(1, &count, nullptr), H5Sclose, "create", "dataspace");
      rows.select(space.id(), from, count, name);
      if (are_long) {
        read_long_texts(data.id(), memory.id(), space.id(), count, bytes_left, name, texts);
      } else {
        read_short_texts(data.id(), type, memory.id(), space.id(), count, name, texts);
      }
    }
    return texts;
  }

  template <class Rows>
  ColumnData read_column(const Object& group, const std::string& table, const ColumnSchema& column,
                         const Rows& rows) const {
    const Object data = open_column(group.id(), table, column.name);
    const std::string name = fmt::format("{}/{}", table, column.name);
    switch (column.kind) {
      case ColumnKind::integer:
      case ColumnKind::time:
        return read_numbers<std::vector<std::int64_t>>(data, H5T_NATIVE_INT64, name, rows);
      case ColumnKind::real:
        return read_numbers<std::vector<double>>(data, H5T_NATIVE_DOUBLE, name, rows);
      case ColumnKind::text:
        break;
    }
    return read_texts(data, name, rows);
  }

  template <class Rows>
  Table read_columns(const TableSchema& all, const std::vector<std::string>& columns, const Rows& rows) const {
    Table table{{all.name, all.description, {}}, {}};
    for (const std::string& column : columns) table.schema.columns.push_back(all.columns[all.index_of(column)]);
    run([&] {
      const Object from = group(all.name);
      for (const ColumnSchema& column : table.schema.columns)
        table.columns.push_back(read_column(from, all.name, column, rows));
      return 0;
    });
    return table;
  }
};

StoreReader::StoreReader(const std::string& path, const std::string& name) : state_(std::make_unique<State>()) {
  prepare_hdf5();
  state_->name = name.empty() ? path : name;
  const auto refuse = [&](std::string_view why) {
    return std::runtime_error(
        fmt::format("cannot read {}: {}; name the store.h5 that a run of nsys-explain-mpi wrote", state_->name, why));
  };
  std::error_code failure;
  if (!std::filesystem::is_regular_file(path, failure))
    throw refuse(failure ? failure.message() : std::string("it is no regular file"));
  state_->file_bytes = std::filesystem::file_size(path, failure);
  if (failure) throw refuse(failure.message());
  try {
    const Object access = own(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "create", "file access properties");
#if H5_VERSION_GE(1, 10, 7)
    checked(H5Pset_file_locking(access.id(), true, true), "set", "file locking");
#endif
    state_->file = own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.id()), H5Fclose, "open", path);
    if (H5Aexists(state_->file.id(), "schema_version") <= 0) throw refuse("it is HDF5, but no store");
    Entries entries = entries_of(state_->file.id(), path);
    if (!entries.links.empty())
      throw refuse(fmt::format("'{}' in it is a link that may lead to other files", entries.links.front()));
    state_->names = std::move(entries.tables);
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
  return state_->facts(name).schema;
}

std::int64_t StoreReader::row_count(std::string_view name) const {
  return state_->facts(name).rows;
}

Table StoreReader::read(std::string_view name, std::int64_t first, std::int64_t count) const {
  std::vector<std::string> columns;
  for (const ColumnSchema& column : schema(name).columns) columns.push_back(column.name);
  return read(name, first, count, columns);
}

Table StoreReader::read(std::string_view name, std::int64_t first, std::int64_t count,
                        const std::vector<std::string>& columns) const {
  const std::int64_t rows = row_count(name);
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, rows);
  const std::int64_t wanted = std::clamp<std::int64_t>(count, 0, rows - begin);
  return state_->read_columns(schema(name), columns,
                              RowRange{static_cast<hsize_t>(begin), static_cast<hsize_t>(wanted)});
}

Table StoreReader::read_rows(std::string_view name, std::span<const std::int64_t> rows,
                             const std::vector<std::string>& columns) const {
  return state_->read_columns(schema(name), columns, RowList{{rows.begin(), rows.end()}});
}

Table StoreReader::read(std::string_view name) const {
  return read(name, 0, row_count(name));
}

std::optional<std::string> StoreReader::attribute(std::string_view path, std::string_view name) const {
  return state_->run([&]() -> std::optional<std::string> {
    const std::string object(path);
    if (object != "/" && H5Lexists(state_->file.id(), object.c_str(), H5P_DEFAULT) <= 0) return std::nullopt;
    if (object != "/") require_hard_link(state_->file.id(), object, object);
    const Object group = own(H5Oopen(state_->file.id(), object.c_str(), H5P_DEFAULT), H5Oclose, "open", path);
    if (H5Aexists(group.id(), std::string(name).c_str()) <= 0) return std::nullopt;
    return text_attribute(group.id(), std::string(name)).at(0);
  });
}

}  // namespace nsys_explain::store
