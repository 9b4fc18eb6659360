#include "pipeline/attribute/step_rows.hpp"

#include <algorithm>
#include <iterator>

#include "analysis/waits/rank_timeline.hpp"

namespace nsys_explain::pipeline {

std::vector<StepRow> make_step_rows(const JobRanks& job, const ReaderRanks& readers, const analysis::Steps& steps,
                                    std::span<const std::int32_t> steps_apart, const SumsOfSteps& sums) {
  const std::size_t ranks = readers.local.size();
  std::vector<StepRow> rows(steps.start_ns.size() * ranks);  // by step of the job, then trace rank
  for (std::size_t l = 0; l < ranks; ++l) {
    const LocalRank& rank = *readers.local[l];
    const auto row_of = [&](std::int32_t step) -> StepRow& { return rows[static_cast<std::size_t>(step) * ranks + l]; };
    const std::vector<std::int32_t>& related = rank.timeline.job_steps;
    for (std::size_t i = 0; i < related.size(); ++i) {
      if (related[i] < 0) continue;
      StepRow& row = row_of(related[i]);
      const Nanoseconds end_ns = i + 1 < related.size() ? rank.steps.start_ns[i + 1] : rank.steps.end_ns;
      if (row.trace_rank < 0) row.start_ns = rank.steps.start_ns[i];
      row.trace_rank = rank.trace_rank;
      row.step = steps.first_number + related[i];
      row.duration_ns = end_ns - row.start_ns;
      row.apart = std::binary_search(steps_apart.begin(), steps_apart.end(), related[i]) ? 1 : 0;
    }
    const std::vector<StepSums>& of_rank = sums[job.index_of(rank.trace_rank)];
    for (std::size_t step = 0; step < steps.start_ns.size(); ++step) {
      StepRow& row = rows[step * ranks + l];
      row.own_lateness_ns = of_rank[step].own_lateness_ns;
      row.wait_ns = of_rank[step].wait_ns;
      row.caused_wait_ns = of_rank[step].caused_wait_ns;
      row.excess_ns = of_rank[step].excess_ns;
      row.compared = of_rank[step].compared;
      row.with_peers = of_rank[step].with_peers;
    }
  }
  std::erase_if(rows, [](const StepRow& row) { return row.trace_rank < 0; });
  return rows;
}

std::vector<StepSums> add_up_steps(const analysis::RankTimeline& timeline, std::size_t steps) {
  std::vector<StepSums> sums(steps + 1);
  for (std::size_t i = 0; i < timeline.arrivals.size(); ++i) {
    const analysis::TimelineArrival& arrival = timeline.arrivals[i];
    StepSums& of_step = sums_of_step(sums, arrival);
    if (arrival.compared) {
      ++of_step.compared;
      of_step.with_peers += arrival.has_peers ? 1 : 0;
      of_step.own_lateness_ns += std::min(analysis::own_lateness_of(timeline, i), timeline.outcomes[i].lateness_ns);
    }
    of_step.wait_ns += timeline.outcomes[i].wait_ns;
    of_step.excess_ns += analysis::excess_at(timeline, i);
  }
  return sums;
}

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
