#pragma once

#include <functional>
#include <vector>

#include "ingest/pages/leaf_decoder.hpp"

namespace nsys_explain::ingest::pages {

/// What to read of a table.
struct PageScan {
  std::uint32_t root_page = 0;
  std::size_t column_count = 0;       ///< columns that a record of the table holds
  std::vector<WantedColumn> columns;  ///< ascending by position
  std::size_t outputs = 0;            ///< columns of a batch
};

/// Calls `use(batch)` for each run of leaves in rowid order, always on the calling thread, while up to `threads`
/// threads decode ahead. Throws PageSurprise (every batch delivered before is right) and whatever `use` throws.
void for_each_page_batch(const PageFile& file, const PageScan& scan, int threads,
                         const std::function<void(PageBatch&)>& use);

}  // namespace nsys_explain::ingest::pages
