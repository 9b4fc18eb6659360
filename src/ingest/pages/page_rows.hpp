#pragma once

#include <deque>

#include "ingest/pages/page_file.hpp"
#include "ingest/pages/record_layout.hpp"
#include "ingest/table_scan.hpp"

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

/// Which columns of a batch tell when a row started and ended.
struct TimeOutputs {
  std::size_t start = 0, end = 0;
};

/// What to read of a table.
struct PageScan {
  std::uint32_t root_page = 0;
  RecordRules rules;
  std::vector<WantedColumn> columns = {};  ///< ascending by position
  std::size_t outputs = 0;                 ///< columns of a batch
  bool only_checks = false;                ///< that pages and records are as they should be, whatever their values
  std::optional<TimeOutputs> times = {};   ///< among the outputs
  std::vector<bool> unwanted = {};         ///< runs that need not be read; of no use where there are more or fewer runs
};

/// The rows of one run of leaves. Texts are views of the bytes below; memory is used again for the next run.
struct PageBatch {
  std::size_t rows = 0;
  std::int64_t first_rowid = 0, last_rowid = 0;
  double share_read = 0;              ///< of the table's leaves, up to the end of this run
  std::size_t run = 0;                ///< its number
  Interval times;                     ///< first start and last end of its rows, where PageScan::times tells the columns
  std::vector<ColumnValues> columns;  ///< as long as the longest batch so far; `rows` counts

  std::vector<std::uint32_t> overflow_pages;     ///< read for the rows
  std::vector<std::uint8_t> window;              ///< the pages of the run
  std::deque<std::vector<std::uint8_t>> extras;  ///< records put together from overflow pages, numbers as text
};

/// Turns leaf pages into columns. One for each thread.
class LeafDecoder {
 public:
  LeafDecoder(const PageFile& file, const PageScan& scan)
      : file_(file), layouts_(scan.columns, scan.rules), only_checks_(scan.only_checks) {}

  /// Decodes a run (divide_into_runs) into `batch`, whose columns[WantedColumn::output] must exist. Throws
  /// PageSurprise and PageDamage; the batch then means nothing.
  void decode(std::span<const Leaf> run, PageBatch& batch);

 private:
  /// A record of which the first `available` bytes can be read.
  struct Record {
    const std::uint8_t* bytes = nullptr;
    std::size_t available = 0;
    std::uint64_t length = 0;
    std::uint32_t overflow_page = 0;  ///< 0: none
  };

  const std::uint8_t* page_bytes(std::uint32_t page, const PageBatch& batch) const;
  std::uint32_t cell_count(const Leaf& leaf, const PageBatch& batch) const;
  void decode_leaf(const Leaf& leaf, PageBatch& batch);
  Record find_record(const std::uint8_t* at, const std::uint8_t* usable_end, std::uint64_t length,
                     std::uint32_t page) const;
  void decode_record(Record& record, std::int64_t rowid, std::uint32_t page, PageBatch& batch);
  void gather(Record& record, std::uint64_t wanted_bytes, std::uint32_t page, PageBatch& batch) const;
  static std::string_view text_of(const TextField& field, const std::uint8_t* record, PageBatch& batch);
  static std::string_view digits_of(std::int64_t integer, PageBatch& batch);

  struct TextOutput {
    std::string_view* values = nullptr;
    bool is_rowid = false;
  };

  const PageFile& file_;
  RecordLayouts layouts_;
  bool only_checks_;
  // Where the values of the batch go, in the order of the wanted columns.
  std::vector<std::int64_t*> integers_;  ///< of those wanted as integers
  std::vector<std::int64_t*> rowids_;    ///< among them, those that are the rowid
  std::vector<TextOutput> texts_;        ///< of those wanted as text
  std::uint32_t window_page_ = 0, window_pages_ = 0;
};

/// Calls `use(batch)` for each run of leaves in rowid order, always on the calling thread, while up to `threads`
/// threads decode ahead. Throws PageSurprise (every batch delivered before is right), PageDamage and whatever `use`
/// throws.
void for_each_page_batch(const PageFile& file, const PageScan& scan, int threads,
                         const std::function<void(PageBatch&)>& use);

/// Throws PageDamage unless SQLite would meet each page of the table once, and every row.
void check_pages(const PageFile& file, PageScan scan, int threads);

}  // namespace nsys_explain::ingest::pages
