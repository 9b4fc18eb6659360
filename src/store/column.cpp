#include "store/column.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include <fmt/format.h>

#include "nsys_explain/model/time.hpp"

namespace nsys_explain::store {

namespace {

bool holds_integers(ColumnKind kind) {
  return kind == ColumnKind::integer || kind == ColumnKind::time;
}

/// What readers are told; encode_rows compresses.
constexpr unsigned deflate_level = 1;

/// Null-padded UTF-8 of `width` bytes, or variable-length UTF-8.
Object string_type(std::size_t width) {
  Object type = own(H5Tcopy(H5T_C_S1), H5Tclose, "create", "string type");
  checked(H5Tset_size(type.id(), width > 0 ? width : H5T_VARIABLE), "size", "string type");
  checked(H5Tset_cset(type.id(), H5T_CSET_UTF8), "mark as UTF-8", "string type");
  if (width > 0) checked(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "pad", "string type");
  return type;
}

/// The type of a column in the file. Little-endian whatever the machine: files are equal bit for bit.
Object file_type(ColumnKind kind, std::size_t width) {
  switch (kind) {
    case ColumnKind::integer:
    case ColumnKind::time:
      return own(H5Tcopy(H5T_STD_I64LE), H5Tclose, "create", "integer type");
    case ColumnKind::real:
      return own(H5Tcopy(H5T_IEEE_F64LE), H5Tclose, "create", "real type");
    case ColumnKind::text:
      break;
  }
  return string_type(width);
}

Object creation_properties() {
  Object properties = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "create", "dataset properties");
  checked(H5Pset_obj_track_times(properties.id(), false), "switch off", "time stamps");  // reproducible files
  return properties;
}

Object compact_properties() {
  Object properties = creation_properties();
  checked(H5Pset_layout(properties.id(), H5D_COMPACT), "set", "compact layout");
  return properties;
}

Object chunked_properties(const ColumnLayout& layout) {
  Object properties = creation_properties();
  const hsize_t rows_per_chunk = layout.chunk_rows;
  checked(H5Pset_chunk(properties.id(), 1, &rows_per_chunk), "set", "chunk size");
  if (layout.is_shuffled()) checked(H5Pset_shuffle(properties.id()), "set", "shuffle filter");
  checked(H5Pset_deflate(properties.id(), deflate_level), "set", "deflate filter");
  return properties;
}

void write_attribute_of(hid_t object, std::string_view object_name, const std::string& name, hid_t type,
                        const Object& space, const void* value) {
  const std::string where = fmt::format("{}@{}", object_name, name);
  if (checked(H5Aexists(object, name.c_str()), "look for", where) > 0)
    checked(H5Adelete(object, name.c_str()), "replace", where);
  const Object attribute =
      own(H5Acreate2(object, name.c_str(), type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, "create", where);
  checked(H5Awrite(attribute.id(), type, value), "write", where);
}

Object scalar() {
  return own(H5Screate(H5S_SCALAR), H5Sclose, "create", "dataspace");
}

}  // namespace

void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::string_view value) {
  const std::string text = storable_text(value);
  const char* characters = text.c_str();
  write_attribute_of(object, object_name, std::string(name), string_type(0).id(), scalar(), &characters);
}

void write_attribute(hid_t object, std::string_view object_name, std::string_view name, std::int64_t value) {
  const Object type = file_type(ColumnKind::integer, 0);
  const std::string attribute(name);
  write_attribute_of(object, object_name, attribute, H5T_NATIVE_INT64, scalar(), &value);
}

void write_attribute(hid_t object, std::string_view object_name, std::string_view name,
                     std::span<const std::string> values) {
  std::vector<const char*> pointers;
  pointers.reserve(values.size());
  for (const std::string& value : values) pointers.push_back(value.c_str());
  const hsize_t count = values.size();
  const Object space = own(H5Screate_simple(1, &count, nullptr), H5Sclose, "create", "dataspace");
  write_attribute_of(object, object_name, std::string(name), string_type(0).id(), space, pointers.data());
}

Column::Column(hid_t group, const std::string& table, const ColumnSchema& schema, const ColumnLayout& layout,
               std::size_t rows)
    : name_(fmt::format("{}/{}", table, schema.name)), kind_(schema.kind), layout_(layout) {
  const hsize_t extent = rows;
  const Object space = own(H5Screate_simple(1, &extent, nullptr), H5Sclose, "create", name_);
  const Object properties = layout.chunk_rows == 0 ? compact_properties() : chunked_properties(layout);
  dataset_ = own(H5Dcreate2(group, schema.name.c_str(), file_type(kind_, layout.width).id(), space.id(), H5P_DEFAULT,
                            properties.id(), H5P_DEFAULT),
                 H5Dclose, "create", name_);
  write_attribute(dataset_.id(), name_, "unit", schema.unit);
  write_attribute(dataset_.id(), name_, "description", schema.description);
  if (holds_integers(kind_)) write_attribute(dataset_.id(), name_, "missing_value", no_time);
}

