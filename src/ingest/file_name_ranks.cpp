#include "ingest/file_name_ranks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

namespace nsys_explain::ingest {
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
    for (const std::string_view scope : {"local", "node", "group"}) {
      if (std::string_view scoped = rest; take_word(scoped, scope)) return NumberKind::other;
    }
    return NumberKind::rank;
  }
  if (std::string_view rest = before; take_word(rest, "mpi")) return NumberKind::mpi;
  for (const std::string_view word : other_words) {
    if (std::string_view rest = before; take_word(rest, word)) return NumberKind::other;
  }
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
