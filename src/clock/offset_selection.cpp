#include "clock/offset_selection.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <numeric>

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
/// Advantage in mean evidence below which one offset does not count as better than another.
constexpr double least_advantage = 0.15;

/// A offset under test: its line, and per operation of the sample the partner and how well it agrees.
struct Candidate {
  ClockLine line;
  std::span<const std::uint64_t> symbols;
  std::vector<std::ptrdiff_t> partner;  ///< -1 none
  std::vector<double> evidence;  ///< log(reach / residual), 0 without partner, negative outside the reference's window
  std::size_t covered = 0;
  std::size_t matched = 0;
  double mean_evidence = 0;  ///< over covered operations
};

constexpr double not_covered = -1;

/// All-reduces and reduce-scatters agree this well.
constexpr double sharp_residual_ns = 2'000;

double evidence_of(double residual_ns, Nanoseconds reach_ns) {
  const double agreement = (static_cast<double>(reach_ns) + residual_floor_ns) / (residual_ns + residual_floor_ns);
  return std::max(0.0, std::log(agreement));
}

/// Pairs the sample at the candidate's line, fits the line anew and weighs how sharply the pairs agree.
void evaluate(Candidate& candidate, const MemberSequence& member, const MemberSequence& reference,
              SequenceSample sample, Nanoseconds reach_ns) {
  constexpr std::size_t fewest_for_slope = 12;
  candidate.symbols = std::span(member.symbols).subspan(sample.first, sample.size());
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

std::size_t count_sharp(const Candidate& candidate, Nanoseconds reach_ns) {
  const double sharp = evidence_of(sharp_residual_ns, reach_ns);
  return static_cast<std::size_t>(std::count_if(candidate.evidence.begin(), candidate.evidence.end(),
                                                [&](double evidence) { return evidence >= sharp; }));
}

/// So many exits do not come to lie this closely together by chance, nor because a loop is regular if hardly any do at
/// the other offset. All that either covers counts: a rival by many steps covers little, and little may fit it by
/// chance.
bool is_far_sharper(const Candidate& best, const Candidate& rival, Nanoseconds reach_ns) {
  constexpr std::size_t fewest = 24, times = 4;
  return count_sharp(best, reach_ns) >= std::max(fewest, times * count_sharp(rival, reach_ns));
}

/// Operations of the sample whose symbols end sharply: two in three of their pairs are sharp. Members leave all-gathers
/// when they like, and say nothing of an offset then.
std::vector<bool> of_sharp_symbols(const Candidate& candidate, Nanoseconds reach_ns) {
  const double sharp = evidence_of(sharp_residual_ns, reach_ns);
  std::map<std::uint64_t, std::pair<std::size_t, std::size_t>> pairs;  // by symbol: all, sharp
  for (std::size_t k = 0; k < candidate.evidence.size(); ++k) {
    if (candidate.partner[k] < 0) continue;
    auto& [all, sharply] = pairs[candidate.symbols[k]];
    ++all;
    sharply += candidate.evidence[k] >= sharp ? 1 : 0;
  }
  std::vector<bool> found(candidate.evidence.size());
  for (std::size_t k = 0; k < found.size(); ++k) {
    const auto& [all, sharply] = pairs[candidate.symbols[k]];
    found[k] = all > 0 && 3 * sharply >= 2 * all;
  }
  return found;
}

/// The sharpest offset, which all rivals are held against.
struct Favourite {
  const Candidate& offset;
  Kinship kinship;
  std::vector<bool> all, of_sharp_symbols;  ///< by operation of the sample; empty where kinship is unknown

  Favourite(const Candidate& candidate, Kinship kin, Nanoseconds reach_ns) : offset(candidate), kinship(kin) {
    if (kin == Kinship::unknown) return;
    all.assign(candidate.evidence.size(), true);
    of_sharp_symbols = clock::of_sharp_symbols(candidate, reach_ns);
  }
};

/// Among members of one communicator, few operations decide where most of them agree as closely as exits of one
/// operation do, which a wrong offset manages for single stretches only, and where they agree far better than at the
/// rival. `counted`: the operations that are looked at.
bool is_much_likelier(const Candidate& best, const Candidate& rival, const std::vector<bool>& counted,
                      Nanoseconds reach_ns) {
  constexpr std::size_t fewest_sharp = 8, beyond_half = 3;
  constexpr double least_advantage_in_all = 8, least_mean_advantage = 0.5, most_of_one = 3;
  const double sharp = evidence_of(sharp_residual_ns, reach_ns);
  double advantage = 0;
  std::size_t covered_by_both = 0, matched = 0, sharply = 0;
  for (std::size_t k = 0; k < best.evidence.size(); ++k) {
    if (!counted[k]) continue;
    matched += best.partner[k] >= 0 ? 1 : 0;
    sharply += best.evidence[k] >= sharp ? 1 : 0;
    if (best.evidence[k] == not_covered || rival.evidence[k] == not_covered) continue;
    advantage += std::clamp(best.evidence[k] - rival.evidence[k], -most_of_one, most_of_one);
    ++covered_by_both;
  }
  return sharply >= fewest_sharp && 2 * sharply >= matched + 2 * beyond_half &&
         advantage >= std::max(least_advantage_in_all, least_mean_advantage * static_cast<double>(covered_by_both));
}

bool is_much_likelier(const Favourite& best, const Candidate& rival, Nanoseconds reach_ns) {
  return is_much_likelier(best.offset, rival, best.all, reach_ns) ||
         is_much_likelier(best.offset, rival, best.of_sharp_symbols, reach_ns);
}

/// True where the sample shows that `best` is right and `rival` is not: the mean advantage in evidence is beyond
/// chance. Block means tell how much chance there is, because the residuals of neighbouring operations are alike.
bool is_beaten(const Candidate& rival, const Favourite& favourite, Nanoseconds reach_ns) {
  const Candidate& best = favourite.offset;
  if (is_far_sharper(best, rival, reach_ns)) return true;
  if (favourite.kinship == Kinship::one_communicator && is_much_likelier(favourite, rival, reach_ns)) return true;
  constexpr std::size_t blocks = 16;
  constexpr double standard_errors = 6;
  // Beyond this an operation only adds to the scatter: how often one offset is better counts, not by how much.
  constexpr double largest_advantage = 1;
  std::vector<double> advantages;
  for (std::size_t k = 0; k < best.evidence.size(); ++k) {
    if (best.evidence[k] == not_covered || rival.evidence[k] == not_covered) continue;
    advantages.push_back(std::clamp(best.evidence[k] - rival.evidence[k], -largest_advantage, largest_advantage));
  }
  const std::size_t size = advantages.size(), used = std::min(blocks, size);
  if (used < blocks / 2) return false;
  double sum = 0, squares = 0;
  for (std::size_t b = 0; b < used; ++b) {
    const std::size_t first = b * size / used, end = (b + 1) * size / used;
    const double mean = std::accumulate(advantages.begin() + static_cast<std::ptrdiff_t>(first),
                                        advantages.begin() + static_cast<std::ptrdiff_t>(end), 0.0) /
                        static_cast<double>(end - first);
    sum += mean;
    squares += mean * mean;
  }
  const auto n = static_cast<double>(used);
  const double mean = sum / n;
  const double variance = std::max(0.0, squares / n - mean * mean) * n / (n - 1);
  return mean > least_advantage && mean > standard_errors * std::sqrt(variance / n);
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
std::vector<Candidate> unbeaten_wrong_offsets(const Favourite& favourite, const MemberSequence& reference,
                                              Nanoseconds reach_ns) {
  const Candidate& best = favourite.offset;
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
    return is_no_shift || is_beaten(candidate, favourite, reach_ns);
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

FittedOffset compete(const MemberSequence& member, const MemberSequence& reference, Kinship kinship, std::size_t centre,
                     std::span<const Nanoseconds> offsets, Nanoseconds reach_ns) {
  const std::size_t available = member.symbols.size();
  std::vector<Candidate> survivors = candidates_at(offsets, member.exit_ns[centre]);
  for (std::size_t wanted = first_sample;; wanted *= 2) {
    const SequenceSample sample = sample_around(centre, wanted, available);
    rank(survivors, member, reference, sample, reach_ns);
    if (survivors.empty()) return {};
    const Candidate best = survivors.front();
    const Favourite favourite(best, kinship, reach_ns);
    std::erase_if(survivors, [&](const Candidate& c) { return is_beaten(c, favourite, reach_ns); });
    const bool is_last = sample.size() == available || wanted >= largest_sample;
    if (!is_last && (survivors.size() > 1 || wanted < decisive_sample)) continue;
    const std::vector<Candidate> wrong = unbeaten_wrong_offsets(favourite, reference, reach_ns);
    if (!wrong.empty() && !is_last) continue;
    return {.verdict = judge(survivors, wrong, member, reference, sample, reach_ns),
            .line = nearest_to_utc(survivors).line,
            .best_offset_ns = std::llround(survivors.front().line.offset_ns),
            .sample = sample,
            .sharpness = survivors.front().mean_evidence};
  }
}

}  // namespace nsys_explain::clock
