#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question model_flops() {
  using By = FoldedColumn::By;
  const auto& table = schema::model_flops;
  return {
      .shown = {.table = table.table_name(),
                .list = "mfu",
                .folding = {.columns = {{"name", table.type, By::key},
                                        {"trace_ranks", table.type, By::rows},
                                        {"lowest_percent", table.mfu_percent, By::smallest},
                                        {"median_percent", table.mfu_percent, By::median},
                                        {"highest_percent", table.mfu_percent, By::largest},
                                        {"lowest_trace_rank", schema::trace_rank, By::at_smallest, table.mfu_percent},
                                        {"highest_trace_rank", schema::trace_rank, By::at_largest, table.mfu_percent}},
                            .only_where = table.peak_tflops}}};
}

}  // namespace nsys_explain::analysis::questions
