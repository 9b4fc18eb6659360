#include "analysis/replay/contended_work.hpp"

#include <algorithm>
#include <utility>

#include "analysis/statistics/lag_correlation.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {

ContendedWork::ContendedWork(const JobGraph& graph) : graph_(graph) {
  bool is_any = false;
  for (const ReplayRank& rank : graph.ranks)
    is_any = is_any || std::any_of(rank.pieces.begin(), rank.pieces.end(),
                                   [](const ActivityPiece& piece) { return piece.contention_ns > 0; });
  if (!is_any) return;
  const std::vector<Nanoseconds> none(graph.pieces(), 0);
  measured_ns_ = beside_ns(none, none);
  lost_share_.assign(graph.pieces(), 0);
  for (std::size_t r = 0; r < graph.ranks.size(); ++r) {
    double lost_ns = 0, all_ns = 0;
    for (std::size_t p = graph.first_piece[r]; p < graph.first_piece[r + 1]; ++p) {
      lost_ns += graph.piece(p).contention_ns;
      all_ns += static_cast<double>(measured_ns_[p]);
    }
    const double usual_share = all_ns > 0 ? std::min(1.0, lost_ns / all_ns) : 0;  // of pieces that were beside none
    for (std::size_t p = graph.first_piece[r]; p < graph.first_piece[r + 1]; ++p) {
      const auto of_ns = static_cast<double>(measured_ns_[p]);
      lost_share_[p] = of_ns > 0 ? std::min(1.0, graph.piece(p).contention_ns / of_ns) : usual_share;
    }
  }
}

std::vector<Nanoseconds> ContendedWork::beside_ns(std::span<const Nanoseconds> enter_shifts_ns,
                                                  std::span<const Nanoseconds> end_shifts_ns) const {
  std::vector<Nanoseconds> beside_ns(graph_.pieces(), 0);
  for (std::size_t r = 0; r < graph_.ranks.size(); ++r) {
    std::vector<Interval> collectives;
    for (std::size_t p = graph_.first_piece[r]; p < graph_.first_piece[r + 1]; ++p) {
      const ActivityPiece& here = graph_.piece(p);
      if (here.kind == PieceKind::collective)
        collectives.push_back({here.start_ns + enter_shifts_ns[p], here.end_ns + end_shifts_ns[p]});
    }
    const CoveredTime covered(merge_intervals(std::move(collectives)));
    for (std::size_t p = graph_.first_piece[r]; p < graph_.first_piece[r + 1]; ++p) {
      const ActivityPiece& here = graph_.piece(p);
      if (here.kind == PieceKind::compute)
        beside_ns[p] = covered.within(here.start_ns + enter_shifts_ns[p], here.end_ns + end_shifts_ns[p]);
    }
  }
  return beside_ns;
}

std::vector<Nanoseconds> ContendedWork::longer_ns(std::span<const Nanoseconds> enter_shifts_ns,
                                                  std::span<const Nanoseconds> end_shifts_ns) const {
  std::vector<Nanoseconds> longer_ns = beside_ns(enter_shifts_ns, end_shifts_ns);
  for (std::size_t p = 0; p < longer_ns.size(); ++p)
    longer_ns[p] = static_cast<Nanoseconds>(lost_share_[p] * static_cast<double>(longer_ns[p] - measured_ns_[p]));
  return longer_ns;
}

}  // namespace nsys_explain::analysis
