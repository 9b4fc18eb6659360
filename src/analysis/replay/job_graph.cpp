#include "analysis/replay/job_graph.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace nsys_explain::analysis {

JobGraph::JobGraph(std::vector<ReplayRank> of_ranks) : ranks(std::move(of_ranks)) {
  number_pieces();
  join_members();
  lost = find_lost_members(*this);
  resumes.assign(pieces(), -1);
  for (const LostMember& member : lost) resumes[member.after] = member.instance;
}

void JobGraph::number_pieces() {
  first_piece.assign(1, 0);
  for (const ReplayRank& rank : ranks) first_piece.push_back(first_piece.back() + rank.pieces.size());
  bool is_first = true;
  Nanoseconds last_ns = no_time;  // below all: job times may be negative
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::int32_t host_wait = -1;
    for (std::size_t i = 0; i < ranks[r].pieces.size(); ++i) {
      const JobPiece& here = ranks[r].pieces[i];
      const auto number = static_cast<std::int32_t>(first_piece[r] + i);
      rank_of.push_back(static_cast<std::uint32_t>(r));
      std::int32_t before = host_wait;  // what started during a wait was launched by another thread
      while (before >= 0 && piece(static_cast<std::size_t>(before)).start > here.start)
        before = host_wait_before[static_cast<std::size_t>(before)];
      host_wait_before.push_back(before);
      if (here.kind == PieceKind::host_wait) host_wait = number;
      if (is_first || here.start.ns < start_ns) start_ns = here.start.ns;
      if (here.kind != PieceKind::host_wait) last_ns = std::max(last_ns, here.end.ns);
      is_first = false;
    }
  }
  end_ns = last_ns == no_time ? start_ns : last_ns;
}

void JobGraph::join_members() {
  std::vector<std::pair<std::int64_t, Member>> joined;
  for (std::size_t p = 0; p < pieces(); ++p) {
    if (piece(p).kind != PieceKind::collective) continue;
    const ReplayArrival& arrival = arrival_of(p);
    // One that was not matched is alone.
    const std::int64_t instance = arrival.instance >= 0 ? arrival.instance : -1 - static_cast<std::int64_t>(p);
    joined.push_back({instance, {static_cast<std::uint32_t>(p), arrival.enter, arrival.exit}});
  }
  std::sort(joined.begin(), joined.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.enter, a.second.piece) < std::tie(b.first, b.second.enter, b.second.piece);
  });
  instance_of.assign(pieces(), 0);
  for (std::size_t m = 0; m < joined.size(); ++m) {
    if (m == 0 || joined[m].first != joined[m - 1].first) first_member.push_back(m);
    members.push_back(joined[m].second);
    instance_of[joined[m].second.piece] = static_cast<std::uint32_t>(first_member.size() - 1);
  }
  first_member.push_back(members.size());
}

std::optional<double> JobGraph::inferred_share() const {
  std::int64_t edges = 0, inferred = 0;
  for (std::size_t p = 0; p < pieces(); ++p) {
    const JobPiece& here = piece(p);
    const bool waits = std::any_of(here.waits.begin() + 1, here.waits.end(), [](const auto& w) { return w.is_one(); });
    if (!waits && !here.inferred) continue;
    ++edges;
    inferred += here.inferred ? 1 : 0;
  }
  if (edges == 0) return std::nullopt;
  return static_cast<double>(inferred) / static_cast<double>(edges);
}

std::vector<std::uint32_t> JobGraph::events_by_time() const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t p = 0; p < pieces(); ++p) {
    order.push_back(2 * p);
    if (piece(p).kind == PieceKind::collective) order.push_back(2 * p + 1);
  }
  const auto key = [&](std::uint32_t event) {
    const JobPiece& here = piece(event / 2);
    return std::tuple(event % 2 == 1 ? here.end : here.start, 1 - event % 2, event);
  };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace nsys_explain::analysis
