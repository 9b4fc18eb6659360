#include "storable_text.hpp"

#include <cstddef>

#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::store {

bool is_storable(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string storable_text(std::string_view text) {
  std::string result(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) result[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace nsys_explain::store
