#include "analysis/trace/divergence.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds telling_difference_ns = 20'000;
constexpr double telling_ratio = 1.1;

/// Pairs (index in one list, index in the other), ascending in both; no_pair where one side has no counterpart.
constexpr std::size_t no_pair = static_cast<std::size_t>(-1);
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

int similarity(const WorkEvent& a, const WorkEvent& b) {
  if (a.kind != b.kind || a.name != b.name) return 0;
  return a.shape == b.shape ? 3 : 2;  // a gap costs nothing, so any pair beats none
}

/// The events of both lists as small numbers, so that alignment compares integers.
struct Symbols {
  std::vector<std::uint32_t> names, shapes;
};

Symbols symbols_of(std::span<const WorkEvent> events, std::map<std::string, std::uint32_t>& numbers) {
  Symbols symbols;
  for (const WorkEvent& event : events) {
    const std::string name = fmt::format("{} {}", work_event_kind_name(event.kind), event.name);
    const auto number = [&](const std::string& text) {
      return numbers.try_emplace(text, static_cast<std::uint32_t>(numbers.size())).first->second;
    };
    symbols.names.push_back(number(name));
    symbols.shapes.push_back(number(name + '\n' + event.shape));
  }
  return symbols;
}

/// Best global alignment of what is left between equal beginnings and ends.
void align_middle(std::span<const WorkEvent> a, std::span<const WorkEvent> b, std::size_t first, std::size_t a_end,
                  std::size_t b_end, Pairs& pairs) {
  std::map<std::string, std::uint32_t> numbers;
  const std::size_t rows = a_end - first, columns = b_end - first;
  const Symbols left = symbols_of(a.subspan(first, rows), numbers);
  const Symbols right = symbols_of(b.subspan(first, columns), numbers);
  const auto score = [&](std::size_t i, std::size_t j) {
    return left.names[i] != right.names[j] ? 0 : left.shapes[i] == right.shapes[j] ? 3 : 2;
  };
  // best[i][j]: of the tails that begin at i and j.
  std::vector<std::uint16_t> best((rows + 1) * (columns + 1), 0);
  const auto at = [&](std::size_t i, std::size_t j) -> std::uint16_t& { return best[i * (columns + 1) + j]; };
  for (std::size_t i = rows; i-- > 0;) {
    for (std::size_t j = columns; j-- > 0;) {
      const int pair = score(i, j);
      const int with = pair > 0 ? at(i + 1, j + 1) + pair : 0;
      at(i, j) = static_cast<std::uint16_t>(std::max({with, int{at(i + 1, j)}, int{at(i, j + 1)}}));
    }
  }
  std::size_t i = 0, j = 0;
  while (i < rows || j < columns) {
    if (i < rows && j < columns && score(i, j) > 0 && at(i, j) == at(i + 1, j + 1) + score(i, j)) {
      pairs.emplace_back(first + i++, first + j++);
    } else if (j == columns || (i < rows && at(i, j) == at(i + 1, j))) {
      pairs.emplace_back(first + i++, no_pair);
    } else {
      pairs.emplace_back(no_pair, first + j++);
    }
  }
}

Pairs align(std::span<const WorkEvent> a, std::span<const WorkEvent> b) {
  constexpr int same = 3;
  Pairs pairs;
  std::size_t first = 0, a_end = a.size(), b_end = b.size();
  while (first < a_end && first < b_end && similarity(a[first], b[first]) == same) {
    pairs.emplace_back(first, first);
    ++first;
  }
  while (a_end > first && b_end > first && similarity(a[a_end - 1], b[b_end - 1]) == same) {
    --a_end;
    --b_end;
  }
  align_middle(a, b, first, a_end, b_end, pairs);
  for (; a_end < a.size(); ++a_end, ++b_end) pairs.emplace_back(a_end, b_end);
  return pairs;
}

double ms(Nanoseconds time_ns) {
  return static_cast<double>(time_ns) * 1e-6;
}

/// Kernel names with their templates fill lines: the function is enough where the table has the rest.
std::string short_form(const std::string& name) {
  std::string_view text = nsys_explain::function_name(name);  // not that of a sample
  if (const std::size_t colons = text.rfind("::"); colons != std::string_view::npos) text.remove_prefix(colons + 2);
  return text.empty() ? name : std::string(text);
}

std::string in_words(const WorkEvent* straggler, const WorkEvent* peer) {
  const WorkEvent& event = straggler != nullptr ? *straggler : *peer;
  const std::string what = fmt::format("{} {}", work_event_kind_name(event.kind),
                                       event.kind == WorkEventKind::kernel ? short_form(event.name) : event.name);
  if (peer == nullptr)
    return fmt::format("{}, {:.3f} ms, which the peer does not run there", what, ms(event.duration_ns));
  if (straggler == nullptr) return fmt::format("{}, {:.3f} ms, which only the peer runs", what, ms(event.duration_ns));
  if (straggler->shape != peer->shape)
    return fmt::format("{}: {} here, {} on the peer", what, straggler->shape, peer->shape);
  return fmt::format("{}: {:.3f} ms here, {:.3f} ms on the peer", what, ms(straggler->duration_ns),
                     ms(peer->duration_ns));
}

