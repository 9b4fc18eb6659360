#include "pipeline/attribute/step_rows.hpp"

#include <algorithm>
#include <utility>

#include "analysis/waits/path.hpp"

namespace nsys_explain::pipeline {
namespace {

/// Caused waits of the last arrivers, step by step: where the steps are known.
struct CausedWait {
  Nanoseconds caused_wait_ns = 0;
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;
};

}  // namespace

std::vector<StepRow> make_step_rows(const exchange::Communicator& communicator, const JobRanks& job, const Homes& homes,
                                    const CrossRank& cross, const analysis::Steps& steps, const SumsOfSteps& sums) {
  auto outgoing = nothing_for<CausedWait>(communicator);
  for (const MatchedBlock& block : cross.blocks) {
    for (const Instance& instance : block.instances) {
      if (instance.caused_wait_ns == 0) continue;
      for (std::int64_t a = instance.first_arrival; a < instance.first_arrival + instance.arrivals; ++a) {
        const InstanceArrival& member = block.arrivals[static_cast<std::size_t>(a)];
        if (member.trace_rank != instance.last_trace_rank) continue;
        const auto home = static_cast<std::size_t>(homes.tool_rank[job.index_of(member.trace_rank)]);
        outgoing[home].push_back({instance.caused_wait_ns, member.trace_rank, member.index});
      }
    }
  }
  const std::size_t ranks = homes.local.size();
  std::vector<StepRow> rows(steps.start_ns.size() * ranks);  // by step of the job, then trace rank
  for (std::size_t l = 0; l < ranks; ++l) {
    const LocalRank& rank = *homes.local[l];
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
    }
    const std::vector<StepSums>& of_rank = sums[job.index_of(rank.trace_rank)];
    for (std::size_t step = 0; step < steps.start_ns.size(); ++step) {
      StepRow& row = rows[step * ranks + l];
      row.own_lateness_ns = of_rank[step].own_lateness_ns;
      row.wait_ns = of_rank[step].wait_ns;
      row.delay_cost_ns = of_rank[step].delay_cost_ns;
      row.excess_ns = of_rank[step].excess_ns;
      row.compared = of_rank[step].compared;
      row.with_peers = of_rank[step].with_peers;
    }
  }
  for (const CausedWait& caused : communicator.all_to_all(std::move(outgoing)).values) {
    const auto rank = std::partition_point(homes.local.begin(), homes.local.end(),
                                           [&](const LocalRank* r) { return r->trace_rank < caused.trace_rank; });
    analysis::Path& path = (*rank)->path;
    path.caused_ns[analysis::origin_of(path, caused.index)] += caused.caused_wait_ns;
    const std::int32_t step = path.arrivals[static_cast<std::size_t>(caused.index)].step;
    if (step < 0) continue;
    const auto l = static_cast<std::size_t>(rank - homes.local.begin());
    rows[static_cast<std::size_t>(step) * ranks + l].caused_wait_ns += caused.caused_wait_ns;
  }
  std::erase_if(rows, [](const StepRow& row) { return row.trace_rank < 0; });
  return rows;
}

}  // namespace nsys_explain::pipeline
