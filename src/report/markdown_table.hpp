#pragma once

#include <string>
#include <vector>

namespace nsys_explain::report {

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
