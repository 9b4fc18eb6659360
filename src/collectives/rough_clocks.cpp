#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>

#include "collectives/exit_agreement.hpp"
#include "collectives/forest.hpp"
#include "collectives/hash_mix.hpp"
#include "collectives/inference.hpp"
#include "collectives/lane_pairs.hpp"
#include "collectives/matching.hpp"
#include "collectives/program_places.hpp"
#include "collectives/shift_candidates.hpp"

namespace nsys_explain::collectives {
namespace {

/// Trace ranks that share nothing cost most, and a relation takes one that share something.
constexpr std::size_t most_comparisons_per_component = 12;

/// Neighbours first: tensor groups are adjacent ranks, data and pipeline groups are a power of two or a small multiple
/// of it apart. Before all but the nearest, ranks of one place on two hosts: groups across hosts hold those. Last
/// first.
std::vector<std::size_t> strides_below(std::size_t ranks, std::size_t ranks_per_host) {
  constexpr std::size_t all_below = 24;
  std::vector<std::size_t> strides;
  for (std::size_t stride = 1; stride < ranks; ++stride) {
    std::size_t odd = stride;
    while (odd % 2 == 0) odd /= 2;
    if (stride <= all_below || odd <= 3) strides.push_back(stride);
  }
  std::stable_partition(strides.begin(), strides.end(), [&](std::size_t stride) {
    const std::size_t hosts = stride % ranks_per_host == 0 ? stride / ranks_per_host : 0;
    return stride == 1 || std::has_single_bit(hosts);
  });
  std::reverse(strides.begin(), strides.end());
  return strides;
}

/// One member's record of an operation, on a common time.
struct PooledRecord {
  std::uint64_t symbol = 0;
  Nanoseconds exit_ns = 0;
  Nanoseconds enter_ns = 0;
  std::int32_t trace_rank = -1;
};

/// Operations from the records of their members: those of different trace ranks that end almost together. At most a
/// few thousand around the centre.
MemberSequence merge_records(std::vector<PooledRecord> records, Nanoseconds centre_ns) {
  constexpr std::size_t most_operations = 8192;
  constexpr Nanoseconds together_ns = 50'000;
  std::sort(records.begin(), records.end(), [](const PooledRecord& a, const PooledRecord& b) {
    return std::tie(a.symbol, a.exit_ns, a.trace_rank) < std::tie(b.symbol, b.exit_ns, b.trace_rank);
  });
  std::vector<PooledRecord> operations;
  std::set<std::int32_t> members;
  Nanoseconds last_exit_ns = 0;
  for (const PooledRecord& record : records) {
    const bool is_same = !operations.empty() && operations.back().symbol == record.symbol &&
                         record.exit_ns - last_exit_ns <= together_ns && !members.contains(record.trace_rank);
    if (is_same) {
      operations.back().enter_ns = std::max(operations.back().enter_ns, record.enter_ns);
    } else {
      operations.push_back(record);
      members.clear();
    }
    members.insert(record.trace_rank);
    last_exit_ns = record.exit_ns;
  }
  std::sort(operations.begin(), operations.end(), [](const PooledRecord& a, const PooledRecord& b) {
    return std::tie(a.exit_ns, a.enter_ns, a.symbol) < std::tie(b.exit_ns, b.enter_ns, b.symbol);
  });
  const auto centre =
      std::lower_bound(operations.begin(), operations.end(), centre_ns,
                       [](const PooledRecord& operation, Nanoseconds t) { return operation.exit_ns < t; });
  const Sample kept =
      sample_around(static_cast<std::size_t>(centre - operations.begin()), most_operations, operations.size());
  MemberSequence sequence;
  for (std::size_t i = kept.first; i < kept.end; ++i)
    append_operation(sequence, operations[i].symbol, operations[i].enter_ns, operations[i].exit_ns);
  return sequence;
}

/// The relation of two trace ranks by lanes, or parts of lanes, with most sharp operations.
std::optional<LaneRelation> relate_by(LanePart::Kind kind, std::span<const LanePair> pairs, Nanoseconds centre_ns) {
  // Two communicators that the program holds in step agree in part; lanes of one agree in nearly all.
  constexpr double surely_one = 0.9, far_more = 3;
  std::optional<LaneRelation> best;
  std::pair<bool, double> most_telling{false, 0};  // one communicator's, sharp operations
  for (const LanePair& lanes : pairs) {
    if (lanes.kind != kind) continue;
    const auto found = relate_lanes(*lanes.member, *lanes.reference, Kinship::unknown, centre_ns);
    if (!found || found->sharp_share < lanes.least_share) continue;
    // Lanes in step leave within some microseconds of each other, and seldom closely.
    if (found->sharp_share < far_more * found->beside_share) continue;
    const std::pair telling(found->sharp_share >= surely_one, found->sharp_share * static_cast<double>(found->covered));
    if (telling <= most_telling) continue;
    most_telling = telling;
    best = found;
    if (telling.first || kind != LanePart::Kind::lane) break;
  }
  return best;
}

/// Operations of several sequences as one.
MemberSequence merge_sequences(std::span<const MemberSequence* const> sequences) {
  std::vector<std::tuple<Nanoseconds, Nanoseconds, std::uint64_t>> operations;
  for (const MemberSequence* sequence : sequences) {
    for (std::size_t i = 0; i < sequence->symbols.size(); ++i)
      operations.emplace_back(sequence->exit_ns[i], sequence->enter_ns[i], sequence->symbols[i]);
  }
  std::sort(operations.begin(), operations.end());
  MemberSequence merged;
  for (const auto& [exit_ns, enter_ns, symbol] : operations) append_operation(merged, symbol, enter_ns, exit_ns);
  return merged;
}

/// The relation of two trace ranks by what they did at places of the program, or by what lies on one side of those, as
/// far as that ends as closely together as operations of one communicator do: of a lane whose communicators are mostly
/// of one host, what little goes to others. The closest place tells the shift, all that agree with it the line.
std::optional<LaneRelation> relate_places(LanePart::Kind kind, std::span<const LanePair> pairs, Nanoseconds centre_ns) {
  constexpr double largest_spread_ns = 2'000;
  std::optional<LaneRelation> best;
  for (const LanePair& lanes : pairs) {
    if (lanes.kind != kind) continue;
    const auto found = relate_lanes(*lanes.member, *lanes.reference, Kinship::one_communicator, centre_ns);
    if (!found || found->spread_ns > largest_spread_ns) continue;
    if (!best || found->spread_ns < best->spread_ns) best = found;
  }
  if (!best) return std::nullopt;
  const ClockMap map({{centre_ns, best->line.offset_ns, best->line.slope}});
  std::vector<const MemberSequence*> members, references;
  for (const LanePair& lanes : pairs) {
    if (lanes.kind != kind) continue;
    const LaneRelation found = measure_relation(*lanes.member, *lanes.reference, map, centre_ns);
    if (found.paired < fewest_sharp || found.spread_ns > largest_spread_ns) continue;
    members.push_back(lanes.member);
    references.push_back(lanes.reference);
  }
  if (members.empty()) return best;
  return measure_relation(merge_sequences(members), merge_sequences(references), map, centre_ns);
}

/// See SampledOperation::parties.
std::uint64_t parties_of(const Arrival& arrival, const OwnNumbers& own_numbers) {
  if (!is_pair_exchange(arrival) || arrival.peer_or_root < 0) return arrival.communicator;
  const auto own = own_numbers.find(arrival.communicator);
  if (own == own_numbers.end()) return arrival.communicator;
  const auto [lower, upper] = std::minmax(own->second, arrival.peer_or_root);
  return mix(mix(arrival.communicator, static_cast<std::uint64_t>(lower)), static_cast<std::uint64_t>(upper));
}

}  // namespace

std::vector<SampledOperation> sample_lanes(std::span<const Arrival> arrivals, const OwnNumbers& own_numbers,
                                           std::int32_t session, Nanoseconds centre_ns, std::size_t per_lane) {
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
      samples.push_back(
          {.enter_ns = arrival.enter_ns,
           .exit_ns = arrival.exit_ns,
           .symbol = arrival_symbol(arrival),
           .trace_rank = arrival.trace_rank,
           .session = session,
           .lane = lane,
           .parties = parties_of(arrival, own_numbers),
           .index = arrival.index,
           .operation = arrival.operation,
           // The calls of what a graph replays were due when the graph was made.
           .is_orphan = arrival.evidence == Evidence::kernel_name && arrival.timing_source != TimingSource::graph_node,
           .stream = arrival.stream,
           .meets_several = arrival.peer_or_root == several_peers});
    }
  }
  return samples;
}

