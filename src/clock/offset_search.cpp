#include "clock/offset_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <optional>

#include "clock/clock_map.hpp"
#include "clock/offset_candidates.hpp"
#include "clock/offset_selection.hpp"

namespace nsys_explain::clock {
namespace {

/// Finds the line anew that holds around an operation of the member, given where it was expected; empty if it cannot be
/// told.
using Relocate = std::function<std::optional<ClockLine>(std::size_t operation, Nanoseconds expected_offset_ns)>;

constexpr std::size_t block_size = 64;
/// Beyond the slope known from the last blocks an oscillator wanders by less than this.
constexpr double largest_wander = 2e-6;

/// Walks from the middle of a member to one of its ends.
class ClockFollower {
 public:
  ClockFollower(const MemberSequence& member, const MemberSequence& reference, const ClockLine& start,
                Nanoseconds reach_ns, const Relocate& relocate)
      : member_(member),
        reference_(reference),
        partners_(reference),
        line_(start),
        reach_ns_(reach_ns),
        relocate_(relocate) {}

  /// Takes the block [first, end) as a knot, if enough of it has partners. `ahead`: an operation further on in the
  /// walk, around which to search if the clock is lost. False: lost.
  bool visit(std::size_t first, std::size_t end, std::size_t ahead) {
    if (add_knot(first, end)) return true;
    const Nanoseconds expected_ns = line_.offset_at(member_.exit_ns[first]);
    if (2 * reference_operations(first, end, expected_ns) < end - first) return true;  // nothing to agree with
    if (failed_searches_ == most_failed_searches) return false;
    const std::optional<ClockLine> found = relocate_(ahead, expected_ns);
    if (found) {
      const ClockLine before = line_;
      line_ = *found;
      if (add_knot(first, end)) return true;
      line_ = before;
    }
    ++failed_searches_;
    return false;
  }

  const std::vector<ClockLine>& knots() const { return knots_; }

 private:
  static constexpr int most_failed_searches = 4;

  bool add_knot(std::size_t first, std::size_t end) {
    const Nanoseconds middle_ns = member_.exit_ns[first + (end - first) / 2];
    const auto since_ns = static_cast<double>(middle_ns - line_.origin_ns);
    const Nanoseconds base_ns = std::llround(line_.offset_ns + line_.slope * since_ns);
    const Nanoseconds wander_ns = std::llround(largest_wander * std::abs(since_ns));
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
    if (2 * x_.size() < end - first) return false;
    ClockLine knot = fit_line(x_, y_, middle_ns, false);
    knot.offset_ns += static_cast<double>(base_ns);
    knot.slope = line_.slope;
    knots_.push_back(knot);
    refresh_slope();
    line_ = knots_.back();
    return true;
  }

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

  /// How many operations the reference has while the block lasts.
  std::size_t reference_operations(std::size_t first, std::size_t end, Nanoseconds offset_ns) const {
    const auto from =
        std::lower_bound(reference_.exit_ns.begin(), reference_.exit_ns.end(), member_.exit_ns[first] + offset_ns);
    const auto to = std::upper_bound(from, reference_.exit_ns.end(), member_.exit_ns[end - 1] + offset_ns);
    return static_cast<std::size_t>(to - from);
  }

  const MemberSequence& member_;
  const MemberSequence& reference_;
  PartnerFinder partners_;
  ClockLine line_;
  Nanoseconds reach_ns_;
  const Relocate& relocate_;
  int failed_searches_ = 0;
  std::vector<ClockLine> knots_;
  std::vector<double> x_, y_;
};

/// Follows the clock of a member from a line that holds around operation `start` to both of its ends, in blocks of
/// operations: clocks wander, and a line fitted in the middle may miss by more than the exits' agreement far from it.
/// Where a block has no partners although the reference has operations there (after a long pause, say), it is searched
/// anew; where that fails too, the clock counts as unknown. Stretches that the reference lacks are passed over.
ClockMap follow_clock(const MemberSequence& member, const MemberSequence& reference, const ClockLine& line,
                      std::size_t start, Nanoseconds reach_ns, const Relocate& relocate) {
  constexpr std::size_t blocks_ahead = 4 * block_size;
  const std::size_t size = member.symbols.size();
  std::vector<bool> unknown(size, false);
  const auto mark_lost = [&](std::size_t first, std::size_t end) {
    std::fill(unknown.begin() + static_cast<std::ptrdiff_t>(first), unknown.begin() + static_cast<std::ptrdiff_t>(end),
              true);
  };
  ClockFollower left(member, reference, line, reach_ns, relocate), right(member, reference, line, reach_ns, relocate);
  for (std::size_t end = start; end > 0;) {
    const std::size_t first = end - std::min(end, block_size);
    if (!left.visit(first, end, end - std::min(end, blocks_ahead))) mark_lost(first, end);
    end = first;
  }
  for (std::size_t first = start; first < size;) {
    const std::size_t end = std::min(first + block_size, size);
    if (!right.visit(first, end, std::min(first + blocks_ahead, size - 1))) mark_lost(first, end);
    first = end;
  }
  std::vector<ClockLine> knots(left.knots().rbegin(), left.knots().rend());
  knots.insert(knots.end(), right.knots().begin(), right.knots().end());
  // Operations that end at one instant give one knot.
  const auto last = std::unique(knots.begin(), knots.end(),
                                [](const ClockLine& a, const ClockLine& b) { return a.origin_ns == b.origin_ns; });
  knots.erase(last, knots.end());
  if (knots.empty()) knots.push_back(line);
  return ClockMap(std::move(knots), std::move(unknown));
}

/// Searches for the offset of the operations around one of a member.
class LocalSearch {
 public:
  LocalSearch(const MemberSequence& member, const MemberSequence& reference, std::size_t centre, Nanoseconds reach_ns)
      : member_(member),
        reference_(reference),
        reach_ns_(reach_ns),
        sample_(compact_sample(member, centre)),
        centre_(sample_.first + sample_.size() / 2) {}

