#include "analysis/replay/lost_members.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analysis/replay/job_graph.hpp"

namespace nsys_explain::analysis {
namespace {

/// As long as a launch takes (activity_graph.cpp, pauses).
constexpr Nanoseconds launch_takes_ns = 20'000;
/// Clocks of two trace ranks agree so far.
constexpr Nanoseconds clocks_differ_ns = 2'000;

/// Rows of kernels that began after a pause which nothing explains, of each trace rank by start.
std::vector<std::vector<std::uint32_t>> unexplained_starts(const JobGraph& graph) {
  std::vector<std::vector<std::uint32_t>> starts(graph.ranks.size());
  for (std::uint32_t p = 0; p < graph.pieces(); ++p) {
    const JobPiece& here = graph.piece(p);
    const std::int32_t before = graph.waited_for(p, 0);
    if (here.kind != PieceKind::compute || before < 0 || here.waits[1].piece >= 0 || here.after_host_ns == 0) continue;
    const Nanoseconds pause_ns = here.start - graph.piece(static_cast<std::size_t>(before)).end;
    if (pause_ns > launch_takes_ns) starts[graph.rank_of[p]].push_back(p);
  }
  for (std::vector<std::uint32_t>& of_rank : starts)
    std::stable_sort(of_rank.begin(), of_rank.end(),
                     [&](std::uint32_t a, std::uint32_t b) { return graph.piece(a).start < graph.piece(b).start; });
  return starts;
}

std::int64_t communicator_of(const JobGraph& graph, std::uint32_t instance) {
  const std::int64_t number = graph.arrival_of(graph.members_of(instance).front().piece).instance;
  return number < 0 ? -1 : number >> 32;
}

std::set<std::uint32_t> ranks_of(const JobGraph& graph, std::uint32_t instance) {
  std::set<std::uint32_t> ranks;
  for (const JobGraph::Member& member : graph.members_of(instance)) ranks.insert(graph.rank_of[member.piece]);
  return ranks;
}

}  // namespace

std::vector<LostMember> find_lost_members(const JobGraph& graph) {
  std::map<std::int64_t, std::set<std::uint32_t>> members;  // by communicator
  for (std::uint32_t i = 0; i < graph.instances(); ++i)
    if (const std::int64_t communicator = communicator_of(graph, i); communicator >= 0)
      members[communicator].merge(ranks_of(graph, i));
  const std::vector<std::vector<std::uint32_t>> starts = unexplained_starts(graph);
  std::vector<LostMember> lost;
  for (std::uint32_t i = 0; i < graph.instances(); ++i) {
    const std::int64_t communicator = communicator_of(graph, i);
    if (communicator < 0 || graph.members_of(i).size() == members[communicator].size()) continue;
    JobTime first_exit = graph.members_of(i).front().exit, last_exit = first_exit;
    for (const JobGraph::Member& member : graph.members_of(i)) {
      first_exit = std::min(first_exit, member.exit);
      last_exit = std::max(last_exit, member.exit);
    }
    const std::set<std::uint32_t> there = ranks_of(graph, i);
    for (const std::uint32_t rank : members[communicator]) {
      if (there.contains(rank)) continue;
      const auto after = std::partition_point(starts[rank].begin(), starts[rank].end(), [&](std::uint32_t p) {
        return graph.piece(p).start < first_exit - clocks_differ_ns;
      });
      if (after == starts[rank].end() || graph.piece(*after).start > last_exit + launch_takes_ns) continue;
      const auto before = static_cast<std::uint32_t>(graph.waited_for(*after, 0));
      if (graph.piece(before).end < first_exit) lost.push_back({i, before, *after});
    }
  }
  std::sort(lost.begin(), lost.end());
  return lost;
}

}  // namespace nsys_explain::analysis
