#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "analysis/replay/job_graph.hpp"

namespace nsys_explain::analysis {

/// Compute that takes longer beside collectives: when these wait for less long, it is over earlier (rank_events.hpp).
///
///     work    [..............]        of 100 us 60 are beside the collective, of which a fifth, 12 us, is lost;
///     reduce        [wait....[..]     entered by all 30 us earlier, 30 are beside, and 6 us are lost: 6 us less
class ContendedWork {
 public:
  /// The graph must outlive it.
  explicit ContendedWork(const JobGraph& graph);

  /// Some compute lost time.
  bool is_any() const { return !lost_share_.empty(); }
  /// By piece, `width` of them each: by what it gets longer where pieces begin and end so much later; for that its time
  /// beside collectives is compared with that measured. Shifts are by piece, `width` beside each other.
  std::vector<Nanoseconds> longer_ns(std::span<const Nanoseconds> enter_shifts_ns,
                                     std::span<const Nanoseconds> end_shifts_ns, std::size_t width = 1) const;

 private:
  std::vector<Nanoseconds> beside_ns(std::span<const Nanoseconds> enter_shifts_ns,
                                     std::span<const Nanoseconds> end_shifts_ns, std::size_t width) const;

  const JobGraph& graph_;
  std::vector<Nanoseconds> measured_ns_;  ///< by piece: time beside collectives of its trace rank
  std::vector<double> lost_share_;        ///< by piece: of this time; empty: none anywhere
};

}  // namespace nsys_explain::analysis