bool differs(const WorkEvent& straggler, const WorkEvent& peer) {
  if (straggler.shape != peer.shape) return true;
  return straggler.duration_ns - peer.duration_ns > telling_difference_ns &&
         static_cast<double>(straggler.duration_ns) > telling_ratio * static_cast<double>(peer.duration_ns);
}

void rank_differences(std::vector<WorkDifference>& differences) {
  std::sort(differences.begin(), differences.end(), [](const WorkDifference& a, const WorkDifference& b) {
    const Nanoseconds size_a = std::abs(a.difference_ns()), size_b = std::abs(b.difference_ns());
    return size_a != size_b ? size_a > size_b
                            : std::tie(a.kind, a.name, a.shape, a.range) < std::tie(b.kind, b.name, b.shape, b.range);
  });
}

using DifferenceKey = std::tuple<WorkEventKind, std::string, std::string, std::string>;

std::vector<WorkDifference> sum_by_name(std::span<const WorkEvent> straggler, std::span<const WorkEvent> peer) {
  std::map<DifferenceKey, WorkDifference> sums;
  const auto entry = [&](const WorkEvent& event) -> WorkDifference& {
    WorkDifference& sum = sums[{event.kind, event.name, event.shape, event.range}];
    std::tie(sum.kind, sum.name, sum.shape, sum.range) = std::tie(event.kind, event.name, event.shape, event.range);
    return sum;
  };
  for (const WorkEvent& event : straggler) {
    WorkDifference& sum = entry(event);
    ++sum.straggler_count;
    sum.straggler_ns += event.duration_ns;
  }
  for (const WorkEvent& event : peer) {
    WorkDifference& sum = entry(event);
    ++sum.peer_count;
    sum.peer_ns += event.duration_ns;
  }
  std::vector<WorkDifference> differences;
  for (auto& [key, sum] : sums) differences.push_back(std::move(sum));
  return differences;
}

/// Those that happened in the order of the program.
std::vector<WorkEvent> in_order(std::span<const WorkEvent> events) {
  std::vector<WorkEvent> ordered;
  std::copy_if(events.begin(), events.end(), std::back_inserter(ordered),
               [](const WorkEvent& event) { return event.kind != WorkEventKind::function; });
  return ordered;
}

}  // namespace

Divergence diverge(std::span<const WorkEvent> straggler, std::span<const WorkEvent> peer) {
  Divergence result;
  const std::vector<WorkEvent> straggler_order = in_order(straggler), peer_order = in_order(peer);
  for (const auto& [s, p] : align(straggler_order, peer_order)) {
    const WorkEvent* left = s == no_pair ? nullptr : &straggler_order[s];
    const WorkEvent* right = p == no_pair ? nullptr : &peer_order[p];
    if (left == nullptr && right == nullptr) continue;
    if (!result.first.empty()) break;
    if (left == nullptr || right == nullptr) {
      // A short event on one side only is a detail, unless it is a kernel or a copy.
      const WorkEvent& lone = left != nullptr ? *left : *right;
      if (lone.kind <= WorkEventKind::copy || lone.duration_ns > telling_difference_ns)
        result.first = in_words(left, right);
    } else if (differs(*left, *right)) {
      result.first = in_words(left, right);
    }
  }
  result.differences = sum_by_name(straggler, peer);
  rank_differences(result.differences);
  return result;
}

void merge(Divergence& sum, const Divergence& other) {
  std::map<DifferenceKey, WorkDifference> all;
  for (const auto* part : {&std::as_const(sum.differences), &other.differences}) {
    for (const WorkDifference& difference : *part) {
      WorkDifference& entry = all[{difference.kind, difference.name, difference.shape, difference.range}];
      std::tie(entry.kind, entry.name, entry.shape, entry.range) =
          std::tie(difference.kind, difference.name, difference.shape, difference.range);
      entry.straggler_count += difference.straggler_count;
      entry.peer_count += difference.peer_count;
      entry.straggler_ns += difference.straggler_ns;
      entry.peer_ns += difference.peer_ns;
    }
  }
  sum.differences.clear();
  for (auto& [key, difference] : all) sum.differences.push_back(std::move(difference));
  rank_differences(sum.differences);
  sum.cases += other.cases;
  if (sum.first.empty()) sum.first = other.first;
}

}  // namespace nsys_explain::analysis
