#include "report/text.hpp"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "nsys_explain/model/utf8.hpp"
#include "report/report.hpp"

namespace nsys_explain::report {

namespace {

char32_t decode(std::string_view sequence) {
  if (sequence.size() == 1) return static_cast<unsigned char>(sequence[0]);
  auto value = static_cast<char32_t>(static_cast<unsigned char>(sequence[0]) & (0xFFU >> (sequence.size() + 1)));
  for (const char c : sequence.substr(1)) value = (value << 6) | (static_cast<unsigned char>(c) & 0x3FU);
  return value;
}

/// Characters that move the cursor, change the direction of text, or cannot be seen.
bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE0FFF);
}

/// The characters of valid UTF-8, each as its bytes.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text.substr(at)), 1);
    result.push_back(text.substr(at, length));
    at += length;
  }
  return result;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Would this word at the start of a line begin a list, a heading, a quotation, a rule or a table?
bool starts_a_block(std::string_view word) {
  if (word.empty()) return false;
  if (word.front() == '>') return true;
  if (word.find_first_not_of("#+-*=_|:~") == std::string_view::npos) return true;
  return word.size() > 1 && std::all_of(word.begin(), word.end() - 1, is_digit) &&
         (word.back() == '.' || word.back() == ')');
}

/// A link, a reference to one, or its definition: brackets by themselves mean nothing.
bool may_hold_a_link(std::string_view text) {
  return text.find("](") != std::string_view::npos || text.find("]:") != std::string_view::npos ||
         text.find("][") != std::string_view::npos;
}

bool has_meaning_in_markdown(std::string_view text, std::size_t at) {
  const bool in_word = at > 0 && std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0;
  const char after = at + 1 < text.size() ? text[at + 1] : ' ';
  switch (text[at]) {
    case '\\':
    case '*':
    case '<':
    case '|':
    case '~':
    case '$':
      return true;
    case '[':
    case ']':
      return may_hold_a_link(text);
    case '_':  // after a letter or digit it cannot open emphasis
      return !in_word;
    case '&':  // an entity
      return std::isalnum(static_cast<unsigned char>(after)) != 0 || after == '#';
    default:
      return false;
  }
}

/// Backticks that mark code come in pairs; runs of several, and the last of an odd number, become quotes.
std::string balanced_backticks(std::string text) {
  std::size_t singles = 0;
  std::size_t last_single = 0;
  for (std::size_t at = text.find('`'); at < text.size(); at = text.find('`', at)) {
    const std::size_t end = std::min(text.find_first_not_of('`', at), text.size());
    if (end == at + 1) {
      ++singles;
      last_single = at;
    } else {
      text.replace(at, end - at, end - at, '\'');
    }
    at = end;
  }
  if (singles % 2 == 1) text[last_single] = '\'';
  return text;
}

std::string in_code(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '|') {
      result += "\u00A6";  // a code span cannot hold a bar inside a table whatever precedes it
    } else {
      result += c == '`' ? '\'' : c;
    }
  }
  return result;
}

}  // namespace

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string visible_text(std::string_view text) {
  const auto is_plain = [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; };
  if (std::all_of(text.begin(), text.end(), is_plain)) return std::string(text);  // as nearly every text
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = utf8_length(text.substr(at));
    const std::string_view sequence = text.substr(at, std::max<std::size_t>(length, 1));
    const char32_t value = length == 0 ? static_cast<unsigned char>(text[at]) : decode(sequence);
    at += sequence.size();
    if (length > 0 && (is_plain(sequence.front()) || !is_unsafe(value))) {
      result += sequence;
    } else if (value <= 0xFF) {
      result += fmt::format("\\x{:02X}", static_cast<std::uint32_t>(value));
    } else {
      result += fmt::format("\\u{:04X}", static_cast<std::uint32_t>(value));
    }
  }
  return result;
}

std::string plain_text(std::string_view text, std::size_t width) {
  std::string valid = valid_utf8(text);
  std::vector<std::string_view> line;
  for (const std::string_view character : characters(valid)) {
    const bool space = character == " " || character == "\t" || character == "\n" || character == "\r";
    if (space) {
      if (!line.empty() && line.back() != " ") line.emplace_back(" ");
    } else {
      line.push_back(is_unsafe(decode(character)) ? replacement_character : character);
    }
  }
  if (!line.empty() && line.back() == " ") line.pop_back();
  if (line.size() > width) {
    const std::size_t kept = std::max<std::size_t>(width, 5) - 3;
    const std::size_t tail = kept / 2;
    line.erase(line.begin() + static_cast<std::ptrdiff_t>(kept - tail), line.end() - static_cast<std::ptrdiff_t>(tail));
    line.insert(line.begin() + static_cast<std::ptrdiff_t>(kept - tail), "...");
  }
  std::string result;
  for (const std::string_view character : line) result += character;
  return result;
}

namespace {

/// A word of a sentence: as code where Markdown would take it for more than text, which reads better than backslashes
/// do; with these where it touches code already.
std::string markdown_word(std::string_view word, bool touches_code) {
  bool means_something = false;
  std::string escaped;
  for (std::size_t at = 0; at < word.size(); ++at) {
    const bool has_meaning = has_meaning_in_markdown(word, at);
    means_something = means_something || has_meaning;
    if (has_meaning) escaped += '\\';
    escaped += word[at];
  }
  if (!means_something || touches_code) return escaped;
  const std::size_t end = word.find_last_not_of(",;:.") + 1;
  if (end == 0) return escaped;
  return '`' + in_code(word.substr(0, end)) + '`' + std::string(word.substr(end));
}

/// Where a word that begins here ends. Lists of arguments belong to it: "f<int, (int)4>(T1, T2)" is one name.
std::size_t end_of_word(std::string_view text, std::size_t at) {
  const auto next_end = [&](std::size_t from) { return std::min(text.find_first_of(" `", from), text.size()); };
  const std::size_t first = next_end(at);
  std::size_t end = first;
  int open = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (i == end) {
      if (open == 0) return end;
      if (text[i] == '`') return first;
      end = next_end(i + 1);
    }
    const bool begins_list = open > 0 || (i > at && text[i - 1] != ' ');
    if ((text[i] == '<' || text[i] == '(') && begins_list) ++open;
    if ((text[i] == ')' || (text[i] == '>' && text[i - 1] != '-')) && open > 0) --open;
  }
  return open == 0 ? end : first;  // an unfinished list is none
}

}  // namespace

