#include "clock/offset_candidates.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::clock {
namespace {

constexpr std::size_t most_candidates = 48;

/// Offsets that many pairs of equal symbols agree on, as candidates: a histogram of the differences between the exits
/// of a sample and all exits of the reference within window_ns of `prior`.
class OffsetVotes {
 public:
  OffsetVotes(Nanoseconds prior_ns, Nanoseconds window_ns, Nanoseconds bin_ns)
      : first_ns_(prior_ns - window_ns),
        bin_ns_(bin_ns),
        counts_(static_cast<std::size_t>(2 * window_ns / bin_ns) + 2, 0),
        prior_ns_(prior_ns) {}

  void add(Nanoseconds offset_ns) {
    const Nanoseconds bin = (offset_ns - first_ns_) / bin_ns_;
    if (offset_ns >= first_ns_ && bin < static_cast<Nanoseconds>(counts_.size()))
      ++counts_[static_cast<std::size_t>(bin)];
  }

  /// The offsets with most votes in two neighbouring bins, none twice; ties go to the one nearest to the prior.
  std::vector<Nanoseconds> best() const {
    std::vector<std::tuple<int, Nanoseconds, std::size_t>> ranked;
    int most = 1;
    for (std::size_t bin = 0; bin + 1 < counts_.size(); ++bin) most = std::max(most, counts_[bin] + counts_[bin + 1]);
    for (std::size_t bin = 0; bin + 1 < counts_.size(); ++bin) {
      const int votes = counts_[bin] + counts_[bin + 1];
      if (4 * votes >= most) ranked.emplace_back(-votes, std::abs(centre(bin) - prior_ns_), bin);
    }
    const std::size_t considered = std::min(ranked.size(), 6 * most_candidates);
    std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(considered), ranked.end());
    std::vector<std::size_t> taken;
    for (std::size_t r = 0; r < considered && taken.size() < most_candidates; ++r) {
      const std::size_t bin = std::get<2>(ranked[r]);
      if (std::none_of(taken.begin(), taken.end(), [&](std::size_t t) { return bin + 1 >= t && bin <= t + 1; })) {
        taken.push_back(bin);
      }
    }
    std::vector<Nanoseconds> offsets;
    offsets.reserve(taken.size());
    for (const std::size_t bin : taken) offsets.push_back(centre(bin));
    return offsets;
  }

 private:
  Nanoseconds centre(std::size_t bin) const { return first_ns_ + static_cast<Nanoseconds>(bin + 1) * bin_ns_; }

  Nanoseconds first_ns_, bin_ns_;
  std::vector<int> counts_;
  Nanoseconds prior_ns_;
};

/// Differences of exits that belong together spread by noise of the exits and by drift over the sample. Sharp:
/// all-reduces. Typical intervals count, not the span: over a long pause the clocks move apart, but before and after it
/// votes still agree.
Nanoseconds sharp_spread(const MemberSequence& member, SequenceSample sample) {
  constexpr Nanoseconds noise_ns = 4'000, intervals_per_spread = 5'000;  // 200 ppm
  std::vector<Nanoseconds> intervals;
  for (std::size_t i = sample.first + 1; i < sample.end; ++i)
    intervals.push_back(member.exit_ns[i] - member.exit_ns[i - 1]);
  if (intervals.empty()) return noise_ns;
  const Nanoseconds usual_span_ns = 2 * upper_median(intervals) * static_cast<Nanoseconds>(intervals.size());
  return std::clamp(usual_span_ns / intervals_per_spread, noise_ns, utc_window_ns / 16);
}

Nanoseconds broad_spread(const MemberSequence& member, SequenceSample sample, Nanoseconds reach_ns) {
  return std::max(sharp_spread(member, sample), reach_ns / 8);
}

/// Calls visit(offset) for all pairs of equal symbols within the window.
template <typename Visit>
void for_each_offset(const MemberSequence& member, const MemberSequence& reference, SequenceSample sample,
                     Nanoseconds prior_ns, Visit visit) {
  constexpr std::ptrdiff_t most_per_operation = 1 << 16;
  const auto begin = reference.exit_ns.begin(), end = reference.exit_ns.end();
  auto from = std::lower_bound(begin, end, member.exit_ns[sample.first] + prior_ns - utc_window_ns);
  for (std::size_t i = sample.first; i < sample.end; ++i) {
    const Nanoseconds exit_ns = member.exit_ns[i];
    while (from != end && *from < exit_ns + prior_ns - utc_window_ns) ++from;
    for (auto other = from;
         other != end && *other <= exit_ns + prior_ns + utc_window_ns && other - from < most_per_operation; ++other) {
      if (reference.symbols[static_cast<std::size_t>(other - begin)] == member.symbols[i]) visit(*other - exit_ns);
    }
  }
}

}  // namespace

