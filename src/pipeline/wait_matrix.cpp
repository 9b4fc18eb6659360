#include "wait_matrix.hpp"

#include <string>

namespace nsys_explain::pipeline {

WaitMatrix::WaitMatrix(std::span<const TraceRankIdentity> trace_ranks) {
  std::map<std::string, std::int32_t> lowest_of;
  for (const TraceRankIdentity& rank : trace_ranks) {
    const std::int32_t lowest = lowest_of.try_emplace(rank.host, rank.trace_rank).first->second;
    waiting_of_.push_back(trace_ranks.size() <= most_waiting_ranks ? rank.trace_rank : lowest);
  }
}

std::vector<WaitCell> WaitMatrix::gather(const exchange::Communicator& communicator) const {
  std::vector<WaitCell> mine;
  for (const auto& [key, cost_ns] : cells_)
    if (cost_ns > 0) mine.push_back({key.first, key.second, cost_ns});
  std::map<std::pair<std::int32_t, std::int32_t>, Nanoseconds> sums;
  for (const WaitCell& cell : communicator.gather(std::span<const WaitCell>(mine)).values)
    sums[{cell.late_trace_rank, cell.waiting_trace_rank}] += cell.cost_ns;
  std::vector<WaitCell> cells;
  for (const auto& [key, cost_ns] : sums) cells.push_back({key.first, key.second, cost_ns});
  return cells;
}

Table wait_matrix_table(std::span<const WaitCell> cells) {
  Table table = make_table(
      {"wait_matrix",
       "Who waited for whom: the waiting of a row is what the delays of one trace rank cost another, directly or "
       "through others; for each that waits the rows add up to its wait_ns",
       {{"late_trace_rank", ColumnKind::integer, "",
         "whose delay it was; -1: nobody's, but structure, slow transfers or below the clocks' resolution"},
        {"waiting_trace_rank", ColumnKind::integer, "",
         "who waited; in a job of more than 128 trace ranks the lowest of a node, for all of the node"},
        {"cost_ns", ColumnKind::integer, "ns", "GPU time waited"}}});
  RowWriter rows(table);
  for (const WaitCell& cell : cells)
    rows << std::int64_t{cell.late_trace_rank} << std::int64_t{cell.waiting_trace_rank} << cell.cost_ns;
  return table;
}

}  // namespace nsys_explain::pipeline
