#include "pipeline/attribute/step_rows.hpp"

#include <algorithm>

#include "analysis/waits/rank_timeline.hpp"

namespace nsys_explain::pipeline {
std::vector<StepRow> make_step_rows(const JobRanks& job, const ReaderRanks& readers, const analysis::Steps& steps,
                                    std::span<const std::int32_t> steps_apart, const SumsOfSteps& sums) {
  const std::size_t ranks = readers.local.size();
  std::vector<StepRow> rows(steps.start_ns.size() * ranks);  // by step of the job, then trace rank
  for (std::size_t l = 0; l < ranks; ++l) {
    const LocalRank& rank = *readers.local[l];
    const auto row_of = [&](std::int32_t step) -> StepRow& { return rows[static_cast<std::size_t>(step) * ranks + l]; };
    const std::vector<std::int32_t>& related = rank.path.job_steps;
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

}  // namespace nsys_explain::pipeline
