#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::store {

/// Whether HDF5 and its readers can hold the text as it is.
bool is_storable(std::string_view text);

/// The text as HDF5 and its readers can hold it: bytes that are not UTF-8, and NUL (which would end the string), become
/// '?'. The length in bytes does not change.
std::string storable_text(std::string_view text);

}  // namespace nsys_explain::store
