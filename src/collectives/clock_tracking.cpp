#include "clock_tracking.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::collectives {
namespace {

constexpr std::size_t block_size = 64;
/// Beyond the slope known from the last blocks an oscillator wanders by less than this.
constexpr double largest_wander = 2e-6;

/// Walks from one end of the known stretch outwards.
class ClockFollower {
 public:
  ClockFollower(const MemberSequence& member, const MemberSequence& reference, const ClockLine& start,
                Nanoseconds reach_ns)
      : member_(member), reference_(reference), partners_(reference), line_(start), reach_ns_(reach_ns) {}

  /// Fits the block [first, end) and takes it as a knot, if enough of it has partners.
  void visit(std::size_t first, std::size_t end) {
    const Nanoseconds middle_ns = member_.exit_ns[first + (end - first) / 2];
    const auto distance_ns = static_cast<double>(std::abs(middle_ns - line_.origin_ns));
    const double at_middle_ns = line_.offset_ns + line_.slope * static_cast<double>(middle_ns - line_.origin_ns);
    const Nanoseconds base_ns = std::llround(at_middle_ns);
    const Nanoseconds wander_ns = std::llround(largest_wander * distance_ns);
    const Nanoseconds reach_ns = std::min(reach_ns_, reach_ns_ / 4 + wander_ns);
    x_.clear();
    y_.clear();
    for (std::size_t i = first; i < end; ++i) {
      const Nanoseconds exit_ns = member_.exit_ns[i];
      const std::ptrdiff_t j = partners_.nearest(member_.symbols[i], exit_ns + line_.offset_at(exit_ns), reach_ns);
      if (j < 0) continue;
      x_.push_back(0);  // the slope within a block is taken out of y
      y_.push_back(static_cast<double>(reference_.exit_ns[static_cast<std::size_t>(j)] - exit_ns - base_ns) -
                   line_.slope * static_cast<double>(exit_ns - middle_ns));
    }
    if (2 * x_.size() < end - first || x_.size() < 3) return;
    ClockLine knot = fit_line(x_, y_, middle_ns, false);
    knot.offset_ns += static_cast<double>(base_ns);
    knot.slope = line_.slope;
    knots_.push_back(knot);
    refresh_slope();
    line_ = knots_.back();
  }

  const std::vector<ClockLine>& knots() const { return knots_; }

 private:
  /// Slope over the last knots, once they reach over more than the first line did.
  void refresh_slope() {
    constexpr std::size_t window = 16;
    if (knots_.size() < window) return;
    const ClockLine& from = knots_[knots_.size() - window];
    const auto span_ns = static_cast<double>(knots_.back().origin_ns - from.origin_ns);
    if (span_ns == 0) return;
    const double slope = (knots_.back().offset_ns - from.offset_ns) / span_ns;
    knots_.back().slope = std::clamp(slope, -largest_slope, largest_slope);
  }

  const MemberSequence& member_;
  const MemberSequence& reference_;
  PartnerFinder partners_;
  ClockLine line_;
  Nanoseconds reach_ns_;
  std::vector<ClockLine> knots_;
  std::vector<double> x_, y_;
};

}  // namespace

ClockMap follow_clock(const MemberSequence& member, const MemberSequence& reference, const ClockLine& line,
                      std::size_t first, std::size_t end, Nanoseconds reach_ns) {
  const std::size_t size = member.symbols.size();
  const std::size_t middle = first + (end - first) / 2;
  ClockFollower left(member, reference, line, reach_ns), right(member, reference, line, reach_ns);
  for (std::size_t b = middle; b > 0; b -= std::min(b, block_size)) left.visit(b - std::min(b, block_size), b);
  for (std::size_t b = middle; b < size; b += block_size) right.visit(b, std::min(b + block_size, size));

  std::vector<ClockLine> knots(left.knots().rbegin(), left.knots().rend());
  knots.insert(knots.end(), right.knots().begin(), right.knots().end());
  // Operations that end at one instant give one knot.
  const auto last = std::unique(knots.begin(), knots.end(),
                                [](const ClockLine& a, const ClockLine& b) { return a.origin_ns == b.origin_ns; });
  knots.erase(last, knots.end());
  if (knots.empty()) knots.push_back(line);
  return ClockMap(std::move(knots));
}

}  // namespace nsys_explain::collectives
