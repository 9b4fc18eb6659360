#pragma once

#include <algorithm>

#include "report/overview.hpp"

/// The parts of report.md.
namespace nsys_explain::report {

// What the sections of report.md are put together from.

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

// The parts of report.md below the verdict. Each is empty where it has nothing to say; otherwise it starts with its
// heading and one sentence on how it was derived and what limits it.

std::string findings_section(const JobReport& report);
std::string stragglers_section(const Overview& overview);
std::string budget_section(const JobReport& report);
std::string waits_section(const JobReport& report);
std::string operations_section(const JobReport& report);
std::string communicators_section(const JobReport& report);
std::string clock_and_matching_section(const JobReport& report);
std::string nvlink_section(const JobReport& report);
std::string host_processes_section(const JobReport& report);
std::string inputs_section(const JobReport& report);
std::string warnings_section(const JobReport& report);
std::string capture_section(const JobReport& report);
/// The sums of a table, as `shown` declares them.
std::string shown_section(const JobReport& report, const ShownTable& shown);

}  // namespace nsys_explain::report
