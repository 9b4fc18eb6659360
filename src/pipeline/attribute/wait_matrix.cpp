#include "pipeline/attribute/wait_matrix.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "analysis/waits/waits.hpp"
#include "model/schema/job.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::pipeline {

WaitMatrix::WaitMatrix(std::span<const TraceRankIdentity> trace_ranks) {
  std::map<std::string, std::int32_t> column_of_host;
  late_.push_back(nobodys_delay);
  for (const TraceRankIdentity& rank : trace_ranks) {
    late_.push_back(rank.trace_rank);
    const auto next = static_cast<std::int32_t>(waiting_.size());
    const std::int32_t of_host = column_of_host.try_emplace(rank.host, next).first->second;
    column_of_.push_back(trace_ranks.size() <= most_waiting_ranks ? next : of_host);
    if (column_of_.back() == next) waiting_.push_back(rank.trace_rank);
  }
  rows_.resize(late_.size());
}

std::vector<WaitCell> WaitMatrix::gather(const exchange::Communicator& communicator) const {
  std::vector<WaitCell> mine;
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < rows_[r].size(); ++c)
      if (rows_[r][c] > 0) mine.push_back({late_[r], waiting_[c], rows_[r][c]});
  std::vector<WaitCell> cells = communicator.gather(std::span<const WaitCell>(mine)).values;
  std::sort(cells.begin(), cells.end(), [](const WaitCell& a, const WaitCell& b) {
    return std::pair(a.late_trace_rank, a.waiting_trace_rank) < std::pair(b.late_trace_rank, b.waiting_trace_rank);
  });
  std::size_t kept = 0;  // those of nobody come from all tool ranks
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (kept > 0 && cells[kept - 1].late_trace_rank == cells[i].late_trace_rank &&
        cells[kept - 1].waiting_trace_rank == cells[i].waiting_trace_rank) {
      cells[kept - 1].cost_ns += cells[i].cost_ns;
    } else {
      cells[kept++] = cells[i];
    }
  }
  cells.resize(kept);
  return cells;
}

std::vector<WaitCell> sum_waits_for(const exchange::Communicator& communicator,
                                    std::span<const TraceRankIdentity> trace_ranks, const CrossRank& cross) {
  std::vector<std::int32_t> numbers;
  for (const TraceRankIdentity& rank : trace_ranks) numbers.push_back(rank.trace_rank);
  WaitMatrix waits(trace_ranks);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      const std::span<const InstanceArrival> members = members_of(block, instance);
      const Nanoseconds most_ns = analysis::most_caused_wait(instance, members);
      for (const InstanceArrival& member : members) {
        const Nanoseconds waited_ns = wait_ns(instance, member);
        const Nanoseconds caused_ns =
            analysis::stayed_for_last(instance, member) ? std::min(waited_ns, most_ns) : Nanoseconds{0};
        const std::int32_t column = waits.column_of(index_of_trace_rank(numbers, member.trace_rank));
        if (caused_ns > 0) waits.add(index_of_trace_rank(numbers, instance.last_trace_rank), column, caused_ns);
        if (waited_ns > caused_ns) waits.add_to_nobody(column, waited_ns - caused_ns);
      }
    }
  }
  return waits.gather(communicator);
}

Table wait_matrix_table(std::span<const WaitCell> cells) {
  Table table = make_table(schema::wait_matrix);
  RowWriter rows(table);
  for (const WaitCell& cell : cells)
    rows << std::int64_t{cell.late_trace_rank} << std::int64_t{cell.waiting_trace_rank} << cell.cost_ns;
  return table;
}

}  // namespace nsys_explain::pipeline
