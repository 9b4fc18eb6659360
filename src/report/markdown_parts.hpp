#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// What the sections of report.md are put together from.
namespace nsys_explain::report {

/// Rows that a table shows at most. All rows are in report.json and the store.
inline constexpr std::size_t shown_rows = 20;

/// How many inputs with problems, and how many warnings; worst first.
inline constexpr std::size_t shown_problems = 8;

/// Characters of a finding, an evidence line or a message.
inline constexpr std::size_t sentence_width = 600;

/// A heading and one sentence on how the section was derived and what limits it.
std::string heading(std::string_view title, std::string_view derivation);

/// What a table leaves out, and where it is.
std::string rest_note(std::size_t all, std::size_t shown, std::string_view where);

/// The first `shown_rows` of the elements in the order that `comes_before` gives; all of them, in their own order,
/// where they are few.
template <class T, class Before>
std::vector<T> most_telling(const std::vector<T>& elements, const Before& comes_before) {
  std::vector<T> chosen = elements;
  if (chosen.size() <= shown_rows) return chosen;
  std::stable_sort(chosen.begin(), chosen.end(), comes_before);
  chosen.erase(chosen.begin() + shown_rows, chosen.end());
  return chosen;
}

/// A GitHub table whose columns are padded, so that it can be read as plain text too. Cells are Markdown already.
struct MarkdownTable {
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::right;
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;

  std::string to_string() const;
};

}  // namespace nsys_explain::report