RoughClocks::RoughClocks(std::span<const SampledOperation> samples, std::span<const SessionTie> ties,
                         Nanoseconds centre_ns)
    : component_(ties.size()), line_(ties.size()), centre_ns_(centre_ns) {
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
  place_operations();
  tie_sessions(ties);
  std::map<std::int32_t, std::size_t> ranks_of_component;
  for (const Rank& rank : ranks_) ++ranks_of_component[component_of(rank.session)];
  std::size_t ranks_per_host = 1;
  for (const auto& [component, count] : ranks_of_component) ranks_per_host = std::max(ranks_per_host, count);
  strides_ = strides_below(ranks_.size(), ranks_per_host);
  comparisons_left_ = most_comparisons_per_component * ranks_of_component.size();
}

void RoughClocks::place_operations() {
  struct Program {
    Rank* rank;
    std::vector<std::size_t> operations;  ///< of a lane that no call names, as they were called
  };
  for (Rank& rank : ranks_) {
    rank.places.assign(rank.operations.size(), {});
    rank.sides.assign(rank.operations.size(), {});
  }
  for (const bool with_exchanges : {true, false}) {
    std::vector<Program> programs;
    std::vector<std::vector<std::uint64_t>> sequences;
    for (Rank& rank : ranks_) {
      const std::vector<SampledOperation>& operations = rank.operations;
      std::map<std::uint64_t, std::vector<std::size_t>> lanes;
      for (std::size_t i = 0; i < operations.size(); ++i) {
        if (names_communicator(operations[i].lane)) continue;
        if (with_exchanges || operations[i].operation != Operation::send_recv) lanes[operations[i].lane].push_back(i);
      }
      for (auto& [lane, program] : lanes) {
        std::sort(program.begin(), program.end(),
                  [&](std::size_t a, std::size_t b) { return operations[a].index < operations[b].index; });
        std::vector<std::uint64_t>& symbols = sequences.emplace_back();
        for (const std::size_t i : program) symbols.push_back(operations[i].symbol);
        programs.push_back({&rank, std::move(program)});
      }
    }
    const std::vector<std::vector<std::uint64_t>> places = program_places(sequences);
    for (std::size_t p = 0; p < programs.size(); ++p) {
      for (std::size_t i = 0; i < places[p].size(); ++i)
        programs[p].rank->places[programs[p].operations[i]][with_exchanges ? 0 : 1] = places[p][i];
      if (!with_exchanges) continue;
      const std::vector<Sides> sides = program_sides(sequences[p]);
      for (std::size_t i = 0; i < sides.size(); ++i) programs[p].rank->sides[programs[p].operations[i]] = sides[i];
    }
  }
}

