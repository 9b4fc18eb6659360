#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "exchange/communicator.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/time.hpp"
#include "pipeline/match/cross_rank.hpp"

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

/// Beyond this many trace ranks those who wait are summed by node.
constexpr std::size_t most_waiting_ranks = 128;

/// Collective: the waiting of all members, by the last arriver whose own lateness caused it, on rank 0, by (late,
/// waiting).
std::vector<WaitCell> sum_waits_for(const exchange::Communicator& communicator,
                                    std::span<const TraceRankIdentity> trace_ranks, const CrossRank& cross);

class WaitMatrix {
 public:
  /// `trace_ranks` are all of the job, ascending.
  explicit WaitMatrix(std::span<const TraceRankIdentity> trace_ranks);

  /// The column in which the waiting of a trace rank is summed, by its index; they ascend with the trace ranks that
  /// they stand for.
  std::int32_t column_of(std::size_t index) const { return column_of_[index]; }
  /// `late`: index of the trace rank.
  void add(std::size_t late, std::int32_t column, Nanoseconds cost_ns) { add_to(rows_[late + 1], column, cost_ns); }
  void add_to_nobody(std::int32_t column, Nanoseconds cost_ns) { add_to(rows_.front(), column, cost_ns); }

  /// Collective: the sums over all tool ranks, on rank 0, by (late, waiting).
  std::vector<WaitCell> gather(const exchange::Communicator& communicator) const;

 private:
  using Row = std::vector<Nanoseconds>;  ///< by column; empty where nothing was added
  void add_to(Row& row, std::int32_t column, Nanoseconds cost_ns) {
    if (row.empty()) row.resize(waiting_.size(), 0);
    row[static_cast<std::size_t>(column)] += cost_ns;
  }

  std::vector<std::int32_t> late_;       ///< trace rank of each row
  std::vector<std::int32_t> waiting_;    ///< trace rank of each column
  std::vector<std::int32_t> column_of_;  ///< by index of the trace rank
  std::vector<Row> rows_;                ///< nobody's first, then by index of the trace rank
};

Table wait_matrix_table(std::span<const WaitCell> cells);

}  // namespace nsys_explain::pipeline
