#include "ingest/input_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/export_report.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

/// What SQLite does with a journal is not for us to recommend: the journal may name files.
std::string repair_of(const std::string& path) {
  constexpr std::string_view larger = "set TMPDIR to a larger disk";
  std::error_code ignored;
  if (fs::exists(path + "-journal", ignored)) return fmt::format("{}, or repeat the export", larger);
  return fmt::format(
      "finish it with: sqlite3 FILE 'PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode=DELETE' (or {})", larger);
}

/// The first 100 bytes of every SQLite file (https://sqlite.org/fileformat2.html, 1.3).
struct DatabaseHeader {
  std::array<unsigned char, 100> bytes{};

  bool is_sqlite() const { return std::memcmp(bytes.data(), "SQLite format 3", 16) == 0; }
  /// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
  bool is_lfs_pointer() const {
    constexpr std::string_view start = "version https://git-lfs.github.com/spec/";
    return std::memcmp(bytes.data(), start.data(), start.size()) == 0;
  }
  bool is_wal() const { return bytes[18] == 2 || bytes[19] == 2; }
  std::uint32_t big_endian(std::size_t at) const {
    return std::uint32_t{bytes[at]} << 24 | std::uint32_t{bytes[at + 1]} << 16 | std::uint32_t{bytes[at + 2]} << 8 |
           std::uint32_t{bytes[at + 3]};
  }
  /// Size of the file by its header; 0 where the header does not tell (written by a very old SQLite).
  std::uint64_t expected_bytes() const {
    const std::uint32_t stored = std::uint32_t{bytes[16]} << 8 | std::uint32_t{bytes[17]};
    const std::uint64_t page_bytes = stored == 1 ? 65536 : stored;
    return big_endian(24) == big_endian(92) ? page_bytes * big_endian(28) : 0;
  }
};

bool is_report_name(const fs::path& path) {
  const std::string extension = path.extension().string();
  return extension == ".nsys-rep" || extension == ".qdrep" || extension == ".qdstrm";
}

void require_regular_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw TraceError(fmt::format(
        "the file cannot be found ({}): it is left out; check the name and the permissions of its directories",
        std::strerror(errno)));
  }
  if (S_ISDIR(status.st_mode))
    throw TraceError("this is a directory, not an export: nothing can be read from it; name the .sqlite files in it");
  if (!S_ISREG(status.st_mode))
    throw TraceError("this is not a regular file: SQLite cannot read it; copy the export to a file");
  if (::access(path.c_str(), R_OK) != 0) {
    throw TraceError(fmt::format("the file may not be read by this user ({}): it is left out; change its permissions",
                                 std::strerror(errno)));
  }
}

DatabaseHeader read_header(const std::string& path) {
  DatabaseHeader header;
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(header.bytes.data()), static_cast<std::streamsize>(header.bytes.size()));
  const auto count = file.gcount();
  if (count == 0) {
    throw TraceError(fmt::format(
        "the file is empty: nothing can be read; the export was interrupted or the disk was full, repeat it: {}",
        export_advice(path)));
  }
  if (header.is_lfs_pointer()) {
    throw TraceError(
        "this is a pointer of Git LFS, a few lines that stand for the file: the file itself was not fetched, so there is nothing to read; run `git lfs pull` in its repository");
  }
  if (!header.is_sqlite() && is_report_name(path)) {
    throw TraceError(fmt::format(
        "this is a report of Nsight Systems, not its SQLite export: the format of reports is not public; {}",
        export_advice(path)));
  }
  if (!header.is_sqlite()) {
    throw TraceError(
        fmt::format("the file is not a SQLite database: only SQLite exports of Nsight Systems can be read; {}",
                    export_advice(path)));
  }
  return header;
}

void refuse_truncated(const DatabaseHeader& header, const std::string& path) {
  const std::uint64_t expected = header.expected_bytes();
  const std::uint64_t actual = fs::file_size(path);
  if (actual < header.bytes.size() || actual < expected) {
    throw TraceError(
        fmt::format("the file is cut short ({} bytes of {}): events are missing; copy it again or repeat the export",
                    actual, expected));
  }
}

/// Copies the database with its sidecars; -shm is an index of -wal that SQLite builds anew.
std::string copy_with_sidecars(const std::string& path, const fs::path& directory) {
  const fs::path target = directory / "export.sqlite";
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (!fs::exists(path + suffix)) continue;
    const fs::path copy = target.string() + suffix;
    fs::copy_file(path + suffix, copy);
    fs::permissions(copy, fs::perms::owner_read | fs::perms::owner_write);
  }
  return target.string();
}

std::uint64_t bytes_with_sidecars(const std::string& path) {
  std::uint64_t sum = 0;
  for (const char* suffix : {"", "-wal", "-journal"}) {
    std::error_code missing;
    const auto bytes = fs::file_size(path + suffix, missing);
    if (!missing) sum += bytes;
  }
  return sum;
}

}  // namespace

bool has_sidecar(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path + "-wal", ignored) || fs::exists(path + "-journal", ignored);
}

InputFile::InputFile(const std::string& path) {
  require_regular_file(path);
  const DatabaseHeader header = read_header(path);
  // SQLite follows links and looks for sidecars beside the file itself, so this must look there too. And a relative
  // name that starts with "file:" would be taken for a URI.
  path_to_open_ = fs::canonical(path).string();
  if (!header.is_wal() && !has_sidecar(path_to_open_)) {
    refuse_truncated(header, path);
    return;
  }
  try {
    scratch_ = std::make_unique<ScratchDirectory>();
    // Finishing the log may need as much again as the log itself; asking first spares filling up somebody's disk.
    const std::uint64_t needed = 2 * bytes_with_sidecars(path_to_open_);
    const std::uint64_t available = fs::space(scratch_->path()).available;
    if (available < needed) {
      throw fs::filesystem_error(fmt::format("{} bytes needed, {} available", needed, available),
                                 std::make_error_code(std::errc::no_space_on_device));
    }
    path_to_open_ = copy_with_sidecars(path_to_open_, scratch_->path());
  } catch (const std::system_error& error) {
    throw TraceError(fmt::format(
        "the database has an unfinished write-ahead log or journal and cannot be copied to the temporary directory ({}): reading it in place would change it or give wrong rows; {}",
        error.code().message(), repair_of(path_to_open_)));
  }
}

InputFile::~InputFile() = default;

}  // namespace nsys_explain::ingest
