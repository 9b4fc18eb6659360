#include "ingest/glob.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace nsys_explain::ingest {
namespace {

namespace fs = std::filesystem;

bool exists_even_dangling(const std::string& name) {
  std::error_code error;
  return fs::symlink_status(name, error).type() != fs::file_type::not_found && !error;
}

class Walk {
 public:
  explicit Walk(std::vector<std::string> components) : components_(std::move(components)) {}

  /// Adds what matches components from `index` on below `base`, which is empty or ends in '/'.
  void descend(const std::string& base, std::size_t index) {
    const std::string& component = components_[index];
    if (component == "**") {
      descend(base, index + 1);
      for (const auto& entry : list(base)) {
        if (entry.is_real_directory && !entry.name.starts_with('.')) descend(base + entry.name + '/', index);
      }
    } else if (exists_even_dangling(base + component)) {
      take(base + component, index);
    } else if (is_pattern(component)) {
      for (const auto& entry : list(base)) {
        if (::fnmatch(component.c_str(), entry.name.c_str(), FNM_PERIOD) == 0) take(base + entry.name, index);
      }
    }
  }

  Expansion result() && {
    for (auto* names : {&found_.matches, &found_.unreadable}) {
      std::sort(names->begin(), names->end());
      names->erase(std::unique(names->begin(), names->end()), names->end());
    }
    return std::move(found_);
  }

 private:
  struct Entry {
    std::string name;
    bool is_real_directory = false;
  };

  void take(const std::string& name, std::size_t index) {
    if (index + 1 == components_.size()) {
      found_.matches.push_back(name);
      return;
    }
    std::error_code error;
    if (fs::is_directory(name, error)) descend(name + '/', index + 1);
  }

  std::vector<Entry> list(const std::string& base) {
    std::vector<Entry> entries;
    std::error_code error;
    for (fs::directory_iterator it(base.empty() ? "." : base, error), end; !error && it != end; it.increment(error)) {
      std::error_code unknown;
      const bool is_real_directory = it->symlink_status(unknown).type() == fs::file_type::directory;
      entries.push_back({it->path().filename().string(), is_real_directory});
    }
    const bool gone = error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
    if (error && !gone) {
      const bool is_root = base == "/";
      found_.unreadable.push_back(base.empty() ? "." : base.substr(0, base.size() - (is_root ? 0 : 1)));
    }
    return entries;
  }

  std::vector<std::string> components_;
  Expansion found_;
};

/// "a//b*/c" -> {"a", "b*", "c"}, without the leading '/'. Runs of `**` mean the same as one.
std::vector<std::string> split_pattern(const std::string& pattern) {
  std::vector<std::string> components;
  std::size_t begin = 0;
  while (begin < pattern.size()) {
    const std::size_t end = std::min(pattern.find('/', begin), pattern.size());
    const std::string component = pattern.substr(begin, end - begin);
    const bool repeated = component == "**" && !components.empty() && components.back() == "**";
    if (!component.empty() && !repeated) components.push_back(component);
    begin = end + 1;
  }
  if (!components.empty() && components.back() == "**") components.emplace_back("*.sqlite");
  return components;
}

}  // namespace

bool is_pattern(const std::string& text) {
  return text.find_first_of("*?[") != std::string::npos;
}

bool matches_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

Expansion expand_pattern(const std::string& pattern) {
  std::vector<std::string> components = split_pattern(pattern);
  if (components.empty()) return {};
  Walk walk(std::move(components));
  walk.descend(pattern.starts_with('/') ? "/" : "", 0);
  return std::move(walk).result();
}

}  // namespace nsys_explain::ingest
