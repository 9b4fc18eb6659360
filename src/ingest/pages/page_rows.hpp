#pragma once

#include <functional>

#include "ingest/pages/leaf_decoder.hpp"

namespace nsys_explain::ingest::pages {

/// Calls `use(batch)` for each run of leaves in rowid order, always on the calling thread, while up to `threads`
/// threads decode ahead. Throws PageSurprise (every batch delivered before is right), PageDamage and whatever `use`
/// throws.
void for_each_page_batch(const PageFile& file, const PageScan& scan, int threads,
                         const std::function<void(PageBatch&)>& use);

/// Throws PageDamage unless SQLite would meet each page of the table once, and every row.
void check_pages(const PageFile& file, PageScan scan, int threads);

}  // namespace nsys_explain::ingest::pages
