#include "analysis/statistics/delimited_text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/text.hpp"

namespace nsys_explain::analysis {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}
std::vector<std::vector<std::string>> parse_csv(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> row;
  std::string field;
  bool quoted = false, was_quoted = false;
  const auto end_field = [&] {
    row.push_back(was_quoted ? field : std::string(trimmed(field)));
    field.clear();
    was_quoted = false;
  };
  const auto end_row = [&] {
    end_field();
    if (row.size() > 1 || !row.front().empty()) rows.push_back(std::move(row));
    row.clear();
  };
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
        field += text[++i];
      } else if (c == '"') {
        quoted = false;
      } else {
        field += c;
      }
    } else if (c == '"' && trimmed(field).empty()) {
      field.clear();
      quoted = was_quoted = true;
    } else if (c == ',') {
      end_field();
    } else if (c == '\n') {
      end_row();
    } else if (!was_quoted) {
      field += c;
    }
  }
  if (!field.empty() || !row.empty()) end_row();
  return rows;
}

DecimalMark decimal_mark_of(std::string_view text) {
  const std::string_view digits = trimmed(text);
  if (digits.find_first_not_of("+-0123456789.,") != std::string_view::npos) return DecimalMark::point;
  const std::size_t sign = std::min(digits.find_first_of("0123456789.,"), digits.size());
  const std::size_t point = digits.find('.');
  if (point != std::string_view::npos && digits.find_first_of(".,", point + 1) != std::string_view::npos)
    return DecimalMark::comma;
  std::string_view whole = digits.substr(0, point).substr(std::min(sign, digits.size()));
  if (whole.find(',') == std::string_view::npos) return DecimalMark::point;
  const std::size_t first = whole.find(',');
  if (first == 0 || first > 3 || whole.front() == '0') return DecimalMark::comma;
  for (whole.remove_prefix(first); !whole.empty(); whole.remove_prefix(4)) {
    const bool is_group = whole.front() == ',' && whole.size() >= 4 && whole.substr(1, 3).find(',') == whole.npos;
    if (!is_group) return DecimalMark::comma;
  }
  return DecimalMark::point;
}

std::optional<double> parse_number(std::string_view text, DecimalMark mark) {
  text = trimmed(text);
  text = text.substr(0, text.find(' '));
  if (mark == DecimalMark::point && decimal_mark_of(text) == DecimalMark::comma) return std::nullopt;
  std::string digits;
  for (const char c : text) {
    const bool is_mark = c == (mark == DecimalMark::point ? '.' : ',');
    if (is_mark) {
      digits += '.';
    } else if (c != '.' && c != ',') {
      digits += c;
    }
  }
  double value = 0;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (problem != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::vector<Line> significant_lines(std::string_view text) {
  std::vector<Line> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::string_view line = trimmed(next_part(text));
    if (!line.empty() && line.front() != '#') lines.push_back({number, std::string(line)});
  }
  return lines;
}

}  // namespace nsys_explain::analysis
