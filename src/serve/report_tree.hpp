#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace nsys_explain::serve {

/// A file descriptor, closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int number() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  /// A path to what it stands for, for libraries that open paths.
  std::string path() const;

 private:
  int number_;
};

/// Which version of a file this is.
struct Stamp {
  std::uint64_t device = 0, inode = 0;
  std::int64_t changed_ns = 0, bytes = 0;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

Stamp stamp_of(int descriptor);

/// The reports below a directory. A report is a directory that holds a store.h5 and a report.json; its name is its path
/// from the root. No symbolic link is followed, and nothing outside the root can be named.
class ReportTree {
 public:
  /// Throws Refusal where the root cannot be read, or is a report itself.
  explicit ReportTree(const std::string& root);

  /// Sorted. Directories deeper than four, and those whose names begin with a dot, are left out.
  std::vector<std::string> names() const;
  /// A regular file of a report, for reading. Throws Refusal (404).
  Descriptor open_file(std::string_view report, std::string_view file) const;
  const std::string& root() const { return root_; }

 private:
  std::string root_;
  Descriptor directory_;
};

/// Whether it can name a report: parts between slashes, none of them empty or hidden.
bool is_report_name(std::string_view name);

/// All of a file of at most `most_bytes`. Throws Refusal.
std::string read_all(int descriptor, std::int64_t most_bytes);

}  // namespace nsys_explain::serve
