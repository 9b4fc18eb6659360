#include "nsys_explain/model/utf8.hpp"

#include <algorithm>

namespace nsys_explain {

std::size_t utf8_length(std::string_view text) {
  const auto continues = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    if (i >= text.size()) return false;
    const unsigned byte = static_cast<unsigned char>(text[i]);
    return byte >= low && byte <= high;
  };
  if (text.empty()) return 0;
  const unsigned lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return lead == 0 ? 0 : 1;
  if (lead >= 0xC2 && lead <= 0xDF) return continues(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    // The second byte excludes overlong forms and surrogates.
    const bool second = continues(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && continues(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = continues(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool repair_utf8(std::string_view text, std::string& repaired) {
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t length = utf8_length(text.substr(done));
    if (length == 0) break;
    done += length;
  }
  if (done == text.size()) return false;
  std::string result(text.substr(0, done));
  while (done < text.size()) {
    const std::size_t length = utf8_length(text.substr(done));
    result += length == 0 ? replacement_character : text.substr(done, length);
    done += std::max<std::size_t>(length, 1);
  }
  repaired = std::move(result);
  return true;
}

std::string valid_utf8(std::string_view text) {
  std::string repaired;
  return repair_utf8(text, repaired) ? repaired : std::string(text);
}

}  // namespace nsys_explain
