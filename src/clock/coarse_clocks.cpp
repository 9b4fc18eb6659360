#include "clock/coarse_clocks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <tuple>

#include "clock/sequence_relation.hpp"
#include "model/hash.hpp"

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

Nanoseconds CoarseClocks::to_common(std::int32_t session, Nanoseconds t_ns) const {
  const Line& line = line_[static_cast<std::size_t>(session)];
  return t_ns + std::llround(line.offset_ns + line.slope * static_cast<double>(t_ns - centre_ns_));
}

}  // namespace nsys_explain::clock
