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
  measured_ns_ = beside_ns(none, none, 1);
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
                                                  std::span<const Nanoseconds> end_shifts_ns, std::size_t width) const {
  std::vector<Nanoseconds> beside_ns(graph_.pieces() * width, 0);
  const auto shifted = [&](std::size_t p, std::size_t k) {
    const JobPiece& here = graph_.piece(p);
    return Interval{here.start.ns + enter_shifts_ns[p * width + k], here.end.ns + end_shifts_ns[p * width + k]};
  };
  for (std::size_t r = 0; r < graph_.ranks.size(); ++r) {
    for (std::size_t k = 0; k < width; ++k) {
      std::vector<Interval> collectives;
      for (std::size_t p = graph_.first_piece[r]; p < graph_.first_piece[r + 1]; ++p)
        if (graph_.piece(p).kind == PieceKind::collective) collectives.push_back(shifted(p, k));
      const CoveredTime covered(merge_intervals(std::move(collectives)));
      std::size_t near = 0;
      for (std::size_t p = graph_.first_piece[r]; p < graph_.first_piece[r + 1]; ++p) {
        if (graph_.piece(p).kind != PieceKind::compute) continue;
        const Interval work = shifted(p, k);
        beside_ns[p * width + k] = covered.within(work.start_ns, work.end_ns, near);
      }
    }
  }
  return beside_ns;
}

std::vector<Nanoseconds> ContendedWork::longer_ns(std::span<const Nanoseconds> enter_shifts_ns,
                                                  std::span<const Nanoseconds> end_shifts_ns, std::size_t width) const {
  std::vector<Nanoseconds> longer_ns = beside_ns(enter_shifts_ns, end_shifts_ns, width);
  for (std::size_t p = 0; p < graph_.pieces(); ++p)
    for (std::size_t i = p * width; i < (p + 1) * width; ++i)
      longer_ns[i] = static_cast<Nanoseconds>(lost_share_[p] * static_cast<double>(longer_ns[i] - measured_ns_[p]));
  return longer_ns;
}

}  // namespace nsys_explain::analysis
