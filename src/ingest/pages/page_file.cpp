#include "ingest/pages/page_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nsys_explain::ingest::pages {

PageDamage::PageDamage(const char* what, std::uint32_t page)
    : std::runtime_error(fmt::format("{} (page {})", what, page)) {}

PageFile::PageFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw PageSurprise(fmt::format("the file cannot be opened ({})", std::strerror(errno)));
  try {
    read_header(path);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

PageFile::~PageFile() {
  ::close(descriptor_);
}

void PageFile::read_header(const std::string& path) {
  struct stat status {};
  std::array<std::uint8_t, 100> header{};
  if (::fstat(descriptor_, &status) != 0 || ::pread(descriptor_, header.data(), header.size(), 0) != 100)
    throw PageSurprise("the file is shorter than its header");
  if (std::memcmp(header.data(), "SQLite format 3", 16) != 0) throw PageSurprise("the file is no SQLite database");
  const std::uint32_t stored = load_be16(&header[16]);
  page_bytes_ = stored == 1 ? 65536 : stored;
  if (page_bytes_ < 512 || (page_bytes_ & (page_bytes_ - 1)) != 0) throw PageSurprise("the page size is impossible");
  usable_bytes_ = page_bytes_ - header[20];
  if (usable_bytes_ < 480) throw PageSurprise("too much of each page is reserved");
  if (header[18] > 1 || header[19] > 1) throw PageSurprise("the database has a write-ahead log");
  if (header[21] != 64 || header[22] != 32 || header[23] != 32) throw PageSurprise("the payload fractions are unknown");
  has_utf8_texts_ = (load_be32(&header[56]) & 3) < 2;  // as SQLite takes it
  const std::uint64_t pages_in_file = static_cast<std::uint64_t>(status.st_size) / page_bytes_;
  // The stored size counts only where the same SQLite wrote it that changed the file last.
  const bool size_is_stored = load_be32(&header[24]) == load_be32(&header[92]) && load_be32(&header[28]) != 0;
  const std::uint64_t pages = size_is_stored ? load_be32(&header[28]) : pages_in_file;
  if (pages > pages_in_file || pages > 0xFFFFFFFE) throw PageSurprise("the file is cut short");
  page_count_ = static_cast<std::uint32_t>(pages);
  owners_.resize(pages + 1);
  if (::stat((path + "-wal").c_str(), &status) == 0 && status.st_size > 0)
    throw PageSurprise("a log lies beside the file");
}

void PageFile::read(std::uint32_t first, std::uint32_t count, std::uint8_t* target) const {
  if (first < 1 || first > page_count_ || count > page_count_ - first + 1)
    throw PageDamage("the file has no such page", first);
  const std::size_t wanted = std::size_t{count} * page_bytes_;
  const std::uint64_t offset = std::uint64_t{first - 1} * page_bytes_;
  for (std::size_t done = 0; done < wanted;) {
    const ssize_t got = ::pread(descriptor_, target + done, wanted - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw PageDamage("the file cannot be read to its end", first);
    done += static_cast<std::size_t>(got);
  }
}

/// fileformat2, 1.6: the free blocks of a page are a list in ascending order; what is too short for it is only counted.
void require_whole_content(const PageFile& file, std::uint32_t page, const std::uint8_t* bytes,
                           std::uint64_t cell_bytes) {
  const std::uint8_t* header = bytes + page_header_at(page);
  const std::uint32_t stored = load_be16(header + 5), content = stored == 0 ? 65536 : stored;
  std::uint64_t sum = cell_bytes + header[7];
  for (std::uint32_t block = load_be16(header + 1), least = content; block != 0;) {
    if (block < least || block + 4 > file.usable_bytes()) throw PageDamage("bad list of free blocks", page);
    const std::uint32_t size = load_be16(bytes + block + 2);
    sum += size;
    least = block + std::max<std::uint32_t>(size, 4);
    block = load_be16(bytes + block);
  }
  if (content + sum != file.usable_bytes()) throw PageDamage("cells were lost", page);
}

}  // namespace nsys_explain::ingest::pages
