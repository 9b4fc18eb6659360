#include "clock/clock_map.hpp"

#include <algorithm>
#include <cmath>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::clock {

Nanoseconds ClockLine::offset_at(Nanoseconds member_ns) const {
  return std::llround(offset_ns + slope * static_cast<double>(member_ns - origin_ns));
}

Nanoseconds ClockMap::to_reference(Nanoseconds member_ns) const {
  if (knots_.empty()) return member_ns;
  const auto after = std::upper_bound(knots_.begin(), knots_.end(), member_ns,
                                      [](Nanoseconds t, const ClockLine& knot) { return t < knot.origin_ns; });
  if (after == knots_.begin()) return member_ns + knots_.front().offset_at(member_ns);
  if (after == knots_.end()) return member_ns + knots_.back().offset_at(member_ns);
  const ClockLine& before = *std::prev(after);
  const double share =
      static_cast<double>(member_ns - before.origin_ns) / static_cast<double>(after->origin_ns - before.origin_ns);
  return member_ns + std::llround(before.offset_ns + share * (after->offset_ns - before.offset_ns));
}

std::ptrdiff_t PartnerFinder::nearest(std::uint64_t symbol, Nanoseconds time_ns, Nanoseconds reach_ns) {
  // Operations of one communicator follow each other, so few lie within reach; the limit guards against degenerate
  // times.
  constexpr std::size_t most_steps = 512;
  const std::vector<Nanoseconds>& exits = sequence_.exit_ns;
  const std::size_t size = exits.size();
  std::size_t walked = 0;
  while (cursor_ < size && exits[cursor_] < time_ns && walked < 16) ++cursor_, ++walked;
  if (walked == 16 || (cursor_ > 0 && exits[cursor_ - 1] >= time_ns)) {
    cursor_ = static_cast<std::size_t>(std::lower_bound(exits.begin(), exits.end(), time_ns) - exits.begin());
  }
  std::ptrdiff_t best = -1;
  Nanoseconds best_distance = reach_ns;
  for (std::size_t j = cursor_; j < size && j < cursor_ + most_steps && exits[j] - time_ns <= best_distance; ++j) {
    if (!may_be_one(sequence_.symbols[j], symbol)) continue;
    best = static_cast<std::ptrdiff_t>(j);
    best_distance = exits[j] - time_ns;
    break;
  }
  for (std::size_t j = cursor_; j > 0 && j + most_steps > cursor_ && time_ns - exits[j - 1] <= best_distance; --j) {
    if (!may_be_one(sequence_.symbols[j - 1], symbol)) continue;
    best = static_cast<std::ptrdiff_t>(j - 1);
    break;
  }
  return best;
}

ClockLine fit_line(std::span<const double> x, std::span<const double> y, Nanoseconds origin_ns, bool with_slope) {
  ClockLine line{origin_ns, 0, 0};
  if (x.empty()) return line;
  std::vector<double> sorted(y.begin(), y.end());
  line.offset_ns = upper_median(sorted);
  // Iteratively reweighted least squares. The first weights are nearly equal; the floor then shrinks, so that the fit
  // does not settle on the first few points that happen to lie on a line.
  double floor_ns = 256 * residual_floor_ns;
  for (int iteration = 0; iteration < 10; ++iteration, floor_ns = std::max(floor_ns / 4, residual_floor_ns)) {
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double residual = y[i] - line.offset_ns - line.slope * x[i];
      const double weight = 1 / (std::abs(residual) + floor_ns);
      w += weight;
      wx += weight * x[i];
      wy += weight * y[i];
      wxx += weight * x[i] * x[i];
      wxy += weight * x[i] * y[i];
    }
    const double determinant = w * wxx - wx * wx;
    if (with_slope && determinant > 1e-9 * w * wxx) {
      line.slope = std::clamp((w * wxy - wx * wy) / determinant, -largest_slope, largest_slope);
    }
    line.offset_ns = (wy - line.slope * wx) / w;
  }
  return line;
}

}  // namespace nsys_explain::clock
