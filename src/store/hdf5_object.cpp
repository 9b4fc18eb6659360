#include "store/hdf5_object.hpp"

#include <fmt/format.h>

#include "store/column.hpp"

namespace nsys_explain::store {
namespace {

/// HDF5 walks upward from the function that failed first; only that one knows the cause.
herr_t keep_first(unsigned depth, const H5E_error2_t* error, void* reason) {
  if (depth == 0 && error->desc != nullptr) *static_cast<std::string*>(reason) = error->desc;
  return 0;
}

/// HDF5's drivers write "..., errno = 28, error message = 'No space left on device', buf = 0x...": addresses and the
/// time of day are noise to a user.
std::string system_message(const std::string& description) {
  static constexpr std::string_view marker = "error message = '";
  const std::size_t start = description.find(marker);
  if (start == std::string::npos) return description;
  const std::size_t first = start + marker.size();
  return description.substr(first, description.find('\'', first) - first);
}

}  // namespace

void prepare_hdf5() {
  H5dont_atexit();  // fails, harmlessly, where HDF5 is in use already
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string hdf5_reason() {
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &reason);
  return reason.empty() ? "HDF5 gives no reason" : system_message(reason);
}

namespace {

/// Most bytes that deflate makes of one: 258 of a match that takes two bits (RFC 1951).
constexpr std::uint64_t most_inflation = 1'032;

/// Chunks that StoreWriter makes are an eighth of it. What is larger may have come from another version.
constexpr std::uint64_t most_chunk_bytes = 8 * chunk_bytes;

[[noreturn]] void refuse_column(const std::string& name, std::string_view why) {
  throw Hdf5Error(fmt::format("read '{}' ({})", name, why));
}

Object layout_properties(hid_t dataset, const std::string& name) {
  return own(H5Dget_create_plist(dataset), H5Pclose, "look at the layout of", name);
}

/// Shuffled or deflated, each at most once: deflated twice, a kilobyte becomes a gigabyte.
void require_own_filters(hid_t properties, const std::string& name) {
  const int filters = checked(H5Pget_nfilters(properties), "look at the filters of", name);
  int shuffles = 0, deflates = 0;
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0, settings = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &settings);
    if (filter == H5Z_FILTER_SHUFFLE) ++shuffles;
    if (filter == H5Z_FILTER_DEFLATE) ++deflates;
  }
  if (shuffles + deflates != filters || shuffles > 1 || deflates > 1)
    refuse_column(name, "it is packed in a way that no store uses");
}

/// Bytes of each value in the file.
std::uint64_t value_bytes(hid_t dataset, const std::string& name) {
  constexpr std::uint64_t reference_bytes = 16;  // of a text of any length
  const Object type = own(H5Dget_type(dataset), H5Tclose, "look at the type of", name);
  const std::uint64_t bytes = H5Tget_size(type.id());
  const H5T_class_t kind = H5Tget_class(type.id());
  if (kind == H5T_STRING && H5Tis_variable_str(type.id()) > 0) return reference_bytes;
  const bool is_number = kind == H5T_INTEGER || kind == H5T_FLOAT;
  if (!is_number && kind != H5T_STRING) refuse_column(name, "it is of a type that no store holds");
  if (bytes < 1 || bytes > (is_number ? sizeof(double) : most_text_width))
    refuse_column(name, fmt::format("its values are {} bytes wide, which those of no store are", bytes));
  return bytes;
}

/// Rows of a column with one dimension.
std::int64_t rows_of(hid_t dataset, const std::string& name) {
  const Object space = own(H5Dget_space(dataset), H5Sclose, "look at the size of", name);
  hsize_t rows = 0;
  if (H5Sget_simple_extent_ndims(space.id()) != 1 || H5Sget_simple_extent_dims(space.id(), &rows, nullptr) != 1)
    refuse_column(name, "it is no list of values");
  if (rows > std::uint64_t{1} << 40) refuse_column(name, fmt::format("no file holds its {} rows", rows));
  return static_cast<std::int64_t>(rows);
}