std::string markdown_text(std::string_view text, std::size_t width) {
  const std::string plain = balanced_backticks(plain_text(text, width));
  std::string result;
  for (std::size_t at = 0; at < plain.size();) {
    const bool is_code = plain[at] == '`';
    const std::size_t end = is_code ? std::min(plain.find('`', at + 1) + 1, plain.size()) : end_of_word(plain, at);
    const std::string_view part = std::string_view(plain).substr(at, end - at);
    const bool touches_code = (at > 0 && plain[at - 1] == '`') || (end < plain.size() && plain[end] == '`');
    result += is_code ? '`' + in_code(part.substr(1, part.size() - 2)) + '`' : markdown_word(part, touches_code);
    at = end;
    if (at < plain.size() && plain[at] == ' ') result += plain[at++];
  }
  if (starts_a_block(std::string_view(plain).substr(0, plain.find(' '))) && result.front() != '\\' &&
      result.front() != '`') {
    // Of a number, the character after it makes it a list.
    result.insert(is_digit(result.front()) ? result.find_first_not_of("0123456789") : 0, "\\");
  }
  return result;
}

std::string markdown_code(std::string_view text, std::size_t width) {
  const std::string code = in_code(plain_text(text, width));
  return code.empty() ? "-" : "`" + code + "`";
}

std::string markdown_path(std::string_view path, std::size_t width) {
  const std::string plain = plain_text(path, std::string::npos);
  const std::vector<std::string_view> all = characters(plain);
  if (all.size() <= width) return markdown_code(plain, width);
  std::string tail = "...";
  const std::size_t kept = std::max<std::size_t>(width, 5) - 3;
  for (std::size_t i = all.size() - kept; i < all.size(); ++i) tail += all[i];
  return markdown_code(tail, width);
}

std::string wrap(std::string_view text, std::string_view first, std::string_view others, std::size_t width) {
  std::string result(first);
  std::size_t column = text_width(first);
  bool line_is_empty = true;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    const std::size_t word_width = text_width(word);
    if (!line_is_empty && column + 1 + word_width > width && !starts_a_block(word)) {
      result += '\n';
      result += others;
      column = text_width(others);
      line_is_empty = true;
    }
    if (!line_is_empty) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word_width;
    line_is_empty = false;
  }
  result += '\n';
  return result;
}

std::string format_count(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t sign = count < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string format_share(std::int64_t part, std::int64_t whole) {
  if (whole <= 0) return "-";
  return fmt::format("{:.1f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

namespace {

struct Unit {
  std::uint64_t size;  ///< in base units
  std::string_view name;
};

/// Four significant digits in the largest unit that is not larger than the value. In integers: the rounding (half away
/// from zero) that turns 999,999.5 ns into a millisecond is exact.
template <std::size_t count>
std::string format_quantity(std::int64_t value, const std::array<Unit, count>& units) {
  if (value == no_time) return "-";
  const std::string_view sign = value < 0 ? "-" : "";
  const std::uint64_t magnitude = value < 0 ? static_cast<std::uint64_t>(-value) : static_cast<std::uint64_t>(value);
  for (std::size_t u = 0; u < count; ++u) {
    const bool largest = u + 1 == count;
    const std::uint64_t size = units[u].size;
    if (size == 1) {
      if (largest || magnitude < units[u + 1].size) return fmt::format("{}{} {}", sign, magnitude, units[u].name);
      continue;
    }
    // 1.235, 12.35, 123.5: as many decimals as keep four digits, fewer beyond a thousand.
    for (const std::uint64_t decimals : {3, 2, 1, 0}) {
      const std::uint64_t scale = decimals == 3 ? 1000 : decimals == 2 ? 100 : decimals == 1 ? 10 : 1;
      const std::uint64_t step = size / scale;
      const std::uint64_t rounded = magnitude / step + (magnitude % step >= step - step / 2 ? 1 : 0);
      if (rounded >= 10'000 && decimals > 0) continue;
      if (!largest && rounded * step >= units[u + 1].size) break;
      if (decimals == 0) return fmt::format("{}{} {}", sign, rounded, units[u].name);
      return fmt::format("{}{}.{:0{}} {}", sign, rounded / scale, rounded % scale, decimals, units[u].name);
    }
  }
  return {};  // not reached: the largest unit takes everything
}

}  // namespace

std::string format_duration(Nanoseconds duration_ns) {
  static constexpr std::array<Unit, 5> units{
      {{1, "ns"}, {1'000, "us"}, {1'000'000, "ms"}, {1'000'000'000, "s"}, {3'600'000'000'000, "h"}}};
  return format_quantity(duration_ns, units);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<Unit, 7> units{{{1, "B"},
                                              {1'000, "kB"},
                                              {1'000'000, "MB"},
                                              {1'000'000'000, "GB"},
                                              {1'000'000'000'000, "TB"},
                                              {1'000'000'000'000'000, "PB"},
                                              {1'000'000'000'000'000'000, "EB"}}};
  return format_quantity(bytes, units);
}

}  // namespace nsys_explain::report
