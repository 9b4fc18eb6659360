#include "clock/coarse_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "clock/offset_search.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::clock {

namespace {

/// Ends of members of one communicator agree this well, of the kind of operation that agrees best; those of others that
/// something holds in step hardly ever.
constexpr double shared_residual_ns = 2'000;
/// Ranks of two hosts that lie as far apart do alike: where a few pairs share nothing, others do not, either.
constexpr std::size_t most_pairs_alike = 3;

/// Equal for sequences that may be of one communicator: by its name, else by the kinds of operations it consists of.
std::uint64_t kind_of(const RecordedSequence& sequence) {
  if (sequence.communicator != 0) return sequence.communicator;
  std::map<std::uint64_t, std::size_t> counts;
  for (const std::uint64_t symbol : sequence.operations.symbols) ++counts[symbol];
  constexpr std::size_t one_in = 10;  // rare kinds may not have been captured
  std::uint64_t kind = 0;
  for (const auto& [symbol, count] : counts) {
    if (one_in * count >= sequence.operations.symbols.size()) kind = kind * golden_ratio + (symbol >> 32U) + 1;
  }
  return kind;
}

}  // namespace

CoarseClocks::CoarseClocks(std::vector<RecordedSequence> sequences, std::span<const SessionTie> ties,
                           Nanoseconds centre_ns)
    : sequences_(std::move(sequences)), component_(ties.size()), line_(ties.size()), centre_ns_(centre_ns) {
  std::iota(component_.begin(), component_.end(), 0);
  std::sort(sequences_.begin(), sequences_.end(), [](const RecordedSequence& a, const RecordedSequence& b) {
    return std::tuple(a.trace_rank, a.communicator, a.digest, a.positions.size()) <
           std::tuple(b.trace_rank, b.communicator, b.digest, b.positions.size());
  });
  for (const RecordedSequence& sequence : sequences_) {
    kinds_.push_back(kind_of(sequence));
    std::vector<std::int32_t>& sessions = sessions_of_[kinds_.back()];
    if (std::find(sessions.begin(), sessions.end(), sequence.session) == sessions.end())
      sessions.push_back(sequence.session);
  }
  tie_sessions(ties);
}

/// The first session of a unit is the reference of the others.
void CoarseClocks::tie_sessions(std::span<const SessionTie> ties) {
  std::map<std::int32_t, std::size_t> first;
  for (std::size_t s = 0; s < ties.size(); ++s) {
    if (ties[s].unit < 0) continue;
    const std::size_t reference = first.try_emplace(ties[s].unit, s).first->second;
    component_[s] = static_cast<std::int32_t>(reference);
    line_[s].offset_ns = static_cast<double>(ties[reference].offset_ns - ties[s].offset_ns);
  }
}

std::vector<SessionPair> CoarseClocks::next_round() {
  std::size_t longest = 0;
  for (const auto& [kind, sessions] : sessions_of_) longest = std::max(longest, sessions.size());
  while (stride_ < longest) {
    std::vector<SessionPair> round = pairs_at(stride_);
    stride_ *= 2;
    if (!round.empty()) return round;
  }
  accept_loose();
  return {};
}

/// Pairs of sessions of different components so far apart among those that communicate alike.
std::vector<SessionPair> CoarseClocks::pairs_at(std::size_t stride) {
  std::vector<SessionPair> pairs;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> alike;
  for (const auto& [kind, sessions] : sessions_of_) {
    for (std::size_t s = 0; s + stride < sessions.size(); ++s) {
      const std::pair<std::int32_t, std::int32_t> pair(sessions[s], sessions[s + stride]);
      const std::pair components(component_of(pair.first), component_of(pair.second));
      if (components.first == components.second || compared_.contains(pair)) continue;
      if (++alike[components] > most_pairs_alike) continue;
      compared_.insert(pair);
      pairs.push_back({pair.first, pair.second});
    }
  }
  return pairs;
}