std::vector<Comparison> RoughClocks::next_round() {
  std::vector<Comparison> round = by_communicators();
  return round.empty() ? by_lanes() : round;
}

/// For the parties of each communicator that calls name: the components they belong to, and how many operations those
/// recorded.
RoughClocks::PartyComponents RoughClocks::components_of_parties() const {
  PartyComponents components;
  for (const Rank& rank : ranks_) {
    for (const SampledOperation& operation : rank.operations) {
      if (names_communicator(operation.lane)) ++components[operation.parties][component_of(rank.session)];
    }
  }
  return components;
}

/// The heaviest forest of components that share operations of named communicators and were not compared as they are
/// now. Of each communicator only neighbours are considered, and further ones where those were of no use.
std::vector<Comparison> RoughClocks::by_communicators() {
  const PartyComponents parties = components_of_parties();
  std::vector<std::int64_t> sessions(component_.size(), 0);
  for (const std::int32_t component : component_) ++sessions[static_cast<std::size_t>(component)];
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> shared;
  for (const auto& [key, counts] : parties) {
    const std::vector<std::pair<std::int32_t, std::size_t>> members(counts.begin(), counts.end());
    for (std::size_t stride = 1; stride < members.size(); stride *= 2) {
      for (std::size_t m = 0; m + stride < members.size(); ++m)
        shared[{members[m].first, members[m + stride].first}] +=
            std::min(members[m].second, members[m + stride].second);
    }
  }
  std::vector<std::tuple<std::ptrdiff_t, std::int32_t, std::int32_t>> edges;
  for (const auto& [pair, operations] : shared)
    edges.emplace_back(-static_cast<std::ptrdiff_t>(operations), pair.first, pair.second);
  std::sort(edges.begin(), edges.end());
  Forest forest(component_.size());
  std::vector<Comparison> round;
  for (const auto& [weight, a, b] : edges) {
    const std::array<std::int64_t, 4> as_now{a, sessions[static_cast<std::size_t>(a)], b,
                                             sessions[static_cast<std::size_t>(b)]};
    if (compared_.contains(as_now) || !forest.join(a, b)) continue;
    compared_.insert(as_now);
    round.push_back({a, b, true});
  }
  return round;
}

