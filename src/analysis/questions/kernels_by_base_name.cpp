#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

/// Which communication kernels took how long, and how much of it compute hid.
Question kernels_by_base_name() {
  const auto& table = schema::kernels_by_base_name;
  const auto& overlap = schema::communication_overlap;
  using By = FoldedColumn::By;
  return {.shown = {
              .table = table.table_name(),
              .list = "communication_kernels",
              .folding = {.columns = {{"name", table.name, By::key},
                                      {"trace_ranks", table.name, By::rows},
                                      {"count", table.durations.count},
                                      {"total_ns", table.durations.total},
                                      {"max_ns", table.durations.max, By::largest},
                                      {"share", table.durations.total, By::share},
                                      {"tail_score_ns", table.tail_score_ns},
                                      {"largest_trace_rank", schema::trace_rank, By::at_largest, table.durations.total},
                                      {"largest_ns", table.durations.total, By::largest}},
                          .order = "total_ns",
                          .only_where = table.communication},
              .beside = {{overlap.table_name(),
                          {.columns = {{"name", overlap.name, By::key}, {"overlapped_ns", overlap.overlapped_ns}},
                           .order = "overlapped_ns",
                           .most = every_row}}}}};
}

}  // namespace nsys_explain::analysis::questions
