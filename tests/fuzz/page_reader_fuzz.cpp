#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "unit/ingest/reader_comparison.hpp"

/// libFuzzer target: the input is a database file. Whatever its bytes, a scan must give SQLite's rows or fail, without
/// reading outside its buffers. Build with -DNSYS_EXPLAIN_FUZZ=ON and clang; seeds: make_seeds.py.
namespace {

/// In memory where the system has such a place; removed when the process ends.
struct ScratchFile {
  std::string path = (std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : "/tmp") +
                     ("/nsys-explain-fuzz-" + std::to_string(::getpid()));
  ~ScratchFile() { std::remove(path.c_str()); }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using nsys_explain::ingest::testing::compare_with_sqlite;
  if (size < 512) return 0;
  static const ScratchFile file;
  std::ofstream(file.path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes), static_cast<std::streamsize>(size));
  const int threads = 1 + bytes[size - 1] % 2;
  const auto comparison = compare_with_sqlite(file.path, {nsys_explain::ingest::Reader::automatic, threads});
  if (!comparison.difference.empty()) {
    std::fprintf(stderr, "%s\n", comparison.difference.c_str());
    std::abort();
  }
  return 0;
}
