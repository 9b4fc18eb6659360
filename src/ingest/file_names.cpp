#include "ingest/file_names.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <system_error>

#include <fnmatch.h>
#include <unistd.h>

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
      for (const auto& entry : list(base))
        if (entry.is_real_directory && !entry.name.starts_with('.')) descend(base + entry.name + '/', index);
    } else if (exists_even_dangling(base + component)) {
      take(base + component, index);
    } else if (is_pattern(component)) {
      for (const auto& entry : list(base))
        if (::fnmatch(component.c_str(), entry.name.c_str(), FNM_PERIOD) == 0) take(base + entry.name, index);
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

namespace {

std::string host_label() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0) return {};
  const std::string host = name;
  return host.substr(0, host.find('.'));
}

/// VAR of a %q{VAR} that starts at the beginning of `text`; empty where it is none.
std::string_view variable_name(std::string_view text) {
  if (!text.starts_with("%q{")) return {};
  const std::size_t end = text.find('}');
  return end == std::string_view::npos ? std::string_view{} : text.substr(3, end - 3);
}

}  // namespace

bool has_placeholder(std::string_view name) {
  for (std::size_t at = name.find('%'); at != std::string_view::npos; at = name.find('%', at + 1)) {
    const char kind = at + 1 < name.size() ? name[at + 1] : '\0';
    if (kind == 'h' || kind == 'p' || kind == 'n' || kind == '%' || !variable_name(name.substr(at)).empty())
      return true;
  }
  return false;
}

ExpandedName expand_placeholders(std::string_view name) {
  ExpandedName expanded;
  for (std::size_t at = 0; at < name.size(); ++at) {
    const char kind = name[at] == '%' && at + 1 < name.size() ? name[at + 1] : '\0';
    const std::string_view variable = variable_name(name.substr(at));
    if (!variable.empty()) {
      const char* value = std::getenv(std::string(variable).c_str());
      if (value == nullptr && !expanded.unset_variable) expanded.unset_variable = std::string(variable);
      if (value != nullptr) expanded.name += value;
      at += variable.size() + 3;
    } else if (kind == 'h') {
      expanded.name += host_label();
      ++at;
    } else if (kind == 'p' || kind == 'n') {
      expanded.name += '*';
      ++at;
    } else if (kind == '%') {
      expanded.name += '%';
      ++at;
    } else {
      expanded.name += name[at];
    }
  }
  return expanded;
}

namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}
char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}
bool is_separator(char letter) {
  return letter == '_' || letter == '.' || letter == '-' || letter == '=';
}

/// Largest plain number that may be a rank.
constexpr std::int32_t largest_plain_rank = 9999;

/// A plain number after one of these is no rank.
constexpr std::array<std::string_view, 12> other_words = {"node", "host", "nid", "gpu",  "device", "dev",
                                                          "job",  "pid",  "run", "step", "iter",   "local"};

enum class NumberKind { rank, mpi, plain, file_counter, other };

struct Number {
  std::int32_t value = -1;  ///< -1: too large
  NumberKind kind = NumberKind::plain;
};

/// True if `text` ends in `word`, with one separator between allowed; what comes before is left in `text`.
bool take_word(std::string_view& text, std::string_view word) {
  std::string_view rest = text;
  if (!rest.empty() && is_separator(rest.back())) rest.remove_suffix(1);
  if (!rest.ends_with(word)) return false;
  text = rest.substr(0, rest.size() - word.size());
  return true;
}

/// What the text before a number says it is. `before` is in lower case.
NumberKind classify(std::string_view before) {
  if (std::string_view rest = before; take_word(rest, "rank")) {
    // node_rank, local_rank and GROUP_RANK number something smaller than the job.
    for (const std::string_view scope : {"local", "node", "group"})
      if (std::string_view scoped = rest; take_word(scoped, scope)) return NumberKind::other;
    return NumberKind::rank;
  }
  if (std::string_view rest = before; take_word(rest, "mpi")) return NumberKind::mpi;
  for (const std::string_view word : other_words)
    if (std::string_view rest = before; take_word(rest, word)) return NumberKind::other;
  return before == "report" ? NumberKind::file_counter : NumberKind::plain;
}

