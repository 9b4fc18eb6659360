#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "ingest/pages/page_file.hpp"

namespace nsys_explain::ingest::pages {

/// One leaf of a table's tree.
struct Leaf {
  std::uint32_t page = 0;
  std::int64_t after = 0, last = 0;  ///< its rowids r have after < r <= last

  /// The only leaf of its table, which alone may be empty.
  bool is_only_one() const {
    return after == std::numeric_limits<std::int64_t>::min() && last == std::numeric_limits<std::int64_t>::max();
  }
};

/// Pages that a scan came to. A page belongs to one table, which uses it once.
class PagesMet {
 public:
  PagesMet(const PageFile& file, std::uint32_t root_page)
      : owners_(file.owners()), root_page_(root_page), met_(owners_.size()) {}

  /// Throws PageDamage where the page was met before, belongs to another table, or is not in the file.
  void add(std::uint32_t page);

 private:
  std::vector<std::uint32_t>& owners_;
  std::uint32_t root_page_;
  std::vector<bool> met_;
};

/// The leaves of the table with this root page in rowid order. Reads interior pages only: about one in 400, so this is
/// the cheap way to divide a table. Throws PageDamage where the tree is not that of a rowid table.
std::vector<Leaf> find_leaves(const PageFile& file, std::uint32_t root_page, PagesMet& met);

/// Leaves [first, end) that lie close enough together to be read at once.
struct LeafRun {
  std::size_t first = 0, end = 0;
};

/// Divides leaves into runs of at most `window_bytes`, in order.
std::vector<LeafRun> divide_into_runs(const std::vector<Leaf>& leaves, std::uint32_t page_bytes,
                                      std::uint32_t window_bytes);

}  // namespace nsys_explain::ingest::pages