std::optional<SessionRelation> CoarseClocks::compare(const SessionPair& pair) const {
  constexpr std::size_t most_compared = 16;  // of one kind: ranks of two sessions that lie alike come first
  std::map<std::uint64_t, std::pair<std::vector<std::size_t>, std::vector<std::size_t>>> of_kind;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].session == pair.session) of_kind[kinds_[i]].first.push_back(i);
    if (sequences_[i].session == pair.reference) of_kind[kinds_[i]].second.push_back(i);
  }
  std::optional<SequenceRelation> best;
  for (const auto& [kind, sides] : of_kind) {
    const auto& [members, references] = sides;
    std::size_t compared = 0;
    for (std::size_t turn = 0; turn < references.size() && compared < most_compared; ++turn) {
      for (std::size_t m = 0; m < members.size() && compared < most_compared; ++m, ++compared) {
        const std::size_t r = (m + turn) % references.size();
        const auto found = relate_sequences(sequences_[members[m]], sequences_[references[r]], centre_ns_);
        if (found && (!best || found->residual_ns < best->residual_ns)) best = found;
      }
      if (best && best->residual_ns <= shared_residual_ns) break;
    }
  }
  if (!best) return std::nullopt;
  return SessionRelation{pair.session, pair.reference, best->line.offset_ns, best->line.slope, best->residual_ns};
}

void CoarseClocks::accept(std::span<const SessionRelation> relations) {
  std::vector<SessionRelation> sharp;
  for (const SessionRelation& relation : relations)
    (relation.residual_ns <= shared_residual_ns ? sharp : loose_).push_back(relation);
  std::sort(sharp.begin(), sharp.end(), [](const SessionRelation& a, const SessionRelation& b) {
    return std::tuple(a.residual_ns, a.reference, a.session) < std::tuple(b.residual_ns, b.reference, b.session);
  });
  for (const SessionRelation& relation : sharp) relate(relation);
}

void CoarseClocks::accept_loose() {
  std::sort(loose_.begin(), loose_.end(), [](const SessionRelation& a, const SessionRelation& b) {
    return std::tuple(a.residual_ns, a.reference, a.session) < std::tuple(b.residual_ns, b.reference, b.session);
  });
  for (const SessionRelation& relation : loose_) relate(relation);
  loose_.clear();
}

/// Joins the component of relation.session to that of relation.reference. Lines are near the identity, so composing
/// them adds offsets and slopes, with the slope's part of the offset between their arguments.
void CoarseClocks::relate(const SessionRelation& relation) {
  const std::int32_t from = component_of(relation.session), to = component_of(relation.reference);
  if (from == to) return;
  const Line own = line_[static_cast<std::size_t>(relation.session)];
  const Line reference = line_[static_cast<std::size_t>(relation.reference)];
  // Common time of `to` from session time, minus common time of `from` from session time.
  const Line moved{relation.offset_ns + reference.offset_ns + reference.slope * relation.offset_ns - own.offset_ns,
                   relation.slope + reference.slope - own.slope};
  for (std::size_t s = 0; s < component_.size(); ++s) {
    if (component_[s] != from) continue;
    component_[s] = to;
    line_[s].offset_ns += moved.offset_ns + moved.slope * (line_[s].offset_ns - own.offset_ns);
    line_[s].slope += moved.slope;
  }
}

Nanoseconds CoarseClocks::to_common(std::int32_t session, SessionTime time) const {
  const Line& line = line_[static_cast<std::size_t>(session)];
  return time.ns + std::llround(line.offset_ns + line.slope * static_cast<double>(time.ns - centre_ns_));
}

namespace {

/// Indices of operations that are one: member, reference.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs_by_position(const RecordedSequence& member, const RecordedSequence& reference) {
  Pairs pairs;
  for (std::size_t i = 0, j = 0; i < member.positions.size() && j < reference.positions.size();) {
    if (member.positions[i] == reference.positions[j])
      pairs.emplace_back(i++, j++);
    else if (member.positions[i] < reference.positions[j])
      ++i;
    else
      ++j;
  }
  return pairs;
}