/// The numbers of one path component, last first.
std::vector<Number> numbers_in(std::string_view component) {
  std::string lowered(component);
  std::transform(lowered.begin(), lowered.end(), lowered.begin(), lower);
  std::vector<Number> numbers;
  for (std::size_t at = 0; at < lowered.size();) {
    if (!is_digit(lowered[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < lowered.size() && is_digit(lowered[end])) ++end;
    Number number;
    number.kind = classify(std::string_view(lowered).substr(0, at));
    if (std::from_chars(lowered.data() + at, lowered.data() + end, number.value).ec != std::errc{}) number.value = -1;
    numbers.push_back(number);
    at = end;
  }
  std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

/// Numbers by depth: [0] those of the file name without its extension, [1] those of its directory, ...
std::vector<std::vector<Number>> numbers_by_depth(std::string_view path) {
  if (path.ends_with(".sqlite")) path.remove_suffix(std::string_view(".sqlite").size());
  std::vector<std::vector<Number>> result;
  while (true) {
    const std::size_t slash = path.find_last_of('/');
    result.push_back(numbers_in(slash == std::string_view::npos ? path : path.substr(slash + 1)));
    if (slash == std::string_view::npos) return result;
    path = path.substr(0, slash);
  }
}

using PathNumbers = std::vector<std::vector<Number>>;
using Ranks = std::optional<std::vector<std::int32_t>>;

bool all_differ(const std::vector<std::int32_t>& values) {
  return std::set<std::int32_t>(values.begin(), values.end()).size() == values.size();
}

/// The last number of this kind in every path.
Ranks last_of_kind(const std::vector<PathNumbers>& files, NumberKind kind) {
  std::vector<std::int32_t> ranks;
  for (const auto& file : files) {
    std::int32_t found = -1;
    for (auto depth = file.begin(); depth != file.end() && found < 0; ++depth) {
      const auto number = std::find_if(depth->begin(), depth->end(), [&](const Number& n) { return n.kind == kind; });
      if (number != depth->end()) found = number->value;
    }
    if (found < 0) return std::nullopt;
    ranks.push_back(found);
  }
  if (!all_differ(ranks)) return std::nullopt;
  return ranks;
}

/// The values of the plain numbers that are `position`-th from the end at `depth`, if they can be ranks.
Ranks plain_column(const std::vector<PathNumbers>& files, std::size_t depth, std::size_t position) {
  std::vector<std::int32_t> ranks;
  bool counter = false;
  for (const auto& file : files) {
    const Number& number = file[depth][position];
    const bool plain = number.kind == NumberKind::plain || number.kind == NumberKind::file_counter;
    if (!plain || number.value < 0 || number.value > largest_plain_rank) return std::nullopt;
    counter = counter || number.kind == NumberKind::file_counter;
    ranks.push_back(number.value);
  }
  const bool has_zero = std::find(ranks.begin(), ranks.end(), 0) != ranks.end();
  if (!all_differ(ranks) || (counter && !has_zero)) return std::nullopt;
  return ranks;
}

bool has_keyword(const PathNumbers& file) {
  return std::any_of(file.begin(), file.end(), [](const std::vector<Number>& numbers) {
    return std::any_of(numbers.begin(), numbers.end(),
                       [](const Number& n) { return n.kind == NumberKind::rank || n.kind == NumberKind::mpi; });
  });
}

Ranks plain_numbers(const std::vector<PathNumbers>& files) {
  // Ranks that repeat are numbered per node or job: what else is in such names tells those apart.
  if (std::any_of(files.begin(), files.end(), has_keyword)) return std::nullopt;
  std::size_t depths = files.front().size();
  for (const auto& file : files) depths = std::min(depths, file.size());
  for (std::size_t depth = 0; depth < depths; ++depth) {
    std::size_t positions = files.front()[depth].size();
    for (const auto& file : files) positions = std::min(positions, file[depth].size());
    Ranks best;
    for (std::size_t position = 0; position < positions; ++position) {
      const Ranks ranks = plain_column(files, depth, position);
      if (!ranks) continue;
      const bool better =
          !best || *std::max_element(ranks->begin(), ranks->end()) < *std::max_element(best->begin(), best->end());
      if (better) best = ranks;
    }
    if (best) return best;
  }
  return std::nullopt;
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (is_digit(a[i]) && is_digit(b[j])) {
      const auto run = [](std::string_view text, std::size_t& at) {
        while (at < text.size() && text[at] == '0') ++at;
        const std::size_t begin = at;
        while (at < text.size() && is_digit(text[at])) ++at;
        return text.substr(begin, at - begin);
      };
      const std::string_view left = run(a, i), right = run(b, j);
      if (left.size() != right.size()) return left.size() < right.size();
      if (left != right) return left < right;
    } else if (a[i] != b[j]) {
      return static_cast<unsigned char>(a[i]) < static_cast<unsigned char>(b[j]);
    } else {
      ++i;
      ++j;
    }
  }
  const std::size_t a_left = a.size() - i, b_left = b.size() - j;
  if ((a_left == 0) != (b_left == 0)) return a_left == 0;
  return a < b;  // equal but for leading zeros
}

std::optional<std::vector<std::int32_t>> file_name_ranks(const std::vector<std::string>& paths) {
  if (paths.empty()) return std::nullopt;
  std::vector<PathNumbers> files;
  files.reserve(paths.size());
  for (const auto& path : paths) files.push_back(numbers_by_depth(path));
  if (auto ranks = last_of_kind(files, NumberKind::rank)) return ranks;
  if (auto ranks = last_of_kind(files, NumberKind::mpi)) return ranks;
  return files.size() < 2 ? std::nullopt : plain_numbers(files);
}

}  // namespace nsys_explain::ingest
