#include "analysis/window/steps.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {

namespace {

constexpr std::size_t fewest_marks = 3, enough_marks = 4;
constexpr double tolerance = 0.1, enough_share = 0.8;

/// Positions of each kind, ascending.
class PositionsByKind {
 public:
  explicit PositionsByKind(std::span<const OrderedKernel> kernels) {
    std::uint32_t kinds = 0;
    for (const OrderedKernel& kernel : kernels) kinds = std::max(kinds, kernel.kind + 1);
    first_.assign(kinds + std::size_t{1}, 0);
    for (const OrderedKernel& kernel : kernels) ++first_[kernel.kind + std::size_t{1}];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    positions_.resize(kernels.size());
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (std::size_t i = 0; i < kernels.size(); ++i)
      positions_[next[kernels[i].kind]++] = static_cast<std::uint32_t>(i);
  }
  std::size_t kinds() const { return first_.size() - 1; }
  std::span<const std::uint32_t> of(std::size_t kind) const {
    return std::span(positions_).subspan(first_[kind], first_[kind + 1] - first_[kind]);
  }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> positions_;
};

/// How many stretches of the usual length a gap is; 0 where it is no multiple of it.
std::size_t stretches_in(std::size_t gap, std::size_t usual) {
  const std::size_t count = (gap + usual / 2) / usual;
  const auto off = std::abs(static_cast<double>(gap) - static_cast<double>(count * usual));
  return off <= tolerance * static_cast<double>(count * usual) ? count : 0;
}

/// A kind of kernel that comes evenly all along, or does so in bursts: the first of each.
struct EvenKind {
  std::uint32_t kind = 0;
  std::size_t distance = 0;  ///< usual, from one to the next
  std::vector<std::uint32_t> positions;
};

/// The gap in which a kernel of the sequence lies, by the median over kernels.
std::size_t gap_of_most(std::vector<std::size_t> gaps) {
  std::sort(gaps.begin(), gaps.end());
  std::size_t left = std::accumulate(gaps.begin(), gaps.end(), std::size_t{0}) / 2;
  for (const std::size_t gap : gaps) {
    if (gap >= left) return gap;
    left -= gap;
  }
  return 0;
}

std::vector<std::size_t> gaps_between(std::span<const std::uint32_t> positions) {
  std::vector<std::size_t> gaps;
  for (std::size_t i = 1; i < positions.size(); ++i) gaps.push_back(positions[i] - positions[i - 1]);
  return gaps;
}

/// Those that come after a gap like that of most; the others come in bursts with them.
std::vector<std::uint32_t> first_of_bursts(std::span<const std::uint32_t> positions) {
  const std::size_t usual = gap_of_most(gaps_between(positions));
  std::vector<std::uint32_t> first;
  for (std::size_t i = 0; i < positions.size(); ++i)
    if (i == 0 || 2 * std::size_t{positions[i] - positions[i - 1]} >= usual) first.push_back(positions[i]);
  return first;
}

/// Of distance 0 where it does not come evenly.
EvenKind find_evenness(std::uint32_t kind, std::span<const std::uint32_t> positions, std::size_t length) {
  EvenKind even{kind, 0, first_of_bursts(positions)};
  if (even.positions.size() < fewest_marks) return even;
  const std::vector<std::size_t> gaps = gaps_between(even.positions);
  const std::size_t usual = lower_median(std::vector(gaps)), covered = even.positions.back() - even.positions.front();
  if (2 * (covered + usual) < length) return even;
  std::size_t in_order = 0;
  for (const std::size_t gap : gaps) in_order += stretches_in(gap, usual) > 0 ? gap : 0;
  if (static_cast<double>(in_order) >= enough_share * static_cast<double>(covered)) even.distance = usual;
  return even;
}

/// How often each kind occurs in a stretch.
class Content {
 public:
  explicit Content(std::size_t kinds) : counts_(kinds, 0) {}
  void count(std::span<const OrderedKernel> stretch) {
    for (const OrderedKernel& kernel : stretch) ++counts_[kernel.kind];
  }
  std::size_t kinds() const {
    return static_cast<std::size_t>(
        std::count_if(counts_.begin(), counts_.end(), [](std::int64_t count) { return count > 0; }));
  }
  /// How many kernels of a stretch are too many or too few, were it so many of these.
  std::int64_t difference(std::span<const OrderedKernel> stretch, std::int64_t times) {
    std::int64_t excess = 0;
    for (const OrderedKernel& kernel : stretch) ++seen(kernel.kind);
    for (const std::uint32_t kind : touched_) excess += std::max<std::int64_t>(0, seen_[kind] - times * counts_[kind]);
    for (const std::uint32_t kind : touched_) seen_[kind] = 0;
    touched_.clear();
    const std::int64_t all = std::accumulate(counts_.begin(), counts_.end(), std::int64_t{0});
    const std::int64_t lacking = times * all - (std::ssize(stretch) - excess);
    return excess + lacking;
  }