SequenceSample sample_around(std::size_t centre, std::size_t wanted, std::size_t available) {
  wanted = std::min(wanted, available);
  const std::size_t first = std::min(centre - std::min(centre, wanted / 2), available - wanted);
  return {first, first + wanted};
}

SequenceSample compact_sample(const MemberSequence& member, std::size_t centre) {
  const std::size_t size = member.symbols.size();
  const SequenceSample middle = sample_around(centre, first_sample, size);
  const auto span_ns = [&](std::size_t first) {
    return member.exit_ns[first + middle.size() - 1] - member.exit_ns[first];
  };
  SequenceSample best = middle;
  const std::size_t earliest = middle.first - std::min(middle.first, first_sample);
  const std::size_t latest = std::min(middle.first + first_sample, size - middle.size());
  for (std::size_t first = earliest; first <= latest; ++first) {
    if (span_ns(first) < span_ns(best.first)) best = {first, first + middle.size()};
  }
  return best;
}

std::vector<Nanoseconds> offsets_near(const MemberSequence& member, const MemberSequence& reference,
                                      SequenceSample sample, Nanoseconds prior_ns, Nanoseconds reach_ns) {
  // Dense operations need narrow bins, or all bins hold votes; noisy ones need broad bins, or none holds enough.
  const Nanoseconds sharp_ns = sharp_spread(member, sample), broad_ns = broad_spread(member, sample, reach_ns);
  OffsetVotes sharp(prior_ns, utc_window_ns, sharp_ns / 2), broad(prior_ns, utc_window_ns, broad_ns / 2);
  for_each_offset(member, reference, sample, prior_ns, [&](Nanoseconds offset_ns) {
    sharp.add(offset_ns);
    broad.add(offset_ns);
  });
  std::vector<Nanoseconds> offsets = sharp.best();
  if (broad_ns > sharp_ns) {
    const std::vector<Nanoseconds> more = broad.best();
    offsets.insert(offsets.end(), more.begin(), more.end());
  }
  return offsets;
}

std::vector<Nanoseconds> offsets_anywhere(const MemberSequence& member, const MemberSequence& reference,
                                          SequenceSample sample, Nanoseconds reach_ns) {
  struct Place {
    std::uint64_t first_symbol, second_symbol;
    Nanoseconds interval_ns;
    std::size_t index;
    bool operator<(const Place& other) const {
      return std::tie(first_symbol, second_symbol, interval_ns, index) <
             std::tie(other.first_symbol, other.second_symbol, other.interval_ns, other.index);
    }
  };
  constexpr Nanoseconds tolerance_ns = 5'000;
  constexpr int most_places = 4096;
  const auto place = [](const MemberSequence& sequence, std::size_t i) {
    return Place{sequence.symbols[i], sequence.symbols[i + 1], sequence.exit_ns[i + 1] - sequence.exit_ns[i], i};
  };
  std::vector<Place> places;
  for (std::size_t j = 0; j + 1 < reference.symbols.size(); ++j) places.push_back(place(reference, j));
  std::sort(places.begin(), places.end());

  std::vector<std::pair<Nanoseconds, std::size_t>> votes;
  for (std::size_t i = sample.first; i + 1 < sample.end; ++i) {
    Place wanted = place(member, i);
    const Nanoseconds latest_ns = wanted.interval_ns + tolerance_ns;
    wanted.interval_ns -= tolerance_ns;
    wanted.index = 0;
    int found = 0;
    for (auto p = std::lower_bound(places.begin(), places.end(), wanted);
         p != places.end() && p->first_symbol == wanted.first_symbol && p->second_symbol == wanted.second_symbol &&
         p->interval_ns <= latest_ns && found < most_places;
         ++p, ++found) {
      votes.emplace_back(reference.exit_ns[p->index] - member.exit_ns[i], i);
    }
  }
  std::sort(votes.begin(), votes.end());
  const Nanoseconds spread_ns = broad_spread(member, sample, reach_ns);
  std::vector<std::pair<std::ptrdiff_t, Nanoseconds>> ranked;  // (-votes, offset in the middle)
  for (std::size_t first = 0, end = 0; first < votes.size(); ++first) {
    while (end < votes.size() && votes[end].first - votes[first].first <= spread_ns) ++end;
    ranked.emplace_back(-static_cast<std::ptrdiff_t>(end - first), votes[(first + end - 1) / 2].first);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<Nanoseconds> offsets;
  for (const auto& [count, offset_ns] : ranked) {
    if (offsets.size() == most_candidates || -count < 4) break;
    const bool taken = std::any_of(offsets.begin(), offsets.end(),
                                   [&, o = offset_ns](Nanoseconds other) { return std::abs(o - other) <= spread_ns; });
    if (!taken) offsets.push_back(offset_ns);
  }
  return offsets;
}

}  // namespace nsys_explain::clock
