#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "collectives/exit_agreement.hpp"
#include "collectives/forest.hpp"
#include "collectives/inference.hpp"
#include "collectives/lane_pairs.hpp"

namespace nsys_explain::collectives {
namespace {

/// What the trace ranks of one session did on lanes that no call names.
using LanesOfRanks = std::vector<UnnamedLanes>;

/// What the host's clock tells to add to times of a session for those of a reference.
using TieOffset = std::function<double(std::int32_t session, std::int32_t reference)>;

/// True where lanes of two sessions end nearly all operations together if the member's clock is so far off: steps are
/// so regular that many do so at a wrong offset, too.
bool agree(const LanesOfRanks& members, const LanesOfRanks& references, double offset_ns, Nanoseconds centre_ns) {
  const ClockMap map({{centre_ns, offset_ns, 0}});
  for (const UnnamedLanes& member : members) {
    for (const UnnamedLanes& reference : references) {
      const std::vector<LanePair> pairs = lane_pairs(member, reference);
      if (std::any_of(pairs.begin(), pairs.end(), [&](const LanePair& lanes) {
            return lanes.kind != LanePart::Kind::side &&
                   measure_relation(*lanes.member, *lanes.reference, map, centre_ns).sharp_share >= least_coupled_share;
          })) {
        return true;
      }
    }
  }
  return false;
}

/// How the lanes of two sessions lie against each other, where that leaves no doubt.
std::optional<RoughLine> relate_surely(const LanesOfRanks& members, const LanesOfRanks& references,
                                       Nanoseconds centre_ns) {
  for (const UnnamedLanes& member : members) {
    for (const UnnamedLanes& reference : references) {
      for (const LanePair& lanes : lane_pairs(member, reference)) {
        if (lanes.kind != LanePart::Kind::lane && lanes.kind != LanePart::Kind::all_lanes)
          continue;  // a part is never as sure as the whole
        const std::optional<LaneRelation> found =
            relate_lanes(*lanes.member, *lanes.reference, Kinship::unknown, centre_ns);
        if (found && found->sharp_share >= least_coupled_share) return found->line;
      }
    }
  }
  return std::nullopt;
}

/// A session of one part of a host's that surely lies elsewhere against one of the others than the host's clock tells.
std::optional<SessionRelation> find_contradiction(std::span<const std::int32_t> part,
                                                  std::span<const std::int32_t> others,
                                                  const std::map<std::int32_t, LanesOfRanks>& lanes,
                                                  const TieOffset& offset, Nanoseconds centre_ns) {
  for (const std::int32_t session : part) {
    for (const std::int32_t other : others) {
      const std::optional<RoughLine> line = relate_surely(lanes.at(session), lanes.at(other), centre_ns);
      if (line && std::abs(line->offset_ns - offset(session, other)) > static_cast<double>(agreement_reach_ns))
        return SessionRelation{session, other, line->offset_ns, line->slope, 1};
    }
  }
  return std::nullopt;
}

/// Sessions of a host whose times are not its clock's, by lanes that no call names, and how they lie against one that
/// is right. Most are right.
std::vector<SessionRelation> moved_sessions(const std::map<std::int32_t, LanesOfRanks>& lanes, const TieOffset& offset,
                                            Nanoseconds centre_ns) {
  std::vector<std::int32_t> sessions;
  for (const auto& [session, of_ranks] : lanes) sessions.push_back(session);
  Forest agreeing(sessions.size());
  for (std::size_t distance = 1; distance < sessions.size(); ++distance) {
    for (std::size_t i = 0; i + distance < sessions.size(); ++i) {
      const auto a = static_cast<std::int32_t>(i), b = static_cast<std::int32_t>(i + distance);
      const std::int32_t reference = sessions[i], member = sessions[i + distance];
      if (agreeing.root(a) != agreeing.root(b) &&
          agree(lanes.at(member), lanes.at(reference), offset(member, reference), centre_ns)) {
        agreeing.join(a, b);
      }
    }
  }
  std::map<std::int32_t, std::vector<std::int32_t>> parts;
  for (std::size_t i = 0; i < sessions.size(); ++i)
    parts[agreeing.root(static_cast<std::int32_t>(i))].push_back(sessions[i]);
  const auto largest = std::max_element(parts.begin(), parts.end(),
                                        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::vector<SessionRelation> moved;
  for (const auto& [root, part] : parts) {
    if (root == largest->first) continue;
    const auto contradiction = find_contradiction(part, largest->second, lanes, offset, centre_ns);
    if (!contradiction) continue;
    moved.push_back(*contradiction);
    for (const std::int32_t session : part) {
      if (session != contradiction->session)
        moved.push_back({session, contradiction->session, offset(session, contradiction->session), 0, 1});
    }
  }
  return moved;
}

}  // namespace

/// Sessions of one host, unless what they communicated contradicts its clock: a container may have one of its own, and
/// the times of a report may have been moved.
void RoughClocks::tie_sessions(std::span<const SessionTie> ties) {
  std::map<std::int32_t, std::vector<std::int32_t>> sessions_of_unit;
  for (std::size_t s = 0; s < ties.size(); ++s) {
    if (ties[s].unit >= 0) sessions_of_unit[ties[s].unit].push_back(static_cast<std::int32_t>(s));
  }
  std::map<std::int32_t, std::vector<const Rank*>> unnamed_ranks;
  for (const Rank& rank : ranks_) {
    if (std::none_of(rank.operations.begin(), rank.operations.end(),
                     [](const SampledOperation& operation) { return names_communicator(operation.lane); }))
      unnamed_ranks[rank.session].push_back(&rank);
  }
  const auto offset = [&](std::int32_t session, std::int32_t reference) {
    const Nanoseconds own_ns = ties[static_cast<std::size_t>(session)].offset_ns;
    return static_cast<double>(ties[static_cast<std::size_t>(reference)].offset_ns - own_ns);
  };
  for (const auto& [unit, sessions] : sessions_of_unit) {
    std::map<std::int32_t, LanesOfRanks> lanes;
    for (const std::int32_t session : sessions) {
      for (const Rank* rank : unnamed_ranks[session])
        lanes[session].push_back(unnamed_lanes(rank->operations, rank->places, rank->sides));
    }
    std::vector<std::int32_t> kept = sessions;
    for (const SessionRelation& moved : moved_sessions(lanes, offset, centre_ns_)) {
      relate(moved);
      std::erase(kept, moved.session);
    }
    const std::int32_t first = kept.front();
    for (const std::int32_t session : kept) {
      const double offset_ns = offset(session, first);
      if (session != first && !contradicts(session, first, offset_ns)) relate({session, first, offset_ns, 0, 1});
    }
  }
}

/// By communicators that calls name.
bool RoughClocks::contradicts(std::int32_t session, std::int32_t reference, double offset_ns) const {
  const std::vector<std::uint64_t> shared = shared_parties(session, reference);
  const MemberSequence member = pooled(session, shared), other = pooled(reference, shared);
  if (member.symbols.empty() || other.symbols.empty()) return false;
  const ClockMap map({{centre_ns_, offset_ns, 0}});
  const LaneRelation relation = measure_relation(member, other, map, centre_ns_);
  return relation.covered >= 2 * fewest_sharp && 4 * relation.paired < relation.covered;
}

}  // namespace nsys_explain::collectives
