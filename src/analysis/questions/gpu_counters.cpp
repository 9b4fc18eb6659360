#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question gpu_counters() {
  using By = FoldedColumn::By;
  const auto& table = schema::gpu_counters;
  return {
      .shown = {.table = table.table_name(),
                .list = "compute_counters",
                .folding = {.columns = {{"name", table.counter, By::key},
                                        {"trace_ranks", table.counter, By::rows},
                                        {"lowest_percent", table.mean_percent, By::smallest},
                                        {"median_percent", table.mean_percent, By::median},
                                        {"highest_percent", table.mean_percent, By::largest},
                                        {"lowest_trace_rank", schema::trace_rank, By::at_smallest, table.mean_percent},
                                        {"highest_trace_rank", schema::trace_rank, By::at_largest, table.mean_percent}},
                            .only_where = table.part,
                            .is = "compute"}}};
}

}  // namespace nsys_explain::analysis::questions
