#pragma once

#include <cstdint>
#include <string>

#include "nsys_explain/model/text_column.hpp"
#include "store/hdf5_object.hpp"

/// A store comes from anywhere, and HDF5 lets a file say that its values lie in other files, or that there are more of
/// them than it holds. Here only those are read that lie in the store itself. What is refused is an Hdf5Error that
/// names the column.
namespace nsys_explain::store {

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