std::vector<Comparison> RoughClocks::by_lanes() {
  while (!of_stride_.empty() || !strides_.empty()) {
    if (of_stride_.empty()) {
      const std::size_t stride = strides_.back();
      strides_.pop_back();
      // Ranks of two hosts that lie as far apart do alike: where two pairs share nothing, others do not, either.
      constexpr int most_alike = 2;
      std::map<std::pair<std::int32_t, std::int32_t>, int> pairs_of;
      for (std::size_t r = 0; r + stride < ranks_.size(); ++r) {
        const std::pair components(component_of(ranks_[r].session), component_of(ranks_[r + stride].session));
        if (++pairs_of[components] <= most_alike)
          of_stride_.push_back({static_cast<std::int32_t>(r), static_cast<std::int32_t>(r + stride), false});
      }
    }
    Forest forest(component_.size());
    std::vector<Comparison> round, later;
    for (const Comparison& pair : of_stride_) {
      const std::int32_t a = component_of(ranks_[static_cast<std::size_t>(pair.reference)].session);
      const std::int32_t b = component_of(ranks_[static_cast<std::size_t>(pair.member)].session);
      if (a != b) (forest.join(a, b) ? round : later).push_back(pair);
    }
    of_stride_ = std::move(later);
    if (round.size() > comparisons_left_) return {};
    comparisons_left_ -= round.size();
    if (!round.empty()) return round;
  }
  return {};
}

std::optional<SessionRelation> RoughClocks::compare(const Comparison& comparison) const {
  return comparison.by_communicators ? compare_components(comparison) : compare_ranks(comparison);
}

std::vector<std::uint64_t> RoughClocks::shared_parties(std::int32_t a, std::int32_t b) const {
  std::set<std::uint64_t> of_a, of_b;
  for (const Rank& rank : ranks_) {
    const std::int32_t component = component_of(rank.session);
    if (component != a && component != b) continue;
    for (const SampledOperation& operation : rank.operations) {
      if (names_communicator(operation.lane)) (component == a ? of_a : of_b).insert(operation.parties);
    }
  }
  std::vector<std::uint64_t> shared;
  std::set_intersection(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(), std::back_inserter(shared));
  return shared;
}

/// What a component did as one of these parties, by exit on its common time. Each operation counts once, however many
/// of its members are in the component: it ends when the first one leaves.
MemberSequence RoughClocks::pooled(std::int32_t component, std::span<const std::uint64_t> parties) const {
  std::vector<PooledRecord> records;
  for (const Rank& rank : ranks_) {
    if (component_of(rank.session) != component) continue;
    for (const SampledOperation& operation : rank.operations) {
      if (!may_end_together(operation.operation) ||
          !std::binary_search(parties.begin(), parties.end(), operation.parties)) {
        continue;
      }
      // Equal symbols of different parties are different operations.
      const std::uint64_t symbol = operation.symbol ^ (operation.parties * 0x9e3779b97f4a7c15ULL);
      records.push_back({symbol, to_common(rank.session, operation.exit_ns),
                         to_common(rank.session, operation.enter_ns), rank.trace_rank});
    }
  }
  return merge_records(std::move(records), centre_ns_);
}

std::optional<SessionRelation> RoughClocks::compare_components(const Comparison& comparison) const {
  const std::vector<std::uint64_t> shared = shared_parties(comparison.reference, comparison.member);
  const MemberSequence member = pooled(comparison.member, shared), reference = pooled(comparison.reference, shared);
  const std::optional<LaneRelation> found = relate_lanes(member, reference, Kinship::unknown, centre_ns_);
  if (!found || found->sharp_share < least_sharp_share) return std::nullopt;
  return SessionRelation{comparison.member, comparison.reference, found->line.offset_ns, found->line.slope,
                         found->sharp_share};
}

std::optional<SessionRelation> RoughClocks::compare_ranks(const Comparison& comparison) const {
  const Rank& reference_rank = ranks_[static_cast<std::size_t>(comparison.reference)];
  const Rank& member_rank = ranks_[static_cast<std::size_t>(comparison.member)];
  const auto members = unnamed_lanes(member_rank.operations, member_rank.places, member_rank.sides),
             references = unnamed_lanes(reference_rank.operations, reference_rank.places, reference_rank.sides);
  const std::vector<LanePair> pairs = lane_pairs(members, references);
  std::optional<LaneRelation> found;
  using Kind = LanePart::Kind;
  for (const Kind kind : {Kind::lane, Kind::place, Kind::symbol, Kind::all_lanes, Kind::side}) {
    if (found) break;
    const bool is_of_program = kind == Kind::place || kind == Kind::side;
    found = is_of_program ? relate_places(kind, pairs, centre_ns_) : relate_by(kind, pairs, centre_ns_);
  }
  if (!found) return std::nullopt;
  return SessionRelation{member_rank.session, reference_rank.session, found->line.offset_ns, found->line.slope,
                         found->sharp_share};
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
