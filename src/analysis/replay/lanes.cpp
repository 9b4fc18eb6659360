#include "analysis/replay/lanes.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::analysis {
namespace {

/// As many as a wide screen has pixels beside the labels; a quarter where the trace ranks are very many.
constexpr std::size_t most_bins = 960, fewest_bins = 240, bins_of_all_ranks = 160'000;
/// Two megabytes; the page takes what it has room for.
constexpr std::size_t cells_of_all_spans = 2'000'000, most_spans = 30, fewest_spans = 2;

/// Something begins (or, negative, ends) at a time.
struct Change {
  Nanoseconds at_ns = 0;
  double work = 0;  ///< share of the time in which the GPU is busy
  int waiting = 0, transfers = 0;
};

/// The changes of one trace rank by time.
std::vector<Change> changes_of(const JobGraph& graph, std::size_t rank) {
  std::vector<Change> changes;
  const auto add = [&](JobTime start, JobTime end, double work, int waiting, int transfers) {
    if (start >= end) return;
    changes.push_back({start.ns, work, waiting, transfers});
    changes.push_back({end.ns, -work, -waiting, -transfers});
  };
  for (std::size_t p = graph.first_piece[rank]; p < graph.first_piece[rank + 1]; ++p) {
    const JobPiece& piece = graph.piece(p);
    if (piece.kind == PieceKind::compute && piece.end > piece.start) {
      const double busy = static_cast<double>(piece.gpu_ns) + static_cast<double>(piece.copy_ns);
      add(piece.start, piece.end, std::min(1.0, busy / static_cast<double>(piece.end - piece.start)), 0, 0);
    } else if (piece.kind == PieceKind::collective) {
      const JobTime latest = graph.members_of(graph.instance_of[p]).back().enter;
      const JobTime all_here = std::clamp(latest, piece.start, piece.end);
      add(piece.start, all_here, 0, 1, 0);
      add(all_here, piece.end, 0, 0, 1);
    }
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at_ns < b.at_ns; });
  return changes;
}

/// Time of a bin, by what it was spent on.
struct BinTime {
  double work_ns = 0, waiting_ns = 0, transfer_ns = 0;

  std::uint8_t cell(double bin_ns) const {
    const auto thirds = [&](double time_ns) { return std::lround(3 * std::min(1.0, time_ns / bin_ns)); };
    const long work = thirds(work_ns), with_waiting = thirds(work_ns + waiting_ns),
               with_all = thirds(work_ns + waiting_ns + transfer_ns);
    return static_cast<std::uint8_t>(16 * work + 4 * (with_waiting - work) + (with_all - with_waiting));
  }
};

void add_cells(std::span<const Change> changes, const Interval& window, std::size_t bins,
               std::vector<std::uint8_t>& cells) {
  const double bin_ns = static_cast<double>(window.end_ns - window.start_ns) / static_cast<double>(bins);
  std::vector<BinTime> times(bins);
  Change now;
  for (std::size_t c = 0; c + 1 < changes.size() && changes[c].at_ns < window.end_ns; ++c) {
    now.work += changes[c].work;
    now.waiting += changes[c].waiting;
    now.transfers += changes[c].transfers;
    double from = static_cast<double>(std::max(changes[c].at_ns, window.start_ns) - window.start_ns);
    const auto to = static_cast<double>(std::min(changes[c + 1].at_ns, window.end_ns) - window.start_ns);
    const double work = std::clamp(now.work, 0.0, 1.0);
    for (auto bin = static_cast<std::size_t>(from / bin_ns); from < to && bin < bins; ++bin) {
      const double until = std::min(to, static_cast<double>(bin + 1) * bin_ns);
      times[bin].work_ns += work * (until - from);
      if (now.waiting > 0) {
        times[bin].waiting_ns += (1 - work) * (until - from);
      } else if (now.transfers > 0) {
        times[bin].transfer_ns += (1 - work) * (until - from);
      }
      from = until;
    }
  }
  for (const BinTime& time : times) cells.push_back(time.cell(bin_ns));
}

Interval window_of(const StepStarts& steps, std::size_t step) {
  return {steps.start_ns[step], step + 1 < steps.start_ns.size() ? steps.start_ns[step + 1] : steps.end_ns};
}

/// The step that holds the moment, or the nearest one.
std::size_t step_of(const StepStarts& steps, Nanoseconds moment_ns) {
  const auto after = std::upper_bound(steps.start_ns.begin(), steps.start_ns.end(), moment_ns) - steps.start_ns.begin();
  return after > 0 ? static_cast<std::size_t>(after) - 1 : 0;
}

}  // namespace

RankLanes lanes_of(const JobGraph& graph, std::span<const std::int32_t> trace_ranks, const StepStarts& steps,
                   Nanoseconds moment_ns) {
  RankLanes lanes;
  if (trace_ranks.empty() || graph.end_ns <= graph.start_ns) return lanes;
  const std::size_t bins = std::clamp(bins_of_all_ranks / trace_ranks.size(), fewest_bins, most_bins);
  lanes.bins = static_cast<std::int32_t>(bins);
  lanes.trace_ranks.assign(trace_ranks.begin(), trace_ranks.end());
  if (steps.start_ns.empty()) {
    lanes.spans.push_back({-1, {graph.start_ns, graph.end_ns}, {}});
  } else {
    const std::size_t all = steps.start_ns.size(), shown_first = step_of(steps, moment_ns);
    const std::size_t most =
        std::min(all, std::clamp(cells_of_all_spans / (bins * trace_ranks.size()), fewest_spans, most_spans));
    const std::size_t begin = std::min(shown_first - std::min(shown_first, most / 2), all - most);
    for (std::size_t step = begin; step < begin + most; ++step)
      lanes.spans.push_back({steps.first_number + static_cast<std::int64_t>(step), window_of(steps, step), {}});
    lanes.shown_first = shown_first - begin;
  }
  for (std::size_t rank = 0; rank < trace_ranks.size(); ++rank) {
    const std::vector<Change> changes = changes_of(graph, rank);
    for (LaneSpan& span : lanes.spans) add_cells(changes, span.window, bins, span.cells);
  }
  return lanes;
}

}  // namespace nsys_explain::analysis
