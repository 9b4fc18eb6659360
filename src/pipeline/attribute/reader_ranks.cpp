#include "pipeline/attribute/reader_ranks.hpp"

#include <algorithm>
#include <iterator>

namespace nsys_explain::pipeline {

ReaderRanks find_readers(const exchange::Communicator& communicator, const JobRanks& job,
                         std::vector<LocalTrace>& local_traces) {
  ReaderRanks readers;
  readers.of_index.assign(job.numbers.size(), nullptr);
  std::vector<std::int64_t> mine;
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      const std::size_t index = job.index_of(rank.trace_rank);
      readers.of_index[index] = &rank;
      mine.push_back(static_cast<std::int64_t>(index));
    }
  }
  std::copy_if(readers.of_index.begin(), readers.of_index.end(), std::back_inserter(readers.local),
               [](const LocalRank* rank) { return rank != nullptr; });
  readers.tool_rank.assign(job.numbers.size(), -1);
  const auto all = communicator.all_gather(std::span<const std::int64_t>(mine));
  for (int r = 0; r < communicator.size(); ++r)
    for (const std::int64_t index : all.of(r)) readers.tool_rank[static_cast<std::size_t>(index)] = r;
  return readers;
}

}  // namespace nsys_explain::pipeline
