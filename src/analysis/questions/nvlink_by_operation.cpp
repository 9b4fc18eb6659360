#include "analysis/questions/question.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis::questions {

/// Over the GPUs that take part in an operation, by their time in it.
Question nvlink_by_operation() {
  using By = FoldedColumn::By;
  const auto& table = schema::nvlink;
  return {
      .shown = {.table = table.table_name(),
                .list = "by_operation",
                .in = "nvlink",
                .folding = {.columns = {{"metric", table.metric, By::key},
                                        {"operation", table.operation, By::key},
                                        {"gpus", table.metric, By::rows},
                                        {"mean_during_percent", table.mean_during_percent, By::mean, table.during_ns}},
                            .most = every_row,
                            .only_where = table.operation,
                            .is_not = "all"},
                .cells = {{"direction", "metric"},
                          {"operation", "operation"},
                          {"GPUs", "gpus"},
                          {"mean during", "mean_during_percent"}}}};
}

}  // namespace nsys_explain::analysis::questions
