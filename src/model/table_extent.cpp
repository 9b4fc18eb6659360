#include "nsys_explain/model/table_extent.hpp"

#include <algorithm>

namespace nsys_explain {

TableExtent extent_of(const Table& table) {
  TableExtent extent{table.row_count(), {}};
  for (const ColumnData& column : table.columns) {
    std::size_t longest = 0;
    if (const auto* texts = std::get_if<TextColumn>(&column)) {
      for (const std::string& text : texts->distinct()) longest = std::max(longest, text.size());
    }
    extent.longest_texts.push_back(longest);
  }
  return extent;
}

}  // namespace nsys_explain
