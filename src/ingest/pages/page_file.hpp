#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

/// Numbers as SQLite stores them: big-endian, of fixed or variable length.
namespace nsys_explain::ingest::pages {

inline std::uint32_t load_be16(const std::uint8_t* bytes) {
  return std::uint32_t{bytes[0]} << 8 | bytes[1];
}

inline std::uint32_t load_be32(const std::uint8_t* bytes) {
  return load_be16(bytes) << 16 | load_be16(bytes + 2);
}

inline std::uint64_t load_be64(const std::uint8_t* bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

/// Reads a number of 1 to 9 bytes that ends before `end`. Returns its length; 0 where it runs past `end`.
inline std::size_t read_varint(const std::uint8_t* bytes, const std::uint8_t* end, std::uint64_t& value) {
  if (bytes < end && bytes[0] < 0x80) {
    value = bytes[0];
    return 1;
  }
  value = 0;
  for (std::size_t i = 0; i < 8; ++i) {
    if (bytes + i >= end) return 0;
    value = value << 7 | (bytes[i] & 0x7F);
    if (bytes[i] < 0x80) return i + 1;
  }
  if (bytes + 8 >= end) return 0;
  value = value << 8 | bytes[8];  // the ninth byte counts whole
  return 9;
}

// The page reader: rows of ordinary SQLite tables straight from their pages, about six times faster than stepping a
// statement. The format is documented and frozen (https://sqlite.org/fileformat2.html). libsqlite3 has opened the
// file, holds a read transaction, and names tables, columns and root pages; nothing here interprets SQL.
//
//     file   | page 1: 100 bytes header, schema | page 2 | page 3 | ...        pages of 512 to 65536 bytes
//
//     table  a tree of pages. Interior pages hold (child page, greatest rowid below it) and are few; leaves hold the
//            rows, ascending by rowid.
//
//     leaf   | 0x0D | . . | cells | . . | . | pointer | pointer | ...   free   ... | cell | cell |  reserved |
//              byte 0       3       5     7   8: 2 bytes per cell, in rowid order    anywhere above
//
//     cell   | record bytes | rowid | record ........................ | overflow page |
//              varint         varint  its start, where it is too long   only then
//
//     record | header bytes | type | type | ... | value | value | ...
//              varint         one varint per column: 0 NULL, 1..6 integer of 1, 2, 3, 4, 6, 8 bytes, 7 double,
//                             8 and 9 the numbers 0 and 1, even from 12 bytes, odd from 13 text; big-endian
//
// Everything read from the file is checked before it is used. What is not as above but may well be right (other
// encodings, other kinds of tables, rows older than a column) is a PageSurprise: the caller then asks SQLite, which
// knows all of it. What contradicts itself is PageDamage. SQLite must not be asked then: it reads on, gives rows twice
// or leaves some out, and goes round in circles.
//
// No page is read more than once in a scan, so no scan takes longer than the file's size allows.

/// The page reader does not know what it sees. The message says what.
class PageSurprise : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The file contradicts itself. The message says how and on which page.
class PageDamage : public std::runtime_error {
 public:
  PageDamage(const char* what, std::uint32_t page);
};

/// An open database file as numbered pages. pread, never mmap: where a file shrinks under a mapping the process dies.
///
/// Closing any descriptor of a file drops the POSIX locks that the process holds on it, among them SQLite's own. So an
/// object of this class must outlive the SQLite connection to the same file.
class PageFile {
 public:
  /// Of a file that SQLite has begun to read: so a journal beside it, if any, is none of an unfinished change. Throws
  /// PageSurprise.
  explicit PageFile(const std::string& path);
  ~PageFile();
  PageFile(const PageFile&) = delete;
  PageFile& operator=(const PageFile&) = delete;

  std::uint32_t page_bytes() const { return page_bytes_; }
  std::uint32_t usable_bytes() const { return usable_bytes_; }  ///< without the reserved end of each page
  std::uint32_t page_count() const { return page_count_; }
  std::uint64_t bytes() const { return std::uint64_t{page_count_} * page_bytes_; }
  bool has_utf8_texts() const { return has_utf8_texts_; }

  /// The root page of the table that each page belongs to, as far as scans have met it; else 0. For one thread.
  std::vector<std::uint32_t>& owners() const { return owners_; }

  /// Reads pages [first, first + count). Safe from several threads. Throws PageDamage where the file has no such pages
  /// (any more).
  void read(std::uint32_t first, std::uint32_t count, std::uint8_t* target) const;

 private:
  void read_header(const std::string& path);

  int descriptor_ = -1;
  std::uint32_t page_bytes_ = 0, usable_bytes_ = 0, page_count_ = 0;
  bool has_utf8_texts_ = true;
  mutable std::vector<std::uint32_t> owners_;
};

/// Page 1 begins with the file's header, every other page with its own.
inline std::uint32_t page_header_at(std::uint32_t page) {
  return page == 1 ? 100 : 0;
}

/// A cell takes at least 4 bytes, whatever is in it, and its pointer 2.
constexpr std::uint32_t fewest_cell_bytes = 4;
inline std::uint32_t most_cells(const PageFile& file) {
  return (file.usable_bytes() - 8) / (fewest_cell_bytes + 2);
}

/// Throws PageDamage unless the cells of a page of a tree, which take `cell_bytes` in all, and what the page says is
/// free add up to its content: where a cell was lost, or is not where the page's writer put it, they do not.
void require_whole_content(const PageFile& file, std::uint32_t page, const std::uint8_t* bytes,
                           std::uint64_t cell_bytes);

}  // namespace nsys_explain::ingest::pages
