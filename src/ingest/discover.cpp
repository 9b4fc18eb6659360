#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ingest/export_report.hpp"
#include "ingest/file_names.hpp"
#include "ingest/kineto/export_kineto.hpp"
#include "model/hash.hpp"
#include "model/text.hpp"
#include "nsys_explain/ingest/discovery.hpp"

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view export_suffix = ".sqlite";
constexpr std::array<std::string_view, 2> report_suffixes = {".nsys-rep", ".qdrep"};
constexpr std::array<std::string_view, 3> side_file_suffixes = {".sqlite-wal", ".sqlite-shm", ".sqlite-journal"};

/// Copies of a directory write a report and its export within moments, in any order; only more than this is a sign.
constexpr Nanoseconds stale_after_ns = 60'000'000'000;

std::string reason(int error_number) {
  return std::generic_category().message(error_number);
}

template <std::size_t N>
std::optional<std::string_view> suffix_of(std::string_view name, const std::array<std::string_view, N>& suffixes) {
  for (const std::string_view suffix : suffixes)
    if (name.size() > suffix.size() && name.ends_with(suffix)) return suffix;
  return std::nullopt;
}

Nanoseconds modified_ns(const struct stat& status) {
  return static_cast<Nanoseconds>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::string_view kind_name(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

/// Closes a file descriptor on the way out.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

/// FNV-1a over 8 blocks of 4 KiB spread evenly from the first to the last byte: events of two ranks differ nearly
/// everywhere, while the ends of the file (schema, metadata) may be alike. Returns an errno value on failure.
int sample(int descriptor, std::int64_t bytes, std::uint64_t& hash) {
  constexpr std::int64_t blocks = 8, block_bytes = 4096;
  hash = 0;
  if (bytes == 0) return 0;
  hash = fnv_start;
  std::array<char, block_bytes> buffer{};
  const std::int64_t last = std::max<std::int64_t>(0, bytes - block_bytes);
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t offset = last / (blocks - 1) * block + last % (blocks - 1) * block / (blocks - 1);
    const ssize_t count = ::pread(descriptor, buffer.data(), buffer.size(), offset);
    if (count < 0) return errno;
    hash = fnv1a({buffer.data(), static_cast<std::size_t>(count)}, hash);
  }
  return 0;
}

/// What a file is like at this moment. Returns an errno value on failure.
int look_at(const std::string& path, FoundTrace& trace) {
  // Not blocking: the name may have become a pipe since it was looked at.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.number() < 0 || ::fstat(file.number(), &status) != 0) return errno;
  trace = {path, status.st_size, modified_ns(status), status.st_dev, status.st_ino, 0};
  return sample(file.number(), status.st_size, trace.sample_hash);
}

class Discoverer {
 public:
  explicit Discoverer(bool take_reports) : take_reports_(take_reports) {}

  void add_argument(const std::string& argument) {
    struct stat status {};
    const bool literal = !argument.empty() && ::lstat(argument.c_str(), &status) == 0;
    if (literal || !has_placeholder(argument)) {
      add_plain(argument);
      return;
    }
    const ExpandedName expanded = expand_placeholders(argument);
    if (expanded.unset_variable) {
      absent(
          argument,
          fmt::format(
              "the environment variable {} is not set here: its traces would be missing; set it, or name the files without it",
              *expanded.unset_variable));
    } else {
      add_plain(expanded.name);
    }
  }

  Discovery result() && {
    note_duplicates();
    note_stale_exports();
    note_side_files();
    Discovery result;
    for (auto& [path, trace] : first_names()) result.traces.push_back(std::move(trace));
    result.failed = reports(failed_);
    result.absent = reports(absent_);
    result.warnings = std::move(warnings_);
    return result;
  }

 private:
  /// An argument that means nothing here may mean something on another host; what a listing showed is here.
  enum class Origin { argument, listing };

  static std::string unreachable(int error_number) {
    return fmt::format(
        "cannot be reached ({}): its ranks would be missing; check the name and the permissions of the directories above it",
        reason(error_number));
  }

  void fail(const std::string& path, const std::string& message) { failed_.emplace(path, message); }
  void absent(const std::string& path, const std::string& message) { absent_.emplace(path, message); }

  /// A file, directory or pattern.
  void add_plain(const std::string& argument) {
    struct stat status {};
    if (argument.empty()) {
      fail(argument, "the name is empty: nothing can be read under it; check for an unset variable in the command");
    } else if (::lstat(argument.c_str(), &status) == 0) {
      add_name(argument, Origin::argument);
    } else if (is_pattern(argument)) {
      add_pattern(argument);
    } else if (errno == ENOENT || errno == ENOTDIR) {
      absent(
          argument,
          "no such file or directory: its ranks would be missing; check the name, and whether it lies on a disk that the host of a tool rank can see");
    } else {
      fail(argument, unreachable(errno));
    }
  }

  void add_pattern(const std::string& pattern) {
    const Expansion expansion = expand_pattern(pattern);
    for (const auto& directory : expansion.unreadable)
      fail(directory, "the directory cannot be listed: traces in it would be missing; check its permissions");
    bool any = false;
    for (const auto& name : expansion.matches) any = add_name(name, Origin::listing) || any;
    if (expansion.matches.empty()) {
      absent(
          pattern,
          "the pattern matches nothing: its traces would be missing; check it, and whether the files lie on a disk that the host of a tool rank can see");
    } else if (!any) {
      absent(
          pattern,
          "the pattern matches only directories without *.sqlite files: nothing to read; extend it to the files, or use ** for any number of directories");
    }
  }

  /// False if the name is a directory of a listing in which nothing can be a trace.
  bool add_name(const std::string& name, Origin origin) {
    struct stat status {};
    if (::stat(name.c_str(), &status) != 0) {
      const bool dangling = errno == ENOENT || errno == ENOTDIR;
      if (dangling && origin == Origin::argument) {
        absent(name, dangling_message());
      } else {
        fail(name, dangling ? dangling_message() : unreachable(errno));
      }
    } else if (S_ISDIR(status.st_mode)) {
      return add_directory(name, origin);
    } else if (!S_ISREG(status.st_mode)) {
      fail(
          name,
          fmt::format(
              "is {}, not a file: a trace is read at random places, which this cannot do; name the exported .sqlite file",
              kind_name(status.st_mode)));
    } else if (suffix_of(name, side_file_suffixes)) {
      side_files_.insert(name);
    } else if (const auto suffix = suffix_of(name, report_suffixes)) {
      add_report(name, name.substr(0, name.size() - suffix->size()) + std::string(export_suffix), status);
    } else {
      add_file(name);
    }
    return true;
  }

  static std::string dangling_message() {
    return "is a symbolic link to nothing: its ranks would be missing; restore the file it points to, or the link";
  }

  /// A report stands for the export beside it.
  void add_report(const std::string& report, const std::string& exported, const struct stat& report_status) {
    struct stat status {};
    if (::stat(exported.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
      if (take_reports_) {
        add_file(report);
        return;
      }
      fail(report, "is a report, not an export: only exports can be read, so its ranks would be missing; " +
                       export_advice(report));
      return;
    }
    if (modified_ns(report_status) - modified_ns(status) > stale_after_ns) stale_.emplace(report, exported);
    implied_.insert(exported);
    add_file(exported);
  }

  bool add_directory(const std::string& directory, Origin origin) {
    std::error_code error;
    std::vector<std::string> names, in_json;
    for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      const bool wanted = name.ends_with(export_suffix) || suffix_of(name, report_suffixes);
      // Hidden files are leftovers of tools (rsync's partial files, macOS' ._ files), as a shell's * assumes too.
      std::error_code unknown;
      if (!(wanted || is_kineto_name(name)) || name.starts_with('.') || it->is_directory(unknown)) continue;
      (wanted ? names : in_json).push_back(name);
    }
    if (names.empty()) names = std::move(in_json);  // beside exports JSON is something else, or the same run once more
    if (error) {
      fail(directory,
           fmt::format("the directory cannot be listed ({}): traces in it would be missing; check its permissions",
                       error.message()));
    } else if (names.empty() && origin == Origin::argument) {
      absent(
          directory,
          "the directory holds no *.sqlite file and no trace in JSON: nothing to read; name the directory of the exports (subdirectories are searched only by a quoted pattern such as 'DIRECTORY/**')");
    }
    const std::string base = directory.ends_with('/') ? directory : directory + '/';
    for (const auto& name : names) add_name(base + name, Origin::listing);
    return error || !names.empty();
  }

  void add_file(const std::string& path) {
    named_.push_back(path);
    if (found_.contains(path) || failed_.contains(path)) return;
    FoundTrace trace;
    if (const int error = look_at(path, trace); error != 0) {
      fail(path, fmt::format("cannot be read ({}): its ranks would be missing; check its permissions and its disk",
                             reason(error)));
      return;
    }
    found_.emplace(path, std::move(trace));
  }

  /// found_ without further names of a file that an earlier name has.
  std::map<std::string, FoundTrace> first_names() const {
    std::map<std::string, FoundTrace> result;
    std::set<std::pair<std::uint64_t, std::uint64_t>> files;
    for (const auto& [path, trace] : found_)
      if (files.emplace(trace.device, trace.inode).second) result.emplace(path, trace);
    return result;
  }

  void note_duplicates() {
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::string> first_name;
    std::map<std::string, std::string> repeats;  // name -> name under which the file is read
    for (const auto& [path, trace] : found_) {
      const auto [known, is_new] = first_name.try_emplace({trace.device, trace.inode}, path);
      if (!is_new) repeats.emplace(path, known->second);
    }
    std::vector<std::string> names = named_;
    std::sort(names.begin(), names.end());
    for (std::size_t i = 1; i < names.size(); ++i) {
      if (names[i] == names[i - 1] && found_.contains(names[i]) && !implied_.contains(names[i]))
        repeats.emplace(names[i], names[i]);
    }
    if (repeats.empty()) return;
    const auto& [name, read_as] = *repeats.begin();
    const std::string what = name == read_as
                                 ? fmt::format("{} is named more than once", shell_quoted(name))
                                 : fmt::format("{} is the same file as {}", shell_quoted(name), shell_quoted(read_as));
    warn(static_cast<std::int64_t>(repeats.size()),
         fmt::format("{}{}: its ranks would count twice, so each file is read once; nothing to do", what,
                     and_more(repeats.size())));
  }

  void note_stale_exports() {
    if (stale_.empty()) return;
    const auto& [report, exported] = *stale_.begin();
    warn(static_cast<std::int64_t>(stale_.size()),
         fmt::format("{} is newer than its export {}{}: the export may show an earlier run; {}", shell_quoted(report),
                     shell_quoted(exported), and_more(stale_.size()), export_advice(exported)));
  }

  void note_side_files() {
    if (side_files_.empty()) return;
    warn(
        static_cast<std::int64_t>(side_files_.size()),
        fmt::format(
            "{}{} is a side file of SQLite: it is a part of the database beside it and was left out as an input; name only the .sqlite files",
            shell_quoted(*side_files_.begin()), and_more(side_files_.size())));
  }

  static std::string and_more(std::size_t count) {
    return count > 1 ? fmt::format(" (and {} more like this)", count - 1) : "";
  }

  void warn(std::int64_t count, std::string message) {
    warnings_.push_back({Severity::info, WarningSource::analysis, count, std::move(message)});
  }

  static std::vector<InputReport> reports(const std::map<std::string, std::string>& messages) {
    std::vector<InputReport> result;
    result.reserve(messages.size());
    for (const auto& [path, message] : messages) result.push_back({path, InputStatus::failed, message});
    return result;
  }

  bool take_reports_;
  std::map<std::string, FoundTrace> found_;
  std::map<std::string, std::string> failed_, absent_;  // path -> message
  std::vector<std::string> named_;                      // every time a file was reached
  std::set<std::string> implied_;                       // exports reached through their report
  std::map<std::string, std::string> stale_;            // report -> older export
  std::set<std::string> side_files_;
  std::vector<Warning> warnings_;
};

}  // namespace

Discovery discover(const std::vector<std::string>& arguments, bool take_reports) {
  Discoverer discoverer(take_reports);
  // Sorted, so that messages do not depend on the order of the arguments.
  std::vector<std::string> sorted = arguments;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& argument : sorted) discoverer.add_argument(argument);
  return std::move(discoverer).result();
}

bool is_as_found(const AssignedTrace& trace) {
  FoundTrace now;
  return look_at(trace.path, now) == 0 && now.bytes == trace.bytes && now.modified_ns == trace.modified_ns &&
         now.sample_hash == trace.sample_hash;
}

}  // namespace nsys_explain::ingest
