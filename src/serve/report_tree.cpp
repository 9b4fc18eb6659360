#include "serve/report_tree.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "pipeline/tool_rank/own_files.hpp"
#include "serve/refusal.hpp"

namespace nsys_explain::serve {
namespace {

constexpr int deepest = 4;
constexpr std::size_t most_reports = 10'000, longest_name = 1'000;
constexpr int as_directory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// The entries of a directory whose names are not hidden, sorted.
std::vector<std::string> entries(int directory) {
  std::vector<std::string> names;
  const int own = ::openat(directory, ".", as_directory);
  DIR* const stream = own < 0 ? nullptr : ::fdopendir(own);
  if (stream == nullptr) {
    if (own >= 0) ::close(own);
    return names;
  }
  while (const dirent* entry = ::readdir(stream)) {
    if (entry->d_name[0] != '.' && (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN))
      names.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  std::sort(names.begin(), names.end());
  return names;
}

bool holds_regular(int directory, std::string_view name) {
  struct stat status {};
  return ::fstatat(directory, std::string(name).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode);
}

bool is_report(int directory) {
  return holds_regular(directory, pipeline::store_name) && holds_regular(directory, pipeline::json_name);
}

void add_names(int directory, const std::string& name, int depth, std::vector<std::string>& names) {
  for (const std::string& entry : entries(directory)) {
    if (names.size() >= most_reports) return;
    const Descriptor inner(::openat(directory, entry.c_str(), as_directory));
    const std::string path = name.empty() ? entry : fmt::format("{}/{}", name, entry);
    if (!inner || !is_report_name(path)) continue;
    if (is_report(inner.number())) {
      names.push_back(path);
    } else if (depth < deepest) {
      add_names(inner.number(), path, depth + 1, names);
    }
  }
}

Refusal absent(std::string_view report, std::string_view file) {
  const bool is_of_all = file == pipeline::store_name || file == pipeline::json_name;
  return {404,
          is_of_all ? fmt::format("there is no report '{}'", beginning_of(report))
                    : fmt::format("there is no {} of a report '{}'", file, beginning_of(report)),
          "so there is nothing to answer from", "/api/v1/reports lists the reports"};
}

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

std::string Descriptor::path() const {
  return fmt::format("/proc/self/fd/{}", number_);
}

Stamp stamp_of(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec, status.st_size};
}

bool is_report_name(std::string_view name) {
  if (name.empty() || name.size() > longest_name) return false;
  bool at_start = true;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
    if (at_start && (c == '.' || c == '/')) return false;
    at_start = c == '/';
  }
  return !at_start;
}

ReportTree::ReportTree(const std::string& root)
    : root_(root), directory_(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!directory_) {
    throw Refusal(2, fmt::format("cannot read {}: {}", root, std::strerror(errno)), "so there are no reports to serve",
                  "name a directory that holds directories of reports");
  }
  if (is_report(directory_.number())) {
    throw Refusal(2, fmt::format("{} is a report itself", root), "so it has no name below the directory that is served",
                  "name the directory that holds it");
  }
}

std::vector<std::string> ReportTree::names() const {
  std::vector<std::string> names;
  add_names(directory_.number(), "", 1, names);
  return names;
}

Descriptor ReportTree::open_file(std::string_view report, std::string_view file) const {
  if (!is_report_name(report)) throw absent(report, file);
  Descriptor place(::openat(directory_.number(), ".", as_directory));
  std::string_view rest = report;
  while (place && !rest.empty()) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    place = Descriptor(::openat(place.number(), std::string(rest.substr(0, end)).c_str(), as_directory));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (!place || !is_report(place.number())) throw absent(report, file);
  Descriptor found(::openat(place.number(), std::string(file).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!found || ::fstat(found.number(), &status) != 0 || !S_ISREG(status.st_mode)) throw absent(report, file);
  return found;
}

std::string read_all(int descriptor, std::int64_t most_bytes) {
  const std::int64_t bytes = stamp_of(descriptor).bytes;
  if (bytes > most_bytes) {
    throw Refusal(503,
                  fmt::format("a file of the report has {} bytes, more than the {} that are read", bytes, most_bytes),
                  "so its numbers cannot be told", "read the report itself, or run the analysis again");
  }
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::size_t read = 0;
  while (read < text.size()) {
    const ssize_t count = ::pread(descriptor, text.data() + read, text.size() - read, static_cast<off_t>(read));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    read += static_cast<std::size_t>(count);
  }
  if (read < text.size()) {
    throw Refusal(503, "a file of the report cannot be read", "so its numbers cannot be told",
                  "run the analysis again");
  }
  return text;
}

}  // namespace nsys_explain::serve