 private:
  std::int64_t& seen(std::uint32_t kind) {
    seen_.resize(counts_.size(), 0);
    if (seen_[kind] == 0) touched_.push_back(kind);
    return seen_[kind];
  }
  std::vector<std::int64_t> counts_, seen_;
  std::vector<std::uint32_t> touched_;
};

/// True where the stretches between these marks hold the same.
bool hold_the_same(std::span<const OrderedKernel> kernels, std::span<const std::uint32_t> marks, std::size_t usual,
                   std::size_t kinds) {
  std::vector<std::size_t> single;  // stretches
  for (std::size_t i = 0; i + 1 < marks.size(); ++i)
    if (stretches_in(marks[i + 1] - marks[i], usual) == 1) single.push_back(i);
  if (single.empty()) return false;
  const auto stretch = [&](std::size_t i) { return kernels.subspan(marks[i], marks[i + 1] - marks[i]); };
  Content typical(kinds);
  typical.count(stretch(single[single.size() / 2]));
  if (typical.kinds() < 2) return false;  // one kind of kernel tells nothing about steps
  std::size_t alike = 0;
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    const std::size_t count = stretches_in(marks[i + 1] - marks[i], usual);
    if (count == 0) continue;
    const auto off = static_cast<double>(typical.difference(stretch(i), static_cast<std::int64_t>(count)));
    if (off <= tolerance * static_cast<double>(count * usual)) alike += marks[i + 1] - marks[i];
  }
  return static_cast<double>(alike) >= enough_share * static_cast<double>(marks.back() - marks.front());
}

bool of_one_level(std::size_t a, std::size_t b) {
  return stretches_in(a, b) == 1;
}

/// True where, from the first mark on, more than one kernel in ten stretches is of a kind that these do not hold,
/// though it comes again and again, in several of them: what goes on is longer, and not even. A first step that
/// allocates is one stretch, however much it holds.
bool leaves_much_out(const PositionsByKind& positions, const std::vector<bool>& marks, const EvenKind& one) {
  const std::size_t middle = one.positions.size() / 2;
  const std::size_t begin = one.positions[middle - 1], end = one.positions[middle];
  std::size_t left_out = 0;
  for (std::size_t k = 0; k < positions.kinds(); ++k) {
    const std::span<const std::uint32_t> of_kind = positions.of(k);
    if (!marks[k] || of_kind.size() < fewest_marks) continue;
    const bool is_held = std::any_of(of_kind.begin(), of_kind.end(),
                                     [&](std::uint32_t position) { return position >= begin && position < end; });
    if (is_held) continue;
    std::size_t kernels = 0, stretches = 0, stretch = one.positions.size();
    for (const std::uint32_t position : of_kind) {
      if (position < one.positions.front() || position >= one.positions.back()) continue;
      const auto after = std::upper_bound(one.positions.begin(), one.positions.end(), position);
      const auto holds = static_cast<std::size_t>(after - one.positions.begin()) - 1;
      stretches += holds != stretch ? 1 : 0;
      stretch = holds;
      ++kernels;
    }
    if (stretches >= fewest_marks) left_out += kernels;
  }
  return static_cast<double>(left_out) > tolerance * static_cast<double>(one.positions.size());
}

/// The kind that comes once in each step; nullptr where that is not told. `even`: those that come most often first.
const EvenKind* find_longest(std::span<const OrderedKernel> kernels, std::size_t kinds,
                             std::span<const EvenKind> even) {
  const EvenKind* longest = nullptr;
  for (const EvenKind& one : even) {
    if (longest != nullptr && of_one_level(one.distance, longest->distance)) continue;
    if (!hold_the_same(kernels, one.positions, one.distance, kinds)) continue;
    if (longest != nullptr && one.positions.size() < enough_marks) return nullptr;
    longest = &one;
  }
  return longest;
}

/// One every `period`: where the record of a mark was lost, it was about there.
std::vector<std::size_t> fill_gaps(std::span<const std::uint32_t> positions, std::size_t period) {
  std::vector<std::size_t> starts{positions.front()};
  for (const std::size_t position : positions.subspan(1)) {
    const std::size_t before = starts.back(), count = stretches_in(position - before, period);
    for (std::size_t i = 1; i < count; ++i) starts.push_back(before + i * (position - before) / count);
    starts.push_back(position);
  }
  return starts;
}

/// The kernel about `offset` after a mark before which the GPU stood still longest; no less than a tenth of a step from
/// the end.
std::size_t start_near(std::span<const OrderedKernel> kernels, std::size_t mark, std::size_t offset,
                       std::size_t period) {
  const std::size_t near = period / 20, at = mark + offset;  // records are lost between the two
  if (at + period / 10 >= kernels.size()) return kernels.size();
  const auto begin = kernels.begin() + static_cast<std::ptrdiff_t>(std::max(mark, at - std::min(at, near)));
  const auto end = kernels.begin() + static_cast<std::ptrdiff_t>(at + near + 1);
  return static_cast<std::size_t>(
      std::max_element(begin, end, [](const auto& a, const auto& b) { return a.idle_ns < b.idle_ns; }) -
      kernels.begin());
}

