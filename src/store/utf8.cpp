#include "utf8.hpp"

#include <cstddef>

namespace nsys_explain::store {

namespace {

bool is_continuation(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U;
}

/// Bytes of the well-formed UTF-8 sequence that starts at `at` (Unicode 15, table 3-7); 0 where there is none.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || !is_continuation(text, at + 1)) return 0;
  if (lead < 0xE0) return 2;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second > 0x9F;
  const bool too_large = lead == 0xF4 && second > 0x8F;
  if (overlong || surrogate || too_large || !is_continuation(text, at + 2)) return 0;
  if (lead < 0xF0) return 3;
  return is_continuation(text, at + 3) ? 4 : 0;
}

}  // namespace

std::string storable_text(std::string_view text) {
  std::string result(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = text[at] == '\0' ? 0 : sequence_length(text, at);
    if (length == 0) result[at] = '?';
    at += length == 0 ? 1 : length;
  }
  return result;
}

}  // namespace nsys_explain::store
