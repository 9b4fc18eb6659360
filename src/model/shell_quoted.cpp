#include "model/shell_quoted.hpp"

#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain {
namespace {

bool is_printable_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto first = static_cast<unsigned char>(text.front());
    if (length == 0 || first < 0x20 || first == 0x7F) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// bash's $'...': everything outside printable ASCII as three octal digits.
std::string ansi_c_quoted(std::string_view name) {
  std::string result = "$'";
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (letter == '\'' || letter == '\\') {
      result += '\\';
      result += letter;
    } else if (letter == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte >= 0x7F) {
      // Three octal digits: unlike \xHH, they cannot swallow a digit that follows.
      result += '\\';
      for (const int shift : {6, 3, 0}) result += static_cast<char>('0' + (byte >> shift & 7));
    } else {
      result += letter;
    }
  }
  return result + "'";
}

}  // namespace

std::string shell_quoted(std::string_view name) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!name.empty() && name.find_first_not_of(plain) == std::string_view::npos) return std::string(name);
  if (!is_printable_utf8(name)) return ansi_c_quoted(name);
  std::string result = "'";
  for (const char letter : name) {
    if (letter == '\'') {
      result += "'\\''";
    } else {
      result += letter;
    }
  }
  return result + "'";
}

}  // namespace nsys_explain
