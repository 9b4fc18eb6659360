#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "nsys_explain/exchange/communicator.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"

/// Who waited for whom: every nanosecond of waiting, by whose delay it was and whose waiting.
namespace nsys_explain::pipeline {

/// Stands where waiting is no trace rank's delay.
constexpr std::int32_t nobodys_delay = -1;

/// Trivially copyable.
struct WaitCell {
  std::int32_t late_trace_rank = nobodys_delay;
  std::int32_t waiting_trace_rank = -1;  ///< itself, or in a large job the lowest of its node
  Nanoseconds cost_ns = 0;
};

/// Beyond this many trace ranks those who wait are summed by node: claims that are handed on name each of them, and
/// members of a group are mostly on one node.
constexpr std::size_t most_waiting_ranks = 128;

class WaitMatrix {
 public:
  /// `trace_ranks` are all of the job, ascending.
  explicit WaitMatrix(std::span<const TraceRankIdentity> trace_ranks);

  /// Who stands for the waiting of a trace rank, by its index.
  std::int32_t waiting_of(std::size_t index) const { return waiting_of_[index]; }
  void add(std::int32_t late, std::int32_t waiting, Nanoseconds cost_ns) { cells_[{late, waiting}] += cost_ns; }

  /// Collective: the sums over all tool ranks, on rank 0, by (late, waiting).
  std::vector<WaitCell> gather(const exchange::Communicator& communicator) const;

 private:
  std::vector<std::int32_t> waiting_of_;
  std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> cells_;
};

Table wait_matrix_table(std::span<const WaitCell> cells);

}  // namespace nsys_explain::pipeline
