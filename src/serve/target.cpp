#include "serve/target.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr std::size_t most_parts = 64;  ///< far above what any of our own links has

Refusal unreadable(std::string_view what) {
  return {400, fmt::format("the address holds {}", what), "so nobody can tell what is asked for",
          "escape each name in it as %XX; /openapi.json lists the addresses"};
}

int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

std::string unescaped(std::string_view text, bool plus_is_space) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_value(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_value(text[i + 2]) : -1;
      if (high < 0 || low < 0) throw unreadable("a broken escape");
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_space) {
      c = ' ';
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) throw unreadable("a control character");
    plain += c;
  }
  return plain;
}

/// Calls `part` with each of what lies between separators.
template <class Part>
void split(std::string_view text, char separator, const Part& part) {
  std::size_t parts = 0;
  while (true) {
    if (++parts > most_parts) throw unreadable("too many parts");
    const std::size_t end = text.find(separator);
    part(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string Target::parameter(std::string_view name) const {
  const auto found =
      std::find_if(parameters.rbegin(), parameters.rend(), [&](const auto& p) { return p.first == name; });
  return found == parameters.rend() ? std::string() : found->second;
}

Target parse_target(std::string_view text) {
  if (!text.starts_with('/')) throw unreadable("no path");
  Target target;
  text = text.substr(0, text.find('#'));
  const std::size_t question = text.find('?');
  const std::string_view path = text.substr(1, question == std::string_view::npos ? question : question - 1);
  if (!path.empty())
    split(path, '/', [&](std::string_view part) { target.segments.push_back(unescaped(part, false)); });
  // A slash at the end means the same.
  if (!target.segments.empty() && target.segments.back().empty()) target.segments.pop_back();
  if (question == std::string_view::npos) return target;
  split(text.substr(question + 1), '&', [&](std::string_view part) {
    if (part.empty()) return;
    const std::size_t equals = part.find('=');
    const std::string_view value = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    target.parameters.emplace_back(unescaped(part.substr(0, equals), true), unescaped(value, true));
  });
  return target;
}

std::string escaped(std::string_view text) {
  constexpr std::string_view plain = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    out += is_letter || plain.find(c) != std::string_view::npos ? std::string(1, c)
                                                                : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace nsys_explain::serve
