#include "clock/offset_search.hpp"

#include <algorithm>
#include <cstdlib>

#include "clock/clock_tracking.hpp"
#include "clock/offset_candidates.hpp"
#include "clock/offset_selection.hpp"

namespace nsys_explain::clock {
namespace {

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
