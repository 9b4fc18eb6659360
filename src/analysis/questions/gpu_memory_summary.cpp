#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question gpu_memory_summary() {
  using By = FoldedColumn::By;
  const auto& table = schema::gpu_memory_summary;
  return {
      .shown = {.table = table.table_name(),
                .list = "gpu_memory",
                .folding = {.columns = {{"memory", table.memory, By::key},
                                        {"largest_peak_bytes", table.peak_bytes, By::largest},
                                        {"largest_trace_rank", schema::trace_rank, By::at_largest, table.peak_bytes}},
                            .order = "largest_peak_bytes"}}};
}

}  // namespace nsys_explain::analysis::questions
