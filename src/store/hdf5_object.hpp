#pragma once

#include <stdexcept>
#include <utility>

#include <hdf5.h>

#include "nsys_explain/model/text_column.hpp"

/// The thin layer over HDF5's C interface: every identifier has an owner, every status is looked at.
namespace nsys_explain::store {

/// "write 'table/column': No space left on device". StoreWriter adds the file, why it matters and what to do.
class Hdf5Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Call before any other use of HDF5. Switches off its printing of error stacks to stderr: errors are exceptions here.
/// Also switches off its clean-up at exit, which crashes after a write to a full disk and would hide our exit code.
/// Nothing is lost: StoreWriter closes what it opened.
void prepare_hdf5();

/// The root cause of HDF5's last error: the system's text where there is one ("No space left on device"), else HDF5's.
std::string hdf5_reason();

/// Returns `status` (an identifier, a size or an error code), or throws Hdf5Error where it is negative.
template <class Status>
Status checked(Status status, std::string_view action, std::string_view object) {
  if (status >= 0) return status;
  throw Hdf5Error(std::string(action) + " '" + std::string(object) + "': " + hdf5_reason());
}

/// Owns one HDF5 identifier (file, group, dataset, type, dataspace, property list, attribute).
class Object {
 public:
  using Close = herr_t (*)(hid_t);

  Object() = default;
  Object(hid_t id, Close closer) : id_(id), close_(closer) {}
  Object(Object&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(std::exchange(other.close_, nullptr)) {}
  Object& operator=(Object&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { close(); }

  hid_t id() const { return id_; }

  /// Closes now. Negative where HDF5 fails, for example because data buffered until now do not fit the disk.
  herr_t close() {
    const hid_t id = std::exchange(id_, H5I_INVALID_HID);
    return id < 0 ? 0 : close_(id);
  }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// Takes ownership of a new identifier, or throws Hdf5Error.
inline Object own(hid_t id, Object::Close closer, std::string_view action, std::string_view object) {
  return {checked(id, action, object), closer};
}

// A store comes from anywhere, and HDF5 lets a file say that its values lie in other files, or that there are more of
// them than it holds. Here only those are read that lie in the store itself. What is refused is an Hdf5Error that
// names the column.

/// Throws where a link leads to something else than an object of this file. `name` is of what it leads to.
void require_hard_link(hid_t group, const std::string& link, const std::string& name);

/// Opens a column that lies in the file, as StoreWriter lays one out. `table` is for messages.
Object open_column(hid_t group, const std::string& table, const std::string& column);

struct StoredValues {
  std::int64_t rows = 0;
  std::uint64_t bytes = 0;  ///< of the file
};

/// How many values a column has. Throws where so many cannot come from the bytes that the file has of them.
StoredValues stored_values(hid_t dataset, const std::string& name);

/// Appends texts of any length, of the rows chosen in `file`. Takes their bytes from `bytes_left`, and throws where
/// that does not suffice: each text lies in the file once, so all together are no longer than it.
void read_long_texts(hid_t dataset, hid_t memory, hid_t file, std::size_t rows, std::uint64_t& bytes_left,
                     const std::string& name, TextColumn& texts);

}  // namespace nsys_explain::store
