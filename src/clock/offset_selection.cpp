#include "clock/offset_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace nsys_explain::clock {
namespace {

/// A winner is only trusted with this many operations, if there are as many.
constexpr std::size_t decisive_sample = 512;
/// With fewer operations than this a repeated pattern fits by chance too easily.
constexpr std::size_t fewest_for_times = 8;
/// Offsets that fit alike over this many operations, and more closely than this, do so because the loop is regular, not
/// for want of operations or of the right offset.
constexpr std::size_t fewest_for_regularity = 256;
constexpr double regular_ns = 2'000;
/// Exits that agree less than this (mean log of reach / residual) do not agree.
constexpr double least_sharpness = 1.5;

/// A offset under test: its line, and per operation of the sample the partner and how well it agrees.
struct Candidate {
  ClockLine line;
  std::vector<std::ptrdiff_t> partner;  ///< -1 none
  std::vector<double> evidence;  ///< log(reach / residual), 0 without partner, negative outside the reference's window
  std::size_t covered = 0;
  std::size_t matched = 0;
  double mean_evidence = 0;  ///< over covered operations
};

constexpr double not_covered = -1;

double evidence_of(double residual_ns, Nanoseconds reach_ns) {
  const double agreement = (static_cast<double>(reach_ns) + residual_floor_ns) / (residual_ns + residual_floor_ns);
  return std::max(0.0, std::log(agreement));
}

/// Pairs the sample at the candidate's line, fits the line anew and weighs how sharply the pairs agree.
void evaluate(Candidate& candidate, const MemberSequence& member, const MemberSequence& reference,
              SequenceSample sample, Nanoseconds reach_ns) {
  constexpr std::size_t fewest_for_slope = 12;
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
    candidate.evidence[k] = evidence_of(std::abs(residual_ns), reach_ns);
    sum += candidate.evidence[k];
  }
  candidate.mean_evidence = candidate.covered > 0 ? sum / static_cast<double>(candidate.covered) : 0;
}

/// Log-likelihood ratio of an operation's evidence, the offset being right or unrelated. Distances to the partner have
/// a density of 1 / (distance + floor) up to the reach if it is right, which needs no scale, and an even one if it is
/// unrelated. An operation without partner, or beyond the reference's window, tells nothing.
double log_likelihood(double evidence, Nanoseconds reach_ns) {
  if (evidence <= 0) return 0;
  return evidence - std::log(std::log(static_cast<double>(reach_ns) / residual_floor_ns + 1));
}

/// True where the sample shows that `best` is right and `rival` is not.
///
/// One operation tells e^3 at most, so that it takes six. The least mean is for regular loops, in which neighbouring
/// operations repeat what one tells. Scan of 200 jobs (scan_matching --short, seeds 94000): with a least sum of 12, 16
/// and 24 there are wrong pairs in 7, 7 and 6, and 76, 73 and 69% are matched; a least mean of 0.2 and 0.4 changes
/// nothing, one of 0.5 withholds pipelines of six steps.
bool is_beaten(const Candidate& rival, const Candidate& best, Nanoseconds reach_ns) {
  constexpr double least_sum = 16, least_mean = 0.3, most_of_one = 3;
  double sum = 0, covered = 0;
  for (std::size_t k = 0; k < best.evidence.size(); ++k) {
    if (best.evidence[k] == not_covered && rival.evidence[k] == not_covered) continue;
    const double ratio = log_likelihood(best.evidence[k], reach_ns) - log_likelihood(rival.evidence[k], reach_ns);
    sum += std::clamp(ratio, -most_of_one, most_of_one);
    covered += 1;
  }
  return sum > std::max(least_sum, least_mean * covered);
}

/// Two candidates that have run into the same offset.
bool is_same_offset(const Candidate& a, const Candidate& b) {
  std::size_t both = 0, equal = 0;
  for (std::size_t k = 0; k < a.partner.size(); ++k) {
    if (a.partner[k] < 0 || b.partner[k] < 0) continue;
    ++both;
    equal += a.partner[k] == b.partner[k] ? 1 : 0;
  }
  return 2 * equal > both;
}

/// Evaluates candidates on a sample; best first, without those that cover or match too little and those that have
/// become another.
void rank(std::vector<Candidate>& candidates, const MemberSequence& member, const MemberSequence& reference,
          SequenceSample sample, Nanoseconds reach_ns) {
  for (Candidate& candidate : candidates) evaluate(candidate, member, reference, sample, reach_ns);
  std::erase_if(candidates, [&](const Candidate& c) {
    return c.covered < std::min(first_sample, sample.size()) / 2 || 5 * c.matched < 2 * c.covered;
  });
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.mean_evidence > b.mean_evidence; });
  std::vector<Candidate> distinct;
  for (Candidate& candidate : candidates) {
    const bool known =
        std::any_of(distinct.begin(), distinct.end(), [&](const Candidate& d) { return is_same_offset(d, candidate); });
    if (!known) distinct.push_back(std::move(candidate));
  }
  candidates = std::move(distinct);
}

std::vector<Candidate> candidates_at(std::span<const Nanoseconds> offsets, Nanoseconds origin_ns) {
  std::vector<Candidate> candidates(offsets.size());
  for (std::size_t c = 0; c < offsets.size(); ++c) candidates[c].line = {origin_ns, static_cast<double>(offsets[c]), 0};
  return candidates;
}

