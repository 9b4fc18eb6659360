#include "ingest/phase_file.hpp"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace nsys_explain::ingest {
namespace {

/// What ends a line, begins a comment, or means something in a regular expression is written as its number.
std::string pattern_of_words(std::string_view words) {
  std::string pattern = "(?i)";
  for (const char c : words) {
    const auto byte = static_cast<unsigned char>(c);
    pattern += std::isalnum(byte) != 0 || c == '_' || byte >= 0x80 ? std::string(1, c) : fmt::format("\\x{:02X}", byte);
  }
  return pattern;
}

std::string pattern_of(const std::string& text) {
  constexpr std::string_view mark = "re:";
  return text.starts_with(mark) ? text.substr(mark.size()) : pattern_of_words(text);
}

}  // namespace

std::string phase_map_lines(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') return std::string(text);
  const auto refuse = [](std::string_view problem) {
    throw std::runtime_error(fmt::format(
        "the phase map {}, so no range would be found by it; write {{\"PHASE\": [\"WORDS\", \"re:PATTERN\"]}}, or lines 'PHASE PATTERN'",
        problem));
  };
  const auto map = nlohmann::ordered_json::parse(text, nullptr, false);  // the first phase that matches counts
  if (map.is_discarded()) refuse("is no JSON");
  std::string lines;
  for (const auto& [phase, given] : map.items()) {
    const auto patterns = given.is_array() ? given : nlohmann::ordered_json::array({given});
    std::string name = phase;
    std::replace_if(
        name.begin(), name.end(), [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }, '_');
    for (const auto& pattern : patterns) {
      if (!pattern.is_string() || pattern.get<std::string>().empty() || name.empty())
        refuse(fmt::format("has something else than texts for '{}'", phase));
      lines += fmt::format("{} {}\n", name, pattern_of(pattern.get<std::string>()));
    }
  }
  return lines;
}

}  // namespace nsys_explain::ingest
