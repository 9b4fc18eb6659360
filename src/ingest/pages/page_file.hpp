#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

/// The page reader: rows of ordinary SQLite tables straight from their pages, about six times faster than stepping a
/// statement. The format is documented and frozen (https://sqlite.org/fileformat2.html). libsqlite3 has opened the
/// file, holds a read transaction, and names tables, columns and root pages; nothing here interprets SQL.
///
///     file   | page 1: 100 bytes header, schema | page 2 | page 3 | ...        pages of 512 to 65536 bytes
///
///     table  a tree of pages. Interior pages hold (child page, greatest rowid below it) and are few; leaves hold the
///            rows, ascending by rowid.
///
///     leaf   | 0x0D | . . | cells | . . | . | pointer | pointer | ...   free   ... | cell | cell |  reserved |
///              byte 0       3       5     7   8: 2 bytes per cell, in rowid order    anywhere above
///
///     cell   | record bytes | rowid | record ........................ | overflow page |
///              varint         varint  its start, where it is too long   only then
///
///     record | header bytes | type | type | ... | value | value | ...
///              varint         one varint per column: 0 NULL, 1..6 integer of 1, 2, 3, 4, 6, 8 bytes, 7 double,
///                             8 and 9 the numbers 0 and 1, even from 12 bytes, odd from 13 text; big-endian
///
/// Everything read from the file is checked before it is used. Whatever is not exactly as above (journals, logs, other
/// encodings, other kinds of tables, damage) is a PageSurprise: the caller then asks SQLite, which knows all of it.
namespace nsys_explain::ingest::pages {

/// The page reader cannot vouch for what it sees. The message says what and on which page.
class PageSurprise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  PageSurprise(const char* what, std::uint32_t page);
};

/// An open database file as numbered pages. pread, never mmap: where a file shrinks under a mapping the process dies.
///
/// Closing any descriptor of a file drops the POSIX locks that the process holds on it, among them SQLite's own. So an
/// object of this class must outlive the SQLite connection to the same file.
class PageFile {
 public:
  /// Throws PageSurprise.
  explicit PageFile(const std::string& path);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  std::uint32_t page_bytes() const { return page_bytes_; }
  std::uint32_t usable_bytes() const { return usable_bytes_; }  ///< without the reserved end of each page
  std::uint32_t page_count() const { return page_count_; }

  /// Reads pages [first, first + count). Safe from several threads. Throws PageSurprise where the file has no such
  /// pages (any more).
  void read(std::uint32_t first, std::uint32_t count, std::uint8_t* target) const;

 private:
  void read_header(const std::string& path);

  int descriptor_ = -1;
  std::uint32_t page_bytes_ = 0, usable_bytes_ = 0, page_count_ = 0;
};

/// Page 1 begins with the file's header, every other page with its own.
inline std::uint32_t page_header_at(std::uint32_t page) {
  return page == 1 ? 100 : 0;
}

/// A cell takes at least 4 bytes and its pointer 2.
inline std::uint32_t most_cells(const PageFile& file) {
  return (file.usable_bytes() - 8) / 6;
}

}  // namespace nsys_explain::ingest::pages