Pairs pairs_by_time(const RecordedSequence& member, const RecordedSequence& reference, const ClockEstimate& estimate) {
  Pairs pairs;
  PartnerFinder partners(reference.operations);
  for (std::size_t i = 0; i < member.positions.size(); ++i) {
    const Nanoseconds exit_ns = estimate.map.to_reference(member.operations.exit_ns[i]);
    const std::ptrdiff_t j = partners.nearest(member.operations.symbols[i], exit_ns, estimate.reach_ns);
    if (j >= 0) pairs.emplace_back(i, static_cast<std::size_t>(j));
  }
  return pairs;
}

/// Members differ at the end of each kind of operation by a bias of their own.
double sharpest_residual(const std::map<std::uint64_t, std::vector<double>>& residuals_of_symbol, std::size_t pairs) {
  constexpr std::size_t fewest = 6;
  double sharpest = std::numeric_limits<double>::infinity();
  for (auto [symbol, residuals] : residuals_of_symbol) {
    if (4 * residuals.size() < pairs || residuals.size() < fewest) continue;  // of a few, some agree by chance
    const double usual = upper_median(residuals);
    double sum = 0;
    for (const double residual : residuals) sum += std::log(std::abs(residual - usual) + residual_floor_ns / 2);
    sharpest = std::min(sharpest, std::exp(sum / static_cast<double>(residuals.size())));
  }
  return sharpest;
}

std::optional<SequenceRelation> fit_relation(const RecordedSequence& member, const RecordedSequence& reference,
                                             const Pairs& pairs, Nanoseconds centre_ns) {
  constexpr std::size_t fewest_for_slope = 12;
  if (pairs.empty()) return std::nullopt;
  const auto difference = [&](const std::pair<std::size_t, std::size_t>& pair) {
    return reference.operations.exit_ns[pair.second] - member.operations.exit_ns[pair.first];
  };
  const Nanoseconds base_ns = difference(pairs.front());  // keeps the doubles of the fit small
  std::vector<double> x, y;
  for (const auto& pair : pairs) {
    x.push_back(static_cast<double>(member.operations.exit_ns[pair.first] - centre_ns));
    y.push_back(static_cast<double>(difference(pair) - base_ns));
  }
  SequenceRelation relation;
  relation.line = fit_line(x, y, centre_ns, x.size() >= fewest_for_slope);
  std::map<std::uint64_t, std::vector<double>> residuals;
  for (std::size_t p = 0; p < pairs.size(); ++p)
    residuals[member.operations.symbols[pairs[p].first]].push_back(y[p] - relation.line.offset_ns -
                                                                   relation.line.slope * x[p]);
  relation.line.offset_ns += static_cast<double>(base_ns);
  relation.residual_ns = sharpest_residual(residuals, pairs.size());
  return relation;
}

}  // namespace

std::optional<SequenceRelation> relate_sequences(const RecordedSequence& member, const RecordedSequence& reference,
                                                 Nanoseconds centre_ns) {
  constexpr double far_better = 4, sharp_ns = 2'000;
  std::optional<SequenceRelation> in_order;
  if (member.digest == reference.digest)
    in_order = fit_relation(member, reference, pairs_by_position(member, reference), centre_ns);
  if (in_order && in_order->residual_ns <= sharp_ns) return in_order;
  const bool is_one = member.communicator != 0 && member.communicator == reference.communicator;
  // Ends of one communicator's operations agree. Where these do not, each member may have lost a record, not the same.
  if (is_one) in_order.reset();
  const auto estimate = estimate_clock(member.operations, reference.operations);
  if (!estimate) return in_order;
  const auto found = fit_relation(member, reference, pairs_by_time(member, reference, *estimate), centre_ns);
  if (!in_order || (found && far_better * found->residual_ns < in_order->residual_ns)) return found;
  return in_order;
}

}  // namespace nsys_explain::clock
