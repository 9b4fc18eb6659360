#include "store/storable_text.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::store {

namespace {

/// How many of the first bytes are ASCII without NUL, in steps of eight: hardly any text has others.
std::size_t plain_bytes(std::string_view text) {
  constexpr std::uint64_t ones = 0x0101010101010101, high_bits = 0x8080808080808080;
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if (((word | (word - ones)) & high_bits) != 0) break;  // a byte above 0x7F, or one that is 0
  }
  return at;
}

}  // namespace

bool is_storable(std::string_view text) {
  for (std::size_t at = plain_bytes(text); at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string storable_text(std::string_view text) {
  std::string result(text);
  for (std::size_t at = plain_bytes(text); at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    if (length == 0) result[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace nsys_explain::store
