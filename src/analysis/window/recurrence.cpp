#include "analysis/window/recurrence.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "nsys_explain/model/lower_median.hpp"

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

/// The usual distance of two that follow each other, where they come evenly all along; else 0.
std::size_t even_distance(std::span<const std::uint32_t> positions, std::size_t length) {
  if (positions.size() < fewest_marks) return 0;
  std::vector<std::size_t> gaps;
  for (std::size_t i = 1; i < positions.size(); ++i) gaps.push_back(positions[i] - positions[i - 1]);
  const std::size_t usual = lower_median(std::vector(gaps)), covered = positions.back() - positions.front();
  if (2 * (covered + usual) < length) return 0;
  std::size_t even = 0;
  for (const std::size_t gap : gaps) even += stretches_in(gap, usual) > 0 ? gap : 0;
  return static_cast<double>(even) >= enough_share * static_cast<double>(covered) ? usual : 0;
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

/// Kernels from one step to the next; 0 where it is not told.
std::size_t find_period(std::span<const OrderedKernel> kernels, const PositionsByKind& positions,
                        const std::vector<bool>& marks, const std::vector<std::size_t>& distances) {
  std::vector<std::size_t> candidates;  // kinds, those that come most often first
  for (std::size_t k = 0; k < distances.size(); ++k)
    if (marks[k] && distances[k] > 0) candidates.push_back(k);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](std::size_t a, std::size_t b) { return distances[a] < distances[b]; });
  std::size_t period = 0;
  for (const std::size_t k : candidates) {
    if (period > 0 && (distances[k] < period || of_one_level(distances[k], period))) continue;
    if (!hold_the_same(kernels, positions.of(k), distances[k], distances.size())) continue;
    if (period > 0 && positions.of(k).size() < enough_marks) return 0;
    period = distances[k];
  }
  return period;
}

std::uint32_t usual_idle(std::span<const OrderedKernel> kernels, std::span<const std::uint32_t> positions) {
  std::vector<std::uint32_t> idle;
  for (const std::uint32_t position : positions) idle.push_back(kernels[position].idle_ns);
  return lower_median(idle);
}

}  // namespace

std::vector<std::size_t> recurrences(std::span<const OrderedKernel> kernels, const std::vector<bool>& marks) {
  const PositionsByKind positions(kernels);
  std::vector<std::size_t> distances;
  for (std::size_t k = 0; k < positions.kinds(); ++k)
    distances.push_back(even_distance(positions.of(k), kernels.size()));
  const std::size_t period = find_period(kernels, positions, marks, distances);
  if (period == 0) return {};
  std::size_t best = distances.size();
  std::uint32_t longest_ns = 0;
  for (std::size_t k = 0; k < distances.size(); ++k) {
    if (distances[k] == 0 || !of_one_level(distances[k], period)) continue;
    const std::uint32_t idle_ns = usual_idle(kernels, positions.of(k));
    if (best != distances.size() && idle_ns <= longest_ns) continue;
    best = k;
    longest_ns = idle_ns;
  }
  std::vector<std::size_t> starts;
  for (const std::uint32_t position : positions.of(best)) {
    // Where the record of a step's first kernel was lost, the step begins about there.
    const std::size_t before = starts.empty() ? position : starts.back();
    const std::size_t count = starts.empty() ? 1 : std::max<std::size_t>(1, stretches_in(position - before, period));
    for (std::size_t i = 1; i < count; ++i) starts.push_back(before + i * (position - before) / count);
    starts.push_back(position);
  }
  return starts;
}

}  // namespace nsys_explain::analysis