/// How well wrong offsets fit: the reference against itself by one period and more, where `best` says that the sample
/// lies. Those that `best` does not beat, with their evidence at the operations of the sample; best first.
///
/// Without this the best of wrong offsets would win where the right one is not among the candidates, for instance
/// because the reference lacks the whole sample.
std::vector<Candidate> unbeaten_wrong_offsets(const Candidate& best, const MemberSequence& reference,
                                              Nanoseconds reach_ns) {
  SequenceSample stretch{reference.symbols.size(), 0};
  for (const std::ptrdiff_t partner : best.partner) {
    if (partner < 0) continue;
    stretch.first = std::min(stretch.first, static_cast<std::size_t>(partner));
    stretch.end = std::max(stretch.end, static_cast<std::size_t>(partner) + 1);
  }
  const SequenceSample voters = compact_sample(reference, stretch.first + stretch.size() / 2);
  const std::size_t centre = voters.first + voters.size() / 2;
  std::vector<Candidate> wrong =
      candidates_at(offsets_near(reference, reference, voters, 0, reach_ns), reference.exit_ns[centre]);
  rank(wrong, reference, reference, voters, reach_ns);
  rank(wrong, reference, reference, stretch, reach_ns);
  std::erase_if(wrong, [&](Candidate& candidate) {
    std::size_t at_itself = 0;
    std::vector<double> evidence(best.evidence.size(), not_covered);
    for (std::size_t k = 0; k < evidence.size(); ++k) {
      if (best.partner[k] < 0) continue;
      const std::size_t place = static_cast<std::size_t>(best.partner[k]) - stretch.first;
      evidence[k] = candidate.evidence[place];
      at_itself += candidate.partner[place] == best.partner[k] ? 1 : 0;
    }
    candidate.evidence = std::move(evidence);
    const bool is_no_shift = 2 * at_itself > best.matched;
    return is_no_shift || is_beaten(candidate, best, reach_ns);
  });
  return wrong;
}

/// True if all symbols of the sample occur once: then symbols alone decide, however few there are.
bool are_symbols_unique(const MemberSequence& member, const MemberSequence& reference, SequenceSample sample) {
  for (std::size_t i = sample.first; i < sample.end; ++i) {
    for (const MemberSequence* sequence : {&member, &reference}) {
      if (std::count(sequence->symbols.begin(), sequence->symbols.end(), member.symbols[i]) > 1) return false;
    }
  }
  return true;
}

/// The verdict on what the last sample left. `wrong`: wrong offsets that fit as well as the best survivor, or better.
Verdict judge(std::span<const Candidate> survivors, std::span<const Candidate> wrong, const MemberSequence& member,
              const MemberSequence& reference, SequenceSample sample, Nanoseconds reach_ns) {
  const Candidate& best = survivors.front();
  if (best.matched < fewest_for_times) {
    const bool told_by_symbols = survivors.size() == 1 && best.matched == sample.size() &&
                                 best.matched >= fewest_operations && are_symbols_unique(member, reference, sample);
    return told_by_symbols ? Verdict::decided : Verdict::nothing;
  }
  if (best.mean_evidence < least_sharpness) return Verdict::nothing;
  if (survivors.size() == 1 && wrong.empty()) return Verdict::decided;
  if (wrong.empty() || sample.size() < fewest_for_regularity) return Verdict::nothing;
  const double regular = std::log(static_cast<double>(reach_ns) / regular_ns);
  return std::min(best.mean_evidence, wrong.front().mean_evidence) > regular ? Verdict::ambiguous : Verdict::nothing;
}

/// Of offsets that fit alike, the one nearest to UTC.
const Candidate& nearest_to_utc(std::span<const Candidate> survivors) {
  return *std::min_element(survivors.begin(), survivors.end(), [](const Candidate& a, const Candidate& b) {
    return std::abs(a.line.offset_ns) < std::abs(b.line.offset_ns);
  });
}

}  // namespace

FittedOffset compete(const MemberSequence& member, const MemberSequence& reference, std::size_t centre,
                     std::span<const Nanoseconds> offsets, Nanoseconds reach_ns) {
  const std::size_t available = member.symbols.size();
  std::vector<Candidate> survivors = candidates_at(offsets, member.exit_ns[centre]);
  for (std::size_t wanted = first_sample;; wanted *= 2) {
    const SequenceSample sample = sample_around(centre, wanted, available);
    rank(survivors, member, reference, sample, reach_ns);
    if (survivors.empty()) return {};
    const Candidate best = survivors.front();
    std::erase_if(survivors, [&](const Candidate& c) { return is_beaten(c, best, reach_ns); });
    const bool is_last = sample.size() == available || wanted >= largest_sample;
    if (!is_last && (survivors.size() > 1 || wanted < decisive_sample)) continue;
    const std::vector<Candidate> wrong = unbeaten_wrong_offsets(best, reference, reach_ns);
    if (!wrong.empty() && !is_last) continue;
    return {.verdict = judge(survivors, wrong, member, reference, sample, reach_ns),
            .line = nearest_to_utc(survivors).line,
            .best_offset_ns = std::llround(survivors.front().line.offset_ns),
            .sample = sample,
            .sharpness = survivors.front().mean_evidence};
  }
}

}  // namespace nsys_explain::clock
