#include "report/markdown_parts.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "report/text.hpp"

namespace nsys_explain::report {

std::string heading(std::string_view title, std::string_view derivation) {
  return fmt::format("\n## {}\n\n{}\n", title, wrap(derivation, "", ""));
}

std::string rest_note(std::size_t all, std::size_t shown, std::string_view where) {
  if (all <= shown) return {};
  return wrap(fmt::format("... and {} more ({}).", format_count(static_cast<std::int64_t>(all - shown)), where), "\n",
              "");
}

namespace {

std::string padded(const std::string& text, std::size_t width, MarkdownTable::Align align) {
  const std::string padding(width - std::min(width, text_width(text)), ' ');
  return align == MarkdownTable::Align::right ? padding + text : text + padding;
}

}  // namespace

std::string MarkdownTable::to_string() const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns) widths.push_back(std::max<std::size_t>(text_width(column.title), 2));
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < columns.size(); ++c) widths[c] = std::max(widths[c], text_width(row[c]));
  }
  std::string header = "|";
  std::string rule = "|";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const bool right = columns[c].align == Align::right;
    header += ' ' + padded(columns[c].title, widths[c], columns[c].align) + " |";
    rule += (right ? " " : " :") + std::string(widths[c] - 1, '-') + (right ? ": |" : " |");
  }
  std::string result = header + '\n' + rule + '\n';
  for (const auto& row : rows) {
    result += '|';
    for (std::size_t c = 0; c < columns.size(); ++c) result += ' ' + padded(row[c], widths[c], columns[c].align) + " |";
    result += '\n';
  }
  return result;
}

}  // namespace nsys_explain::report