void Column::write(const EncodedColumn& values, std::size_t first, std::size_t count) {
  if (layout_.width == 0) {
    std::vector<const char*> pointers;
    pointers.reserve(count);
    for (const std::string& text : values.texts) pointers.push_back(text.c_str());
    write_rows(string_type(0).id(), pointers.data(), first, count);
  } else if (layout_.chunk_rows == 0) {
    write_rows(file_type(kind_, layout_.width).id(), values.bytes.data(), first, count);
  } else {
    write_chunks(values, first);
  }
}

void Column::write_chunks(const EncodedColumn& values, std::size_t first) {
  constexpr std::uint32_t skipped_filters = 0;
  hsize_t row = first;
  const char* chunk = values.bytes.data();
  for (const std::uint64_t bytes : values.chunk_bytes) {
    checked(H5Dwrite_chunk(dataset_.id(), H5P_DEFAULT, skipped_filters, &row, bytes, chunk), "write", name_);
    row += layout_.chunk_rows;
    chunk += bytes;
  }
}

void Column::write_rows(hid_t memory_type, const void* rows, std::size_t first, std::size_t count) {
  if (count == 0) return;
  const hsize_t start = first;
  const hsize_t added = count;
  const Object file_space = own(H5Dget_space(dataset_.id()), H5Sclose, "select rows of", name_);
  checked(H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, &start, nullptr, &added, nullptr), "select rows of",
          name_);
  const Object memory_space = own(H5Screate_simple(1, &added, nullptr), H5Sclose, "select rows of", name_);
  checked(H5Dwrite(dataset_.id(), memory_type, memory_space.id(), file_space.id(), H5P_DEFAULT, rows), "write", name_);
}

void Column::close() {
  checked(dataset_.close(), "write", name_);
}

namespace {

/// Most bytes of a column that is stored in its header instead: most tables are short, and an index and a compressed
/// chunk would take more room and four times as long.
constexpr std::size_t compact_bytes = std::size_t{8} * 1024;

/// What HDF5 stores in place of a text of any length.
constexpr std::size_t text_reference_bytes = 16;

std::size_t text_width(std::size_t longest) {
  return longest > most_text_width ? 0 : std::max<std::size_t>(longest, 1);
}

bool has_values_of(ColumnKind kind, const ColumnData& values) {
  switch (kind) {
    case ColumnKind::integer:
    case ColumnKind::time:
      return std::holds_alternative<std::vector<std::int64_t>>(values);
    case ColumnKind::real:
      return std::holds_alternative<std::vector<double>>(values);
    case ColumnKind::text:
      break;
  }
  return std::holds_alternative<TextColumn>(values);
}

void check_texts(const std::string& name, const TextColumn& texts, std::size_t width) {
  for (const std::string& text : texts.distinct()) {
    if (text.size() <= width) continue;
    throw std::invalid_argument(fmt::format(
        "column {} holds a text of {} bytes, of which the announced width of {} would cut the end; announce the longest text",
        name, text.size(), width));
  }
}

}  // namespace

ColumnLayout layout_of(ColumnKind kind, std::size_t rows, std::size_t longest_text) {
  ColumnLayout layout{.width = sizeof(std::int64_t), .is_text = kind == ColumnKind::text};
  if (layout.is_text) layout.width = text_width(longest_text);
  const std::size_t row_bytes = layout.width > 0 ? layout.width : text_reference_bytes;
  if (rows > compact_bytes / row_bytes)
    layout.chunk_rows = std::min({std::bit_floor(chunk_bytes / row_bytes), slab_rows, rows});
  return layout;
}

void check_rows(const Table& rows, const TableSchema& schema, const std::vector<std::size_t>& longest_texts) {
  if (rows.columns.size() != schema.columns.size()) {
    throw std::invalid_argument(fmt::format(
        "a chunk of table '{}' has {} columns instead of {}, so values would move to other columns; make it with make_table",
        schema.name, rows.columns.size(), schema.columns.size()));
  }
  for (std::size_t c = 0; c < schema.columns.size(); ++c) {
    const ColumnSchema& column = schema.columns[c];
    const std::string name = fmt::format("{}/{}", schema.name, column.name);
    const std::size_t length = std::visit([](const auto& values) { return values.size(); }, rows.columns[c]);
    if (length != rows.row_count()) {
      throw std::invalid_argument(fmt::format(
          "column '{}' of table '{}' has {} rows where the first has {}, so rows would not belong together; fill all columns alike",
          column.name, schema.name, length, rows.row_count()));
    }
    if (!has_values_of(column.kind, rows.columns[c])) {
      throw std::invalid_argument(fmt::format(
          "column {} holds values of another type than its schema says, so they cannot be stored; make the chunk with make_table",
          name));
    }
    const ColumnLayout layout = layout_of(column.kind, length, longest_texts.at(c));
    if (layout.is_text && layout.width > 0) check_texts(name, std::get<TextColumn>(rows.columns[c]), layout.width);
  }
}

}  // namespace nsys_explain::store
