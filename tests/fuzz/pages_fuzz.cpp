#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "ingest/pages/page_rows.hpp"

/// libFuzzer target: the decoder of pages by itself, thousands of inputs a second. The input is what a scan wants,
/// eight bytes (see scan_of), and a database file. Whatever they say, nothing outside of buffers is read, and what
/// takes memory or time is bounded by the file's size. page_reader_fuzz.cpp compares rows with SQLite's, and is slow.
namespace {

using namespace nsys_explain::ingest;

constexpr std::size_t wish_bytes = 8;

/// A file in memory.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("pages", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {}
  void put(const std::uint8_t* bytes, std::size_t size) const {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) std::abort();
    if (::pwrite(descriptor_, bytes, size, 0) != static_cast<ssize_t>(size)) std::abort();
  }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

pages::PageScan scan_of(const std::uint8_t* wish) {
  pages::PageScan scan;
  scan.root_page = 1 + wish[0] % 64;
  const std::size_t columns = 1 + wish[1] % 8;
  for (std::size_t position = 0; position < columns; ++position) {
    scan.rules.never_null.push_back((wish[3] >> position & 1) != 0);
    if ((wish[2] >> position & 1) == 0) continue;
    scan.columns.push_back({position, scan.outputs++, (wish[4] >> position & 1) != 0, position == wish[5] % 16U});
  }
  scan.rules.fewest_columns = wish[6] % (columns + 1);
  scan.only_checks = wish[7] % 8 == 7;
  if (scan.only_checks) scan.columns.clear(), scan.outputs = 0;  // as check_pages has it
  return scan;
}

/// Reads every byte that a batch shows.
std::size_t look_at(const pages::PageBatch& batch) {
  std::size_t sum = 0;
  for (const auto& column : batch.columns) {
    for (std::size_t row = 0; row < batch.rows && row < column.integers.size(); ++row)
      sum += static_cast<std::size_t>(column.integers[row]);
    for (std::size_t row = 0; row < batch.rows && row < column.texts.size(); ++row)
      for (const char c : column.texts[row]) sum += static_cast<unsigned char>(c);
  }
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size < wish_bytes + 512) return 0;
  static const MemoryFile file;
  file.put(bytes + wish_bytes, size - wish_bytes);
  volatile std::size_t sum = 0;
  try {
    const pages::PageFile opened(file.path());
    pages::for_each_page_batch(opened, scan_of(bytes), 1, [&](pages::PageBatch& batch) {
      if (batch.rows * 4 > opened.bytes()) std::abort();  // a cell takes four bytes
      sum = sum + look_at(batch);
    });
  } catch (const pages::PageSurprise&) {
  } catch (const pages::PageDamage&) {
  }
  return 0;
}
