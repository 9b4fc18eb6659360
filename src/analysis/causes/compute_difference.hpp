#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/trace/divergence.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/table.hpp"

/// Why a trace rank computes longer than its peers: its GPU is slow, it runs more kernels, or some kernels do more.
namespace nsys_explain::analysis {

/// Kernels of one name, grid and block: on the late trace rank (mean of several) and on its peers (lower medians).
struct KernelFamily {
  std::string name, shape;
  double count = 0, peers_count = 0;
  double total_ns = 0, peers_total_ns = 0;  ///< sums of durations

  bool is_common() const { return count > 0 && peers_count > 0; }
  double ratio() const { return total_ns / count / (peers_total_ns / peers_count); }  ///< of mean durations
  double lost_ns() const { return total_ns - peers_total_ns; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, shape, count, peers_count, total_ns, peers_total_ns);
  }
};

/// What a late trace rank computes longer, T - P, in three parts that add up to it:
///
///     slower = T (1 - 1/s)       s: the typical family's ratio, at least 1
///     more   = X/s (1 - D/C)     C kernels beyond the peers' count by name take X; D kernels less of other names stand
///                                for as many of them: a library chooses other kernels for other sizes
///     larger = the rest          the same kernels, of larger grids or longer
///
/// A slow GPU is slower in most families, though not by one factor; uneven work leaves most as they are. So s is the
/// lower median over families, each of which counts once if it holds 1% of what both compute, however much one holds.
/// Measured: GPUs with a smaller share of multiprocessors s = 1.11 to 1.49, and slower holds 0.86 to 1.16 times what
/// they lose; a busy expert s = 0.99; 20 matrix products more in each step s = 0.96, and more holds 1.1 times it.
struct ComputeDifference {
  bool of_run = false;        ///< else of a few collectives
  double speed = 1;           ///< s, which may be below 1
  std::int64_t families = 0;  ///< that s is the median of; below 3 one that depends on data may pass for most
  double own_ns = 0, peers_ns = 0;
  double slower_ns = 0, more_ns = 0, larger_ns = 0;
  std::vector<KernelFamily> largest;  ///< families that lose most, most first; at most 3

  /// slow_kernel, extra_work or uneven_work: the largest part; unknown where it computes no longer than its peers.
  Cause cause() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(of_run, speed, families, own_ns, peers_ns, slower_ns, more_ns, larger_ns, largest);
  }
};

/// Of the analysed window, from the joined `kernels_by_launch`; `late` and `peers`: trace ranks, ascending. Empty where
/// one side ran no compute kernels.
std::optional<ComputeDifference> compare_compute(const Table& kernels_by_launch, std::span<const std::int32_t> late,
                                                 std::span<const std::int32_t> peers);

/// Before a few collectives, against one peer. Likewise.
std::optional<ComputeDifference> compare_compute(const Divergence& divergence);

/// In words: the parts, then the families that lose most.
std::vector<std::string> describe(const ComputeDifference& difference);

// What a straggler did differently, by name.

/// "12 in 3.400 ms", or "none". `count` may be a mean.
std::string executions_text(double count, double total_ns);

/// True of the causes that lie in what its GPU computes.
bool is_on_gpu(Cause cause);

/// The NVTX range that the straggler's host was in for at least half of `more_ns`, alone or longer than its peer, and
/// longer than in all others together; empty: none.
std::string range_of_host(const Divergence& divergence, Nanoseconds more_ns);

/// Straggler::host_was_in. What the program wrote down comes first. `more_ns`: of the part, in all of the divergence's
/// cases.
std::string host_was_in(const Divergence& divergence, Cause cause, WorkPart part, Nanoseconds more_ns);

/// The largest differences that bear on the cause, in words; empty where there are none.
std::string largest_differences(const Divergence& divergence, Cause cause);

}  // namespace nsys_explain::analysis
