#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analysis/replay/contended_work.hpp"
#include "analysis/replay/excess.hpp"
#include "analysis/replay/job_graph.hpp"
#include "analysis/replay/run_all.hpp"
#include "analysis/replay/transfers.hpp"
#include "nsys_explain/model/time.hpp"

/// The job once more, with something changed: what each piece of work waits for is known (job_graph.hpp), all
/// members of a collective leave as much after the latest enter as they did, and times move on from there.
///
///     rank 0   [work....][wait.....][all-reduce]      rank 1 works 100 longer than is usual; without that it enters
///     rank 1   [work..............][all-reduce]       100 earlier, and both leave earlier by what rank 0 waited
namespace nsys_explain::analysis {

/// How long the transfers of all collectives take.
enum class TransferTime : std::uint8_t {
  measured,
  usual,       ///< what is usual for their kind
  best_group,  ///< as of the communicator that is best at their kind, where that is shorter
  none         ///< all leave once the last has entered
};

/// What is to be otherwise. Trace ranks by index.
struct Scenario {
  std::vector<std::size_t> ranks{};   ///< whose work is as usual, and the slow transfers with them
  std::vector<std::size_t> links{};   ///< of these the slow transfers only
  std::vector<double> gpu_factors{};  ///< by trace rank: by what its kernels take longer; empty: by 1
  TransferTime transfers = TransferTime::measured;
  Usual usual = Usual::median;  ///< else the work of all trace ranks is so
  bool has_launch_gaps = true;  ///< else no GPU waits for its host, or between two kernels
};

/// Elapsed time of a replay.
struct ReplayedTime {
  Nanoseconds end_ns = 0;                 ///< of the last activity; job time
  std::vector<Nanoseconds> step_ends_ns;  ///< latest exit of each step; no_time: none
};

class Replay {
 public:
  /// The graph must outlive it.
  Replay(const JobGraph& graph, std::size_t steps, const RunAll& run_all = one_after_another);

  /// Each scenario by itself, `together` of them in one pass over the job: four at once take 1.6 times as long as one
  /// (benchmark_replay), in 24 bytes a piece each.
  std::vector<ReplayedTime> run(std::span<const Scenario> scenarios, std::size_t together, const RunAll& run_all) const;
  ReplayedTime run(const Scenario& scenario) const { return run_together(std::span(&scenario, 1)).front(); }
  ReplayedTime measured() const { return run({}); }
  /// Some kind of transfer is there in several communicators.
  bool has_groups_alike() const { return transfers_.has_groups_alike; }
  const std::vector<PieceExcess>& excess() const { return excess_; }  ///< by piece

 private:
  struct Shifts;  ///< how much later everything is

  Shifts shifts_of(std::span<const Scenario> scenarios) const;
  std::vector<ReplayedTime> run_together(std::span<const Scenario> scenarios) const;
  std::vector<ReplayedTime> run_once(Shifts& shifts) const;
  void enter(std::size_t p, Shifts& shifts) const;
  void start(std::size_t p, Shifts& shifts) const;
  void leave(std::size_t p, Shifts& shifts) const;
  /// Sets by scenario how much later the last of those is there that enter before `exit_ns`; false where nobody does.
  bool shift_of_enters(std::uint32_t instance, Nanoseconds exit_ns, const Shifts& shifts, Nanoseconds* later_ns) const;
  /// The same of all members, once all have entered.
  const Nanoseconds* shift_of_instance(std::uint32_t instance, Shifts& shifts) const;
  Nanoseconds host_shift(std::size_t p, std::size_t k, const Shifts& shifts) const;
  Nanoseconds shorter_work(std::size_t p, std::size_t k, const Shifts& shifts) const;
  Nanoseconds shorter_transfer(std::size_t p, std::size_t k, const Shifts& shifts) const;

  const JobGraph& graph_;
  std::size_t steps_;
  std::vector<PieceExcess> excess_;
  TransferExcesses transfers_;
  ContendedWork contended_;
  std::vector<std::uint32_t> order_;  ///< of events: twice the piece, and one more where a collective leaves
};

}  // namespace nsys_explain::analysis