  FittedOffset find() const {
    const FittedOffset near = find_near(0);
    if (near.verdict == Verdict::decided) return near;
    // A session without UTC may be off by any amount. All rivals next to an offset found that way must be seen before
    // it counts.
    const FittedOffset guess = compete_at(offsets_anywhere(member_, reference_, sample_, reach_ns_));
    if (guess.verdict != Verdict::decided) return near;
    const FittedOffset far = find_near(guess.best_offset_ns);
    return far.verdict == Verdict::decided && far.sharpness > near.sharpness ? far : near;
  }

  /// A winner near the window's edge may have rivals beyond it, so the window follows until it holds them.
  FittedOffset find_near(Nanoseconds prior_ns) const {
    constexpr int most_moves = 8;
    FittedOffset offset;
    for (int move = 0; move < most_moves; ++move) {
      offset = compete_at(offsets_near(member_, reference_, sample_, prior_ns, reach_ns_));
      if (offset.verdict != Verdict::decided) return offset;
      if (std::abs(offset.best_offset_ns - prior_ns) <= utc_window_ns / 2) return offset;
      prior_ns = offset.best_offset_ns;
    }
    return {};
  }

 private:
  FittedOffset compete_at(const std::vector<Nanoseconds>& offsets) const {
    return compete(member_, reference_, centre_, offsets, reach_ns_);
  }

  const MemberSequence& member_;
  const MemberSequence& reference_;
  Nanoseconds reach_ns_;
  SequenceSample sample_;
  std::size_t centre_;
};

}  // namespace

std::optional<ClockEstimate> estimate_clock(const MemberSequence& member, const MemberSequence& reference) {
  const std::size_t size = member.symbols.size();
  if (size < fewest_operations || reference.symbols.size() < fewest_operations) return std::nullopt;
  // A contest soon takes all of a short member in, wherever it began.
  constexpr std::size_t most_in_few_places = 512, few_places = 3;
  // Sharp agreement first; the wider reach is for operations whose members leave at different times.
  for (const Nanoseconds reach_ns : {250'000, 4'000'000}) {
    FittedOffset chosen;
    std::size_t places_asked = 0;
    // Places in eighths of the member: where one lies in a stretch that the reference lacks, another may not.
    for (const std::size_t eighth : {4, 2, 6, 1, 7, 3, 5}) {
      const FittedOffset offset = LocalSearch(member, reference, size * eighth / 8, reach_ns).find();
      ++places_asked;
      if (offset.verdict > chosen.verdict) chosen = offset;
      // Where as many operations as ever count left the matter open, other places hold no more.
      const bool is_exhausted = size > 1024 && offset.sample.size() == std::min(size, largest_sample);
      const bool is_short = size <= most_in_few_places && places_asked >= few_places;
      if (chosen.verdict == Verdict::decided || is_exhausted || is_short || size <= first_sample) break;
    }
    if (chosen.verdict == Verdict::nothing) continue;
    const auto relocate = [&](std::size_t operation, Nanoseconds expected_offset_ns) -> std::optional<ClockLine> {
      const FittedOffset offset = LocalSearch(member, reference, operation, reach_ns).find_near(expected_offset_ns);
      if (offset.verdict != Verdict::decided) return std::nullopt;
      return offset.line;
    };
    const std::size_t start = chosen.sample.first + chosen.sample.size() / 2;
    return ClockEstimate{follow_clock(member, reference, chosen.line, start, reach_ns, relocate), reach_ns};
  }
  return std::nullopt;
}

}  // namespace nsys_explain::clock