/// How many kernels after a mark the GPU stands still longest, by the median: there the program begins anew.
std::size_t offset_of_start(std::span<const OrderedKernel> kernels, std::span<const std::size_t> marks,
                            std::size_t period) {
  std::size_t best = 0;
  std::uint32_t longest_ns = 0;
  std::vector<std::uint32_t> idle;
  for (std::size_t offset = 0; offset < period; ++offset) {
    idle.clear();
    for (const std::size_t mark : marks)
      if (const std::size_t start = start_near(kernels, mark, offset, period); start < kernels.size())
        idle.push_back(kernels[start].idle_ns);
    if (2 * idle.size() < marks.size()) break;
    const std::uint32_t usual_ns = lower_median(idle);
    if (usual_ns > longest_ns) std::tie(best, longest_ns) = std::pair(offset, usual_ns);
  }
  return best;
}

}  // namespace

std::vector<std::size_t> recurrences(std::span<const OrderedKernel> kernels, const std::vector<bool>& marks) {
  const PositionsByKind positions(kernels);
  std::vector<EvenKind> even;
  for (std::uint32_t k = 0; k < positions.kinds(); ++k) {
    EvenKind one = find_evenness(k, positions.of(k), kernels.size());
    if (marks[k] && one.distance > 0) even.push_back(std::move(one));
  }
  std::stable_sort(even.begin(), even.end(),
                   [](const EvenKind& a, const EvenKind& b) { return a.distance < b.distance; });
  const EvenKind* const longest = find_longest(kernels, positions.kinds(), even);
  if (longest == nullptr || leaves_much_out(positions, marks, *longest)) return {};
  const std::size_t period = longest->distance;
  const std::vector<std::size_t> of_steps = fill_gaps(longest->positions, period);
  const std::size_t offset = offset_of_start(kernels, of_steps, period);
  std::vector<std::size_t> starts;
  const auto add = [&](std::size_t start) {
    if (start < kernels.size() && (starts.empty() || start > starts.back() + period / 2)) starts.push_back(start);
  };
  // The first step may have begun before the first mark.
  if (of_steps.front() + offset + period / 10 >= period)
    add(start_near(kernels, 0, of_steps.front() + offset - std::min(period, of_steps.front() + offset), period));
  for (const std::size_t mark : of_steps) add(start_near(kernels, mark, offset, period));
  return starts;
}

namespace {

constexpr std::size_t fewest_repeats = 3;

using SymbolSpan = std::span<const std::uint32_t>;

bool is_of_one_symbol(SymbolSpan motif) {
  return std::all_of(motif.begin(), motif.end(), [&](std::uint32_t symbol) { return symbol == motif.front(); });
}

void add_innermost(SymbolSpan symbols, std::size_t offset, std::size_t shortest, std::vector<TandemRepeat>& found) {
  const TandemRepeat longest = longest_tandem_repeat(symbols);
  if (longest.count == 0 || longest.length() < shortest) return;
  add_innermost(symbols.first(longest.first), offset, std::max(shortest, longest.length() / 4), found);
  const TandemRepeat inner = longest_tandem_repeat(symbols.subspan(longest.first, longest.period));
  if (2 * inner.length() >= longest.period) {
    for (std::size_t i = 0; i < longest.count; ++i) {
      const std::size_t first = longest.first + i * longest.period;
      add_innermost(symbols.subspan(first, longest.period), offset + first, inner.length() / 4, found);
    }
  } else {
    found.push_back({offset + longest.first, longest.period, longest.count});
  }
  const std::size_t end = longest.first + longest.length();
  add_innermost(symbols.subspan(end), offset + end, std::max(shortest, longest.length() / 4), found);
}

}  // namespace

TandemRepeat longest_tandem_repeat(SymbolSpan symbols) {
  TandemRepeat longest;
  for (std::size_t period = 2; period * fewest_repeats <= symbols.size(); ++period) {
    std::size_t run = 0;  // symbols up to here that equal those a period later
    for (std::size_t i = 0; i + period <= symbols.size(); ++i) {
      const bool goes_on = i + period < symbols.size() && symbols[i] == symbols[i + period];
      if (goes_on) {
        ++run;
        continue;
      }
      const TandemRepeat one{i - run, period, (run + period) / period};
      run = 0;
      if (one.count < fewest_repeats || one.length() <= longest.length()) continue;
      if (!is_of_one_symbol(symbols.subspan(one.first, period))) longest = one;
    }
  }
  return longest;
}

std::vector<TandemRepeat> innermost_repeats(SymbolSpan symbols) {
  std::vector<TandemRepeat> found;
  add_innermost(symbols, 0, 1, found);
  return found;
}

}  // namespace nsys_explain::analysis
