#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>

#include "exit_agreement.hpp"
#include "nsys_explain/collectives/inference.hpp"
#include "nsys_explain/collectives/matching.hpp"
#include "shift_candidates.hpp"
#include "shift_search.hpp"

namespace nsys_explain::collectives {
namespace {

/// Exits that agree this well are taken for one operation's: most operations of real hardware do.
constexpr Nanoseconds sharp_ns = 5'000;
/// A relation with fewer sharp operations than this rests on a shift that may be wrong.
constexpr double least_sharp_share = 0.35;
/// The same where the lanes are of different operations that are merely coupled.
constexpr double least_coupled_share = 0.7;
constexpr int fewest_sharp = 8;

using LaneSequences = std::map<std::uint64_t, MemberSequence>;

/// Stands for all lanes of a trace rank together: where each lane is too regular or too short, their interplay may
/// tell.
constexpr std::uint64_t all_lanes = std::numeric_limits<std::uint64_t>::max();

LaneSequences sequences_of(std::span<const SampledOperation> by_exit) {
  LaneSequences sequences;
  for (const SampledOperation& operation : by_exit) {
    if (!may_end_together(operation.operation)) continue;
    for (const std::uint64_t lane : {operation.lane, all_lanes}) {
      MemberSequence& sequence = sequences[lane];
      sequence.symbols.push_back(operation.symbol);
      sequence.enter_ns.push_back(operation.enter_ns);
      sequence.exit_ns.push_back(operation.exit_ns);
    }
  }
  for (auto& [lane, sequence] : sequences) {
    for (std::size_t i = 1; i < sequence.enter_ns.size(); ++i)
      sequence.enter_ns[i] = std::max(sequence.enter_ns[i], sequence.enter_ns[i - 1]);
  }
  return sequences;
}

struct LanePair {
  const MemberSequence* member;
  const MemberSequence* reference;
  double least_share;  ///< of sharp operations, for the relation to be believed
};

/// Lanes of two trace ranks to compare. First those of like length, which are likely of one role, and of a long span,
/// which tell the drift. Lanes of different communicators may be coupled closely enough; last, all lanes together.
std::vector<LanePair> lane_pairs(const LaneSequences& members, const LaneSequences& references) {
  std::vector<std::tuple<int, double, std::uint64_t, std::uint64_t>> ranked;
  for (const auto& [m, member] : members) {
    for (const auto& [r, reference] : references) {
      if ((m == all_lanes) != (r == all_lanes)) continue;
      const bool is_known = std::max(m, r) >= first_nccl_key;
      const int resort = m == all_lanes ? 2 : is_known && m != r ? 1 : 0;
      const std::size_t shorter = std::min(member.symbols.size(), reference.symbols.size());
      const std::size_t longer = std::max(member.symbols.size(), reference.symbols.size());
      const double alike = static_cast<double>(shorter) / static_cast<double>(longer);
      if (shorter >= static_cast<std::size_t>(fewest_sharp) && alike >= agreeing_share)
        ranked.emplace_back(resort, -alike * static_cast<double>(member.exit_ns.back() - member.exit_ns.front()), m, r);
    }
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<LanePair> pairs;
  for (const auto& [resort, rank, m, r] : ranked)
    pairs.push_back({&members.at(m), &references.at(r), resort == 0 ? least_sharp_share : least_coupled_share});
  return pairs;
}

struct LaneRelation {
  RoughLine line;
  double sharp_share = 0;
};

/// How the clock of a lane lies against another's, if they share operations.
std::optional<LaneRelation> relate_lanes(const MemberSequence& member, const MemberSequence& reference,
                                         Nanoseconds centre_ns) {
  if (member.symbols.size() > reference.symbols.size()) {
    // A pipeline stage shares all of its operations with a neighbour that shares only half: the shorter one is asked.
    std::optional<LaneRelation> relation = relate_lanes(reference, member, centre_ns);
    if (relation) {
      RoughLine& line = relation->line;
      line = {line.slope * line.offset_ns - line.offset_ns, -line.slope};
    }
    return relation;
  }
  const std::optional<ClockEstimate> estimate = estimate_clock(member, reference);
  if (!estimate) return std::nullopt;
  const Nanoseconds middle_ns = member.exit_ns[member.exit_ns.size() / 2];
  const Nanoseconds base_ns = estimate->map.to_reference(middle_ns) - middle_ns;  // keeps the doubles small
  PartnerFinder partners(reference);
  std::vector<double> x, y;
  int covered = 0;
  for (std::size_t i = 0; i < member.symbols.size(); ++i) {
    const Nanoseconds exit_ns = estimate->map.to_reference(member.exit_ns[i]);
    if (exit_ns < reference.exit_ns.front() - sharp_ns || exit_ns > reference.exit_ns.back() + sharp_ns) continue;
    ++covered;
    // A few operations over a long time do not tell the estimate their drift.
    const std::ptrdiff_t partner = partners.nearest(member.symbols[i], exit_ns, agreement_reach_ns / 2);
    if (partner < 0) continue;
    x.push_back(static_cast<double>(member.exit_ns[i] - middle_ns));
    y.push_back(
        static_cast<double>(reference.exit_ns[static_cast<std::size_t>(partner)] - member.exit_ns[i] - base_ns));
  }
  const ClockLine line = fit_line(x, y, middle_ns, x.size() >= static_cast<std::size_t>(fewest_sharp));
  int sharp = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    sharp += std::abs(y[i] - line.offset_ns - line.slope * x[i]) <= static_cast<double>(sharp_ns) ? 1 : 0;
  LaneRelation relation;
  relation.line = {
      static_cast<double>(base_ns) + line.offset_ns + line.slope * static_cast<double>(centre_ns - middle_ns),
      line.slope};
  if (sharp >= fewest_sharp) relation.sharp_share = static_cast<double>(sharp) / covered;
  return relation;
}

/// Neighbours first: tensor groups are adjacent ranks, data and pipeline groups are a power of two or a small multiple
/// of it apart.
std::vector<std::size_t> strides_below(std::size_t ranks) {
  constexpr std::size_t all_below = 24;
  std::vector<std::size_t> strides;
  for (std::size_t stride = 1; stride < ranks; ++stride) {
    std::size_t odd = stride;
    while (odd % 2 == 0) odd /= 2;
    if (stride <= all_below || odd <= 3) strides.push_back(stride);
  }
  std::reverse(strides.begin(), strides.end());
  return strides;
}

}  // namespace

std::vector<SampledOperation> sample_lanes(std::span<const Arrival> arrivals, std::int32_t session,
                                           Nanoseconds centre_ns, std::size_t per_lane) {
  std::map<std::uint64_t, std::vector<const Arrival*>> lanes;
  for (const Arrival& arrival : arrivals) {
    lanes[arrival.communicator].push_back(&arrival);
  }
  std::vector<SampledOperation> samples;
  for (const auto& [lane, all] : lanes) {
    const auto later = std::lower_bound(all.begin(), all.end(), centre_ns,
                                        [](const Arrival* a, Nanoseconds t) { return a->enter_ns < t; });
    const Sample chosen = sample_around(static_cast<std::size_t>(later - all.begin()), per_lane, all.size());
    for (std::size_t i = chosen.first; i < chosen.end; ++i) {
      const Arrival& arrival = *all[i];
      samples.push_back({.enter_ns = arrival.enter_ns,
                         .exit_ns = arrival.exit_ns,
                         .symbol = arrival_symbol(arrival),
                         .trace_rank = arrival.trace_rank,
                         .session = session,
                         .lane = lane,
                         .operation = arrival.operation});
    }
  }
  return samples;
}

RoughClocks::RoughClocks(std::span<const SampledOperation> samples, std::size_t sessions, Nanoseconds centre_ns)
    : component_(sessions), line_(sessions), centre_ns_(centre_ns) {
  std::iota(component_.begin(), component_.end(), 0);
  std::map<std::int32_t, Rank> ranks;
  for (const SampledOperation& operation : samples) {
    Rank& rank = ranks[operation.trace_rank];
    rank.trace_rank = operation.trace_rank;
    rank.session = operation.session;
    rank.operations.push_back(operation);
  }
  for (auto& [number, rank] : ranks) {
    std::sort(rank.operations.begin(), rank.operations.end(), [](const SampledOperation& a, const SampledOperation& b) {
      return std::tie(a.exit_ns, a.enter_ns, a.lane) < std::tie(b.exit_ns, b.enter_ns, b.lane);
    });
    ranks_.push_back(std::move(rank));
  }
  strides_ = strides_below(ranks_.size());
}

std::vector<std::pair<std::int32_t, std::int32_t>> RoughClocks::next_round() {
  while (!strides_.empty()) {
    const std::size_t stride = strides_.back();
    strides_.pop_back();
    std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
    for (std::size_t r = 0; r + stride < ranks_.size(); ++r) {
      if (component_of(ranks_[r].session) == component_of(ranks_[r + stride].session)) continue;
      pairs.emplace_back(static_cast<std::int32_t>(r), static_cast<std::int32_t>(r + stride));
    }
    if (!pairs.empty()) return pairs;
  }
  return {};
}

std::optional<SessionRelation> RoughClocks::compare(std::pair<std::int32_t, std::int32_t> pair) const {
  const Rank& reference_rank = ranks_[static_cast<std::size_t>(pair.first)];
  const Rank& member_rank = ranks_[static_cast<std::size_t>(pair.second)];
  const LaneSequences members = sequences_of(member_rank.operations);
  const LaneSequences references = sequences_of(reference_rank.operations);
  for (const LanePair& lanes : lane_pairs(members, references)) {
    const std::optional<LaneRelation> found = relate_lanes(*lanes.member, *lanes.reference, centre_ns_);
    if (!found || found->sharp_share < lanes.least_share) continue;
    return SessionRelation{member_rank.session, reference_rank.session, found->line.offset_ns, found->line.slope,
                           found->sharp_share};
  }
  return std::nullopt;
}

void RoughClocks::accept(std::vector<SessionRelation> relations) {
  std::sort(relations.begin(), relations.end(), [](const SessionRelation& a, const SessionRelation& b) {
    return std::tuple(-a.sharp_share, a.reference, a.session, a.offset_ns) <
           std::tuple(-b.sharp_share, b.reference, b.session, b.offset_ns);
  });
  for (const SessionRelation& relation : relations) relate(relation);
}

/// Joins the component of relation.session to that of relation.reference. Lines are near the identity, so composing
/// them adds offsets and slopes, with the slope's part of the offset between their arguments.
void RoughClocks::relate(const SessionRelation& relation) {
  const std::int32_t from = component_of(relation.session), to = component_of(relation.reference);
  if (from == to) return;
  const RoughLine own = line_[static_cast<std::size_t>(relation.session)];
  const RoughLine reference = line_[static_cast<std::size_t>(relation.reference)];
  // common of `to` from session time, minus common of `from` from session time.
  const RoughLine moved{relation.offset_ns + reference.offset_ns + reference.slope * relation.offset_ns - own.offset_ns,
                        relation.slope + reference.slope - own.slope};
  for (std::size_t s = 0; s < component_.size(); ++s) {
    if (component_[s] != from) continue;
    component_[s] = to;
    line_[s].offset_ns += moved.offset_ns + moved.slope * (line_[s].offset_ns - own.offset_ns);
    line_[s].slope += moved.slope;
  }
}

std::int32_t RoughClocks::component_of(std::int32_t session) const {
  return component_[static_cast<std::size_t>(session)];
}

Nanoseconds RoughClocks::to_common(std::int32_t session, Nanoseconds t_ns) const {
  const RoughLine& line = line_[static_cast<std::size_t>(session)];
  return t_ns + std::llround(line.offset_ns + line.slope * static_cast<double>(t_ns - centre_ns_));
}

}  // namespace nsys_explain::collectives