/// Where HDF5 puts texts of any length.
class TextRoom {
 public:
  explicit TextRoom(std::uint64_t& bytes_left) : left_(bytes_left) {}
  bool is_exhausted() const { return is_exhausted_; }

  static void* take(std::size_t bytes, void* room) noexcept {  // called by C: no exception may leave
    auto& self = *static_cast<TextRoom*>(room);
    self.is_exhausted_ = bytes > self.left_;
    if (self.is_exhausted_) return nullptr;
    try {
      void* const place = self.texts_.emplace_back(std::make_unique<char[]>(bytes)).get();
      self.left_ -= bytes;
      return place;
    } catch (...) {
      return nullptr;
    }
  }
  static void leave(void*, void*) noexcept {}

 private:
  std::uint64_t& left_;
  bool is_exhausted_ = false;
  std::vector<std::unique_ptr<char[]>> texts_;
};

}  // namespace

void require_hard_link(hid_t group, const std::string& link, const std::string& name) {
  H5L_info_t facts;
  checked(H5Lget_info(group, link.c_str(), &facts, H5P_DEFAULT), "look for", name);
  if (facts.type != H5L_TYPE_HARD)
    throw Hdf5Error(fmt::format("open '{}' (it is a link that may lead to other files)", name));
}

Object open_column(hid_t group, const std::string& table, const std::string& column) {
  const std::string name = fmt::format("{}/{}", table, column);
  // A slash would lead through other links.
  if (column.find('/') != std::string::npos) refuse_column(name, "no column is called so");
  require_hard_link(group, column, name);
  Object dataset = own(H5Dopen2(group, column.c_str(), H5P_DEFAULT), H5Dclose, "open column", name);
  const Object properties = layout_properties(dataset.id(), name);
  const H5D_layout_t layout = H5Pget_layout(properties.id());
  if ((layout != H5D_COMPACT && layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED) ||
      H5Pget_external_count(properties.id()) != 0) {
    refuse_column(name, "its values would lie in other files");
  }
  require_own_filters(properties.id(), name);
  const std::uint64_t width = value_bytes(dataset.id(), name);
  rows_of(dataset.id(), name);
  hsize_t chunk_rows = 0;
  if (layout == H5D_CHUNKED &&
      (H5Pget_chunk(properties.id(), 1, &chunk_rows) != 1 || chunk_rows > most_chunk_bytes / width)) {
    refuse_column(name, "its chunks are larger than those of any store");
  }
  return dataset;
}

StoredValues stored_values(hid_t dataset, const std::string& name) {
  const Object properties = layout_properties(dataset, name);
  const std::uint64_t width = value_bytes(dataset, name);
  const StoredValues stored{rows_of(dataset, name), H5Dget_storage_size(dataset)};
  const std::uint64_t inflation = H5Pget_nfilters(properties.id()) > 0 ? most_inflation : 1;
  const std::uint64_t least_bytes = (static_cast<std::uint64_t>(stored.rows) * width + inflation - 1) / inflation;
  if (stored.bytes < least_bytes)
    refuse_column(name, fmt::format("it has {} rows, but {} bytes of the file", stored.rows, stored.bytes));
  return stored;
}

void read_long_texts(hid_t dataset, hid_t memory, hid_t file, std::size_t rows, std::uint64_t& bytes_left,
                     const std::string& name, TextColumn& texts) {
  TextRoom room(bytes_left);
  const Object transfer = own(H5Pcreate(H5P_DATASET_XFER), H5Pclose, "create", "transfer properties");
  checked(H5Pset_vlen_mem_manager(transfer.id(), TextRoom::take, &room, TextRoom::leave, nullptr), "set", "memory");
  const Object type = own(H5Dget_type(dataset), H5Tclose, "look at the type of", name);
  std::vector<const char*> places(rows);
  if (H5Dread(dataset, type.id(), memory, file, transfer.id(), places.data()) < 0) {
    if (room.is_exhausted()) refuse_column(name, "its texts are longer than the file");
    throw Hdf5Error(fmt::format("read '{}': {}", name, hdf5_reason()));
  }
  for (const char* place : places) texts.push_back(place == nullptr ? "" : place);
}

}  // namespace nsys_explain::store
