#include "column.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "nsys_explain/model/time.hpp"
#include "storable_text.hpp"

namespace nsys_explain::store {

namespace {

bool holds_integers(ColumnKind kind) {
  return kind == ColumnKind::integer || kind == ColumnKind::time;
}

/// Rank 0 alone writes, while all others wait: level 2 takes a tenth longer and saves a hundredth of the file, higher
/// ones take up to twice as long and save a twentieth.
constexpr unsigned deflate_level = 1;

/// Bytes of each value of a column of texts; 0: variable.
std::size_t text_width(ColumnKind kind, std::size_t longest) {
  if (kind == ColumnKind::label) return label_width;
  if (kind != ColumnKind::text || longest > most_text_width) return 0;
  return longest == label_width ? label_width + 1 : std::max<std::size_t>(longest, 1);  // readers tell labels by width
}

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
    case ColumnKind::label:
    case ColumnKind::text:
      break;
  }
  return string_type(width);
}

bool holds_text(ColumnKind kind) {
  return kind == ColumnKind::label || kind == ColumnKind::text;
}

/// Bytes of a row in the dataset.
std::size_t row_bytes(ColumnKind kind, std::size_t width) {
  constexpr std::size_t text_reference_bytes = 16;  // what HDF5 stores in place of a variable-length value
  if (!holds_text(kind)) return sizeof(std::int64_t);
  return width > 0 ? width : text_reference_bytes;
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

/// Shuffled, the same bytes of neighbouring numbers lie together; of texts they do not repeat, whole texts do.
Object chunked_properties(hsize_t rows_per_chunk, bool shuffled) {
  Object properties = creation_properties();
  checked(H5Pset_chunk(properties.id(), 1, &rows_per_chunk), "set", "chunk size");
  if (shuffled) checked(H5Pset_shuffle(properties.id()), "set", "shuffle filter");
  checked(H5Pset_deflate(properties.id(), deflate_level), "set", "deflate filter");
  return properties;
}

void write_attribute_of(hid_t object, std::string_view object_name, const std::string& name, hid_t type,
                        const Object& space, const void* value) {
  const std::string where = fmt::format("{}@{}", object_name, name);
  if (checked(H5Aexists(object, name.c_str()), "look for", where) > 0) {
    checked(H5Adelete(object, name.c_str()), "replace", where);
  }
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

Column::Column(hid_t group, const std::string& table, const ColumnSchema& schema, std::size_t rows,
               std::size_t longest_text)
    : name_(fmt::format("{}/{}", table, schema.name)),
      kind_(schema.kind),
      text_width_(text_width(kind_, longest_text)),
      announced_rows_(rows) {
  const Object space = own(H5Screate_simple(1, &announced_rows_, nullptr), H5Sclose, "create", name_);
  const std::size_t bytes = row_bytes(kind_, text_width_);
  const Object properties =
      rows <= compact_bytes / bytes
          ? compact_properties()
          : chunked_properties(std::min(std::bit_floor(chunk_bytes / bytes), rows), !holds_text(kind_));
  dataset_ = own(H5Dcreate2(group, schema.name.c_str(), file_type(kind_, text_width_).id(), space.id(), H5P_DEFAULT,
                            properties.id(), H5P_DEFAULT),
                 H5Dclose, "create", name_);
  write_attribute(dataset_.id(), name_, "unit", schema.unit);
  write_attribute(dataset_.id(), name_, "description", schema.description);
  if (holds_integers(kind_)) write_attribute(dataset_.id(), name_, "missing_value", no_time);
}

void Column::check(const ColumnData& values) const {
  const bool fits = holds_integers(kind_)       ? std::holds_alternative<std::vector<std::int64_t>>(values)
                    : kind_ == ColumnKind::real ? std::holds_alternative<std::vector<double>>(values)
                                                : std::holds_alternative<std::vector<std::string>>(values);
  if (!fits) {
    throw std::invalid_argument(
        fmt::format("column {} holds values of another type than its schema says, so they cannot be stored; make the "
                    "chunk with make_table",
                    name_));
  }
  if (text_width_ == 0) return;
  for (const std::string& text : std::get<std::vector<std::string>>(values)) {
    if (text.size() <= text_width_) continue;
    throw std::invalid_argument(fmt::format(
        "column {} holds a text of {} bytes, of which a fixed width of {} would cut the end; make a label a text "
        "column, and announce the longest text",
        name_, text.size(), text_width_));
  }
}

void Column::append(const ColumnData& values) {
  if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&values)) {
    write_rows(H5T_NATIVE_INT64, integers->data(), integers->size());
  } else if (const auto* reals = std::get_if<std::vector<double>>(&values)) {
    write_rows(H5T_NATIVE_DOUBLE, reals->data(), reals->size());
  } else if (text_width_ > 0) {
    const auto& texts = std::get<std::vector<std::string>>(values);
    std::vector<char> packed(texts.size() * text_width_, '\0');
    for (std::size_t row = 0; row < texts.size(); ++row) {
      const std::string& text = texts[row];
      char* const place = packed.data() + row * text_width_;
      std::memcpy(place, is_storable(text) ? text.data() : storable_text(text).data(), text.size());
    }
    write_rows(string_type(text_width_).id(), packed.data(), texts.size());
  } else {
    const auto& texts = std::get<std::vector<std::string>>(values);
    std::deque<std::string> mended;  // pointers into it stay valid
    std::vector<const char*> pointers;
    pointers.reserve(texts.size());
    for (const std::string& text : texts) {
      pointers.push_back(is_storable(text) ? text.c_str() : mended.emplace_back(storable_text(text)).c_str());
    }
    write_rows(string_type(0).id(), pointers.data(), texts.size());
  }
}

void Column::write_rows(hid_t memory_type, const void* rows, std::size_t count) {
  if (count == 0) return;
  const hsize_t start = rows_;
  const hsize_t added = count;
  const Object file_space = own(H5Dget_space(dataset_.id()), H5Sclose, "select rows of", name_);
  checked(H5Sselect_hyperslab(file_space.id(), H5S_SELECT_SET, &start, nullptr, &added, nullptr), "select rows of",
          name_);
  const Object memory_space = own(H5Screate_simple(1, &added, nullptr), H5Sclose, "select rows of", name_);
  checked(H5Dwrite(dataset_.id(), memory_type, memory_space.id(), file_space.id(), H5P_DEFAULT, rows), "write", name_);
  rows_ += added;
}

void Column::close() {
  checked(dataset_.close(), "write", name_);
  if (announced_rows_ != rows_) {
    throw std::logic_error(
        fmt::format("column {} got {} of the {} rows that were announced, so the rest would read as "
                    "zeros; announce what is appended",
                    name_, rows_, announced_rows_));
  }
}

}  // namespace nsys_explain::store
