#include "analysis/replay/critical_path.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace nsys_explain::analysis {
namespace {

/// Between two activities of a GPU of which the second had been launched (activity_graph.cpp, pauses).
constexpr Nanoseconds usual_gap_ns = 20'000;

/// Goes back through the graph; what has been told lies behind `time_ns_`.
class WayBack {
 public:
  explicit WayBack(const JobGraph& graph) : graph_(graph), time_ns_(graph.end_ns) {}

  std::vector<CriticalSegment> whole() {
    for (std::int32_t at = last_piece(); at >= 0 && time_ns_ > graph_.start_ns;) {
      at_ = static_cast<std::size_t>(at);
      const JobPiece& here = graph_.piece(at_);
      if (here.kind == PieceKind::host_wait) {
        tell(CriticalKind::host, here.end.ns - here.after_ns);
        at = graph_.waited_for(at_, 1);
      } else {
        if (here.kind == PieceKind::collective) leave_collective();
        at = before_start();
      }
    }
    tell(CriticalKind::unknown, graph_.start_ns);
    std::reverse(segments_.begin(), segments_.end());
    return std::move(segments_);
  }

 private:
  std::int32_t last_piece() const {
    for (std::size_t p = 0; p < graph_.pieces(); ++p)
      if (graph_.piece(p).kind != PieceKind::host_wait && graph_.piece(p).end.ns == graph_.end_ns)
        return static_cast<std::int32_t>(p);
    return -1;
  }

  /// All since `from_ns` that has not been told was of this kind, on the trace rank of the piece.
  void tell(CriticalKind kind, Nanoseconds from_ns) {
    from_ns = std::max(from_ns, graph_.start_ns);
    if (from_ns >= time_ns_) return;
    const auto rank = static_cast<std::int32_t>(graph_.rank_of[at_]);
    if (!segments_.empty() && segments_.back().kind == kind && segments_.back().trace_rank == rank) {
      segments_.back().start_ns = from_ns;
    } else {
      segments_.push_back({from_ns, time_ns_, rank, kind});
    }
    time_ns_ = from_ns;
  }

  /// To the enter of its last member; one that entered later than the path goes on here was not waited for.
  void leave_collective() {
    const auto members = graph_.members_of(graph_.instance_of[at_]);
    const auto end = std::partition_point(members.begin(), members.end(),
                                          [&](const JobGraph::Member& member) { return member.enter.ns < time_ns_; });
    if (end == members.begin()) return;
    const JobGraph::Member& last = *std::prev(end);
    tell(CriticalKind::transfer, last.enter.ns);
    at_ = last.piece;
  }

  static constexpr std::int32_t nothing = -1, host = -2;

  /// What the start of the piece waited for with the least slack: a piece, host or nothing; of two alike the one on the
  /// GPU, and of these another's.
  std::int32_t bound_of_start() const {
    const JobPiece& here = graph_.piece(at_);
    std::int32_t bound = nothing;
    std::uint32_t least = no_bound;
    for (const std::size_t w : {std::size_t{1}, std::size_t{2}, std::size_t{0}}) {
      const std::int32_t before = graph_.waited_for(at_, w);
      if (before >= 0 && here.waits[w].slack_ns < least)
        std::tie(bound, least) = std::pair(before, here.waits[w].slack_ns);
    }
    return here.after_host_ns < least ? host : bound;
  }

  /// Tells the work of the piece, if it is one of compute, and what lies before it; returns the piece before.
  std::int32_t before_start() {
    const JobPiece& here = graph_.piece(at_);
    const std::int32_t before = bound_of_start();
    const Nanoseconds before_ns = before < 0 ? graph_.start_ns : graph_.piece(static_cast<std::size_t>(before)).end.ns;
    if (here.kind == PieceKind::compute) tell_work(std::max(here.start.ns, before_ns));
    if (before == host) return before_launch();
    const bool is_usual = before >= 0 && here.start.ns - before_ns <= usual_gap_ns;
    tell(is_usual ? CriticalKind::launch : CriticalKind::unknown, before_ns);
    return before;
  }

  /// A row of kernels and copies since `from_ns`; of part of a row equal shares.
  void tell_work(Nanoseconds from_ns) {
    const JobPiece& here = graph_.piece(at_);
    const Nanoseconds part_ns = time_ns_ - from_ns;
    if (part_ns <= 0) return;
    const double of_row =
        std::min(1.0, static_cast<double>(part_ns) / static_cast<double>(std::max(part_ns, here.end.ns - from_ns)));
    const auto share = [&](std::uint32_t of_ns) { return static_cast<Nanoseconds>(of_row * of_ns); };
    tell(CriticalKind::compute, std::max(from_ns, time_ns_ - share(here.gpu_ns)));
    tell(CriticalKind::copy, std::max(from_ns, time_ns_ - share(here.copy_ns)));
    tell(CriticalKind::launch, from_ns);
  }

  /// From the launch of the piece back to the host's latest wait.
  std::int32_t before_launch() {
    const std::int32_t wait = graph_.host_wait_before[at_];
    const std::size_t first =
        wait < 0 ? graph_.first_piece[graph_.rank_of[at_]] : static_cast<std::size_t>(wait) + std::size_t{1};
    Nanoseconds by_itself_ns = 0;
    for (std::size_t p = first; p <= at_; ++p) by_itself_ns += graph_.piece(p).host_ns;
    if (wait >= 0) tell(CriticalKind::launch, graph_.piece(static_cast<std::size_t>(wait)).end.ns + by_itself_ns);
    tell(CriticalKind::host, wait < 0 ? graph_.start_ns : graph_.piece(static_cast<std::size_t>(wait)).end.ns);
    return wait;
  }

  const JobGraph& graph_;
  std::size_t at_ = 0;
  Nanoseconds time_ns_;
  std::vector<CriticalSegment> segments_;  ///< descending
};

}  // namespace

std::vector<CriticalSegment> find_critical_path(const JobGraph& graph) {
  return WayBack(graph).whole();
}

std::vector<CriticalShare> share_by_step(std::span<const CriticalSegment> path,
                                         std::span<const Nanoseconds> step_ends) {
  std::map<std::pair<std::size_t, std::int32_t>, CriticalShare> shares;
  std::size_t step = 0;
  for (CriticalSegment segment : path) {
    while (segment.start_ns < segment.end_ns) {
      while (step < step_ends.size() && (step_ends[step] == no_time || step_ends[step] <= segment.start_ns)) ++step;
      const Nanoseconds until_ns = step < step_ends.size() ? std::min(segment.end_ns, step_ends[step]) : segment.end_ns;
      CriticalShare& share = shares[{step, segment.trace_rank}];
      share.step = step < step_ends.size() ? static_cast<std::int64_t>(step) : -1;
      share.trace_rank = segment.trace_rank;
      share.duration_ns[static_cast<std::size_t>(segment.kind)] += until_ns - segment.start_ns;
      segment.start_ns = until_ns;
    }
  }
  std::vector<CriticalShare> sorted;
  for (const auto& [key, share] : shares) sorted.push_back(share);
  return sorted;
}

}  // namespace nsys_explain::analysis
