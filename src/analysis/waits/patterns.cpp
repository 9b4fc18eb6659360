#include "analysis/waits/patterns.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

/// The delay of the step at which half of all delay is reached, from the shortest on. One step that holds as much as
/// all others together (a pause beside a lasting slowness) does not set the scale.
std::int64_t typical_delay(std::span<const std::int64_t> delay_ns) {
  std::vector<std::int64_t> sorted(delay_ns.begin(), delay_ns.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.size() > 2) sorted.pop_back();
  std::int64_t left = std::accumulate(sorted.begin(), sorted.end(), std::int64_t{0}) / 2;
  for (const std::int64_t delay : sorted) {
    left -= delay;
    if (left <= 0) return delay;
  }
  return 0;
}

std::optional<PatternVerdict> find_period(const std::vector<bool>& delayed) {
  const auto hits = static_cast<std::size_t>(std::count(delayed.begin(), delayed.end(), true));
  const std::size_t n = delayed.size();
  for (std::size_t period = 2; period * 2 < n; ++period) {
    for (std::size_t phase = 0; phase < period; ++phase) {
      std::size_t members = 0, hit = 0, first = n, last = 0;
      for (std::size_t s = phase; s < n; s += period) {
        ++members;
        if (!delayed[s]) continue;
        ++hit;
        first = std::min(first, s);
        last = s;
      }
      if (5 * hit < 4 * hits) continue;
      // All along, or often enough from its first hit to its last one.
      const bool throughout = hit >= 3 && 5 * hit >= 4 * members;
      if (throughout || (hit >= 5 && 5 * hit >= 4 * ((last - first) / period + 1)))
        return PatternVerdict{Pattern::periodic, first, last, period};
    }
  }
  return std::nullopt;
}

/// True where half of the steps outside of these are at least half as late as half of these: what lasts, but is lost
/// among noise now and then, is no transient.
bool goes_on_outside(std::span<const std::int64_t> delay_ns, std::size_t first, std::size_t last) {
  const auto begin = delay_ns.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = delay_ns.begin() + static_cast<std::ptrdiff_t>(last) + 1;
  std::vector<std::int64_t> inside(begin, end), outside(delay_ns.begin(), begin);
  outside.insert(outside.end(), end, delay_ns.end());
  const std::int64_t usual_outside = lower_median(outside);
  return usual_outside > 0 && 2 * usual_outside >= lower_median(inside);
}

}  // namespace

PatternVerdict judge_pattern(std::span<const std::int64_t> delay_ns, Nanoseconds noise_ns) {
  const std::size_t n = delay_ns.size();
  if (n == 0) return {};
  const std::int64_t threshold = std::max(typical_delay(delay_ns) / 8, noise_ns);
  std::vector<bool> delayed(n);
  for (std::size_t s = 0; s < n; ++s) delayed[s] = delay_ns[s] > threshold;
  if (const auto periodic = find_period(delayed)) return *periodic;

  PatternVerdict best{Pattern::transient, 0, n - 1, std::nullopt};
  std::int64_t most = 0, sum = 0;
  std::size_t begin = 0;
  for (std::size_t s = 0; s < n; ++s) {
    if (sum <= 0) {
      sum = 0;
      begin = s;
    }
    sum += delayed[s] ? 2 : -1;
    if (sum <= most) continue;
    most = sum;
    best.first = begin;
    best.last = s;
  }
  const std::size_t outside = n - (best.last - best.first + 1);
  if (outside <= std::max<std::size_t>(1, n / 10) || goes_on_outside(delay_ns, best.first, best.last))
    return {Pattern::persistent, 0, n - 1, std::nullopt};
  return best;
}

bool wanders(std::span<const std::int64_t> cost_ns, std::size_t ranks, std::size_t bins) {
  std::int64_t all = 0, dominated = 0;
  std::vector<std::int64_t> dominated_by(ranks, 0);
  for (std::size_t b = 0; b < bins; ++b) {
    std::int64_t sum = 0;
    std::size_t top = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      sum += cost_ns[r * bins + b];
      if (cost_ns[r * bins + b] > cost_ns[top * bins + b]) top = r;
    }
    all += sum;
    if (sum == 0 || 2 * cost_ns[top * bins + b] < sum) continue;
    dominated += sum;
    dominated_by[top] += sum;
  }
  if (dominated == 0 || 2 * dominated < all) return false;
  return 2 * *std::max_element(dominated_by.begin(), dominated_by.end()) < dominated;
}

}  // namespace nsys_explain::analysis
