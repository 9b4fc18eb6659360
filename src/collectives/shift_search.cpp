#include "shift_search.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "clock_tracking.hpp"

namespace nsys_explain::collectives {
namespace {

/// Clocks set by NTP lie well within this of each other.
constexpr Nanoseconds utc_window_ns = 100'000'000;
/// Operations a vote is taken from, and with which the competition begins.
constexpr std::size_t first_sample = 64;
/// Shifts that no longer sample has told apart are taken as equal.
constexpr std::size_t largest_sample = 8192;
constexpr std::size_t most_candidates = 64;
/// With fewer operations than this a repeated pattern fits by chance too easily.
constexpr std::size_t fewest_for_times = 8;
constexpr std::size_t fewest_operations = 3;

/// Operations [first, end) of the member.
struct Sample {
  std::size_t first = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - first; }
};

Sample sample_around(std::size_t centre, std::size_t wanted, std::size_t available) {
  wanted = std::min(wanted, available);
  const std::size_t first = std::min(centre - std::min(centre, wanted / 2), available - wanted);
  return {first, first + wanted};
}

/// A shift under test: its line, and per operation of the sample the partner and how well it agrees.
struct Candidate {
  ClockLine line;
  std::vector<std::ptrdiff_t> partner;  ///< -1 none
  std::vector<double> evidence;  ///< log(reach / residual), 0 without partner, negative outside the reference's window
  std::size_t covered = 0;
  std::size_t matched = 0;
  double mean_evidence = 0;  ///< over covered operations
};

constexpr double not_covered = -1;

/// Pairs the sample at the candidate's line, fits the line anew and weighs how sharply the pairs agree.
void evaluate(Candidate& candidate, const MemberSequence& member, const MemberSequence& reference, Sample sample,
              Nanoseconds reach_ns) {
  constexpr std::size_t fewest_for_slope = 24;
  candidate.partner.assign(sample.size(), -1);
  candidate.evidence.assign(sample.size(), not_covered);
  std::vector<double> x, y;
  PartnerFinder partners(reference);
  const Nanoseconds base_ns = std::llround(candidate.line.offset_ns);  // keeps the doubles of the fit small
  for (std::size_t i = sample.first; i < sample.end; ++i) {
    const Nanoseconds exit_ns = member.exit_ns[i];
    const Nanoseconds expected_ns = exit_ns + candidate.line.offset_at(exit_ns);
    if (expected_ns < reference.exit_ns.front() - reach_ns || expected_ns > reference.exit_ns.back() + reach_ns)
      continue;
    candidate.evidence[i - sample.first] = 0;
    const std::ptrdiff_t j = partners.nearest(member.symbols[i], expected_ns, reach_ns);
    candidate.partner[i - sample.first] = j;
    if (j < 0) continue;
    x.push_back(static_cast<double>(exit_ns - candidate.line.origin_ns));
    y.push_back(static_cast<double>(reference.exit_ns[static_cast<std::size_t>(j)] - exit_ns - base_ns));
  }
  candidate.matched = x.size();
  if (!x.empty()) {
    candidate.line = fit_line(x, y, candidate.line.origin_ns, x.size() >= fewest_for_slope);
    candidate.line.offset_ns += static_cast<double>(base_ns);
  }
  double sum = 0;
  candidate.covered = 0;
  for (std::size_t k = 0, pair = 0; k < sample.size(); ++k) {
    if (candidate.evidence[k] == not_covered) continue;
    ++candidate.covered;
    if (candidate.partner[k] < 0) continue;
    const double residual_ns =
        y[pair] + static_cast<double>(base_ns) - candidate.line.offset_ns - candidate.line.slope * x[pair];
    ++pair;
    const double agreement =
        (static_cast<double>(reach_ns) + residual_floor_ns) / (std::abs(residual_ns) + residual_floor_ns);
    candidate.evidence[k] = std::max(0.0, std::log(agreement));
    sum += candidate.evidence[k];
  }
  candidate.mean_evidence = candidate.covered > 0 ? sum / static_cast<double>(candidate.covered) : 0;
}

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
    for (std::size_t bin = 0; bin + 1 < counts_.size(); ++bin) {
      const int votes = counts_[bin] + counts_[bin + 1];
      if (votes > 0) ranked.emplace_back(-votes, std::abs(centre(bin) - prior_ns_), bin);
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

/// A vote spreads over this much: noise of the exits, and drift over the sample.
Nanoseconds vote_spread(const MemberSequence& member, Sample sample, Nanoseconds reach_ns) {
  const Nanoseconds span_ns = member.exit_ns[sample.end - 1] - member.exit_ns[sample.first];
  return std::clamp(span_ns / 5000, reach_ns / 8, utc_window_ns / 16);
}

std::vector<Nanoseconds> offsets_near(const MemberSequence& member, const MemberSequence& reference, Sample sample,
                                      Nanoseconds prior_ns, Nanoseconds reach_ns) {
  OffsetVotes votes(prior_ns, utc_window_ns, vote_spread(member, sample, reach_ns) / 2);
  const auto begin = reference.exit_ns.begin(), end = reference.exit_ns.end();
  auto from = std::lower_bound(begin, end, member.exit_ns[sample.first] + prior_ns - utc_window_ns);
  for (std::size_t i = sample.first; i < sample.end; ++i) {
    const Nanoseconds exit_ns = member.exit_ns[i];
    while (from != end && *from < exit_ns + prior_ns - utc_window_ns) ++from;
    constexpr std::ptrdiff_t most_votes = 1 << 16;
    for (auto other = from; other != end && *other <= exit_ns + prior_ns + utc_window_ns && other - from < most_votes;
         ++other) {
      if (reference.symbols[static_cast<std::size_t>(other - begin)] == member.symbols[i]) votes.add(*other - exit_ns);
    }
  }
  return votes.best();
}

/// Offsets anywhere: each interval between two successive operations of the sample votes for all places in the
/// reference where the same two symbols follow each other after nearly the same time.
std::vector<Nanoseconds> offsets_anywhere(const MemberSequence& member, const MemberSequence& reference, Sample sample,
                                          Nanoseconds reach_ns) {
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
  const Nanoseconds spread_ns = vote_spread(member, sample, reach_ns);
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

/// True where the sample shows that `best` is right and `rival` is not: the mean advantage in evidence is beyond
/// chance. Block means tell how much chance there is, because the residuals of neighbouring operations are alike.
bool is_beaten(const Candidate& rival, const Candidate& best) {
  constexpr std::size_t blocks = 16;
  constexpr double least_advantage = 0.15, standard_errors = 6;
  const std::size_t size = best.evidence.size();
  double sum = 0, squares = 0;
  std::size_t used = 0;
  for (std::size_t b = 0; b < blocks; ++b) {
    double advantage = 0;
    std::size_t count = 0;
    for (std::size_t k = b * size / blocks; k < (b + 1) * size / blocks; ++k) {
      if (best.evidence[k] == not_covered || rival.evidence[k] == not_covered) continue;
      advantage += best.evidence[k] - rival.evidence[k];
      ++count;
    }
    if (count == 0) continue;
    advantage /= static_cast<double>(count);
    sum += advantage;
    squares += advantage * advantage;
    ++used;
  }
  if (used < blocks / 2) return false;
  const auto n = static_cast<double>(used);
  const double mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean) * n / (n - 1);
  return mean > least_advantage && mean > standard_errors * std::sqrt(variance / n);
}

/// Two candidates that have run into the same shift.
bool is_same_shift(const Candidate& a, const Candidate& b) {
  std::size_t both = 0, equal = 0;
  for (std::size_t k = 0; k < a.partner.size(); ++k) {
    if (a.partner[k] < 0 || b.partner[k] < 0) continue;
    ++both;
    equal += a.partner[k] == b.partner[k] ? 1 : 0;
  }
  return 2 * equal > both;
}

struct Contest {
  std::vector<Candidate> survivors;  ///< best first; exactly one: decided
  Sample sample;
};

/// Lets candidate offsets compete on a growing sample around `centre`.
Contest compete(const MemberSequence& member, const MemberSequence& reference, std::size_t centre,
                std::span<const Nanoseconds> offsets, Nanoseconds reach_ns) {
  const std::size_t available = member.symbols.size();
  Contest contest;
  for (const Nanoseconds offset_ns : offsets) {
    contest.survivors.emplace_back().line = {member.exit_ns[centre], static_cast<double>(offset_ns), 0};
  }
  for (std::size_t wanted = first_sample;; wanted *= 2) {
    contest.sample = sample_around(centre, wanted, available);
    for (Candidate& candidate : contest.survivors) evaluate(candidate, member, reference, contest.sample, reach_ns);
    std::erase_if(contest.survivors, [&](const Candidate& c) {
      return 2 * c.covered < contest.sample.size() || 2 * c.matched < c.covered;
    });
    std::stable_sort(contest.survivors.begin(), contest.survivors.end(),
                     [](const Candidate& a, const Candidate& b) { return a.mean_evidence > b.mean_evidence; });
    std::vector<Candidate> kept;
    for (Candidate& candidate : contest.survivors) {
      const bool beaten = !kept.empty() && is_beaten(candidate, kept.front());
      const bool known =
          std::any_of(kept.begin(), kept.end(), [&](const Candidate& k) { return is_same_shift(k, candidate); });
      if (!beaten && !known) kept.push_back(std::move(candidate));
    }
    contest.survivors = std::move(kept);
    const bool enough = contest.survivors.size() <= 1 && wanted >= 4 * first_sample;
    if (contest.survivors.empty() || enough || contest.sample.size() == available || wanted >= largest_sample) break;
  }
  return contest;
}

enum class Verdict : std::uint8_t { nothing, ambiguous, decided };

struct Shift {
  Verdict verdict = Verdict::nothing;
  ClockLine line;
  Sample sample;
  double mean_evidence = 0;
};

/// With a handful of operations intervals prove nothing: only symbols that fit nowhere else do.
bool few_are_unique(const Contest& contest) {
  const Candidate& best = contest.survivors.front();
  if (best.matched >= fewest_for_times) return true;
  return contest.survivors.size() == 1 && best.matched >= fewest_operations && best.matched == contest.sample.size();
}

Shift judge(const Contest& contest) {
  Shift shift;
  if (contest.survivors.empty() || !few_are_unique(contest)) return shift;
  const auto nearest_to_utc = std::min_element(
      contest.survivors.begin(), contest.survivors.end(),
      [](const Candidate& a, const Candidate& b) { return std::abs(a.line.offset_ns) < std::abs(b.line.offset_ns); });
  shift.verdict = contest.survivors.size() == 1 ? Verdict::decided : Verdict::ambiguous;
  shift.line = nearest_to_utc->line;
  shift.sample = contest.sample;
  shift.mean_evidence = contest.survivors.front().mean_evidence;
  return shift;
}

/// Searches near `prior`; a winner near the window's edge has rivals beyond it, so the window follows until it holds
/// them.
Shift search_near(const MemberSequence& member, const MemberSequence& reference, std::size_t centre,
                  Nanoseconds prior_ns, Nanoseconds reach_ns) {
  constexpr int most_moves = 8;
  const Sample sample = sample_around(centre, first_sample, member.symbols.size());
  Shift shift;
  for (int move = 0; move < most_moves; ++move) {
    const Contest contest =
        compete(member, reference, centre, offsets_near(member, reference, sample, prior_ns, reach_ns), reach_ns);
    shift = judge(contest);
    if (shift.verdict == Verdict::nothing) return shift;
    const Nanoseconds best_ns = std::llround(contest.survivors.front().line.offset_ns);
    if (shift.verdict == Verdict::ambiguous || std::abs(best_ns - prior_ns) <= utc_window_ns / 2) return shift;
    prior_ns = best_ns;
  }
  shift.verdict = Verdict::ambiguous;
  return shift;
}

Shift search(const MemberSequence& member, const MemberSequence& reference, std::size_t centre, Nanoseconds reach_ns) {
  const Shift near = search_near(member, reference, centre, 0, reach_ns);
  if (near.verdict == Verdict::decided) return near;
  if (member.symbols.size() < fewest_for_times) return near;
  // A session without UTC may be off by any amount.
  const Sample sample = sample_around(centre, first_sample, member.symbols.size());
  const std::vector<Nanoseconds> offsets = offsets_anywhere(member, reference, sample, reach_ns);
  const Contest contest = compete(member, reference, centre, offsets, reach_ns);
  if (contest.survivors.size() != 1) return near;
  // All rivals next to it must be seen before it counts.
  const Shift far =
      search_near(member, reference, centre, std::llround(contest.survivors.front().line.offset_ns), reach_ns);
  return far.verdict == Verdict::decided && far.mean_evidence > near.mean_evidence ? far : near;
}

}  // namespace

std::optional<ClockEstimate> estimate_clock(const MemberSequence& member, const MemberSequence& reference) {
  const std::size_t size = member.symbols.size();
  if (size < fewest_operations || reference.symbols.size() < fewest_operations) return std::nullopt;
  // Sharp agreement first; the wider reach is for operations whose members leave at different times.
  for (const Nanoseconds reach_ns : {250'000, 4'000'000}) {
    Shift fallback;
    // Places in eighths of the member: where one lies in a stretch that the reference lacks, another may not.
    for (const std::size_t eighth : {4, 2, 6, 1, 7, 3, 5}) {
      const Shift shift = search(member, reference, size * eighth / 8, reach_ns);
      if (shift.verdict == Verdict::decided) {
        return ClockEstimate{
            follow_clock(member, reference, shift.line, shift.sample.first, shift.sample.end, reach_ns), reach_ns};
      }
      if (shift.verdict == Verdict::ambiguous && fallback.verdict == Verdict::nothing) fallback = shift;
      if (size <= first_sample) break;
    }
    if (fallback.verdict == Verdict::ambiguous) {
      return ClockEstimate{
          follow_clock(member, reference, fallback.line, fallback.sample.first, fallback.sample.end, reach_ns),
          reach_ns};
    }
  }
  return std::nullopt;
}

}  // namespace nsys_explain::collectives
