#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question categories() {
  using By = FoldedColumn::By;
  const auto& table = schema::categories;
  return {.shown = {.table = table.table_name(),
                    .list = "categories",
                    .folding = {.columns = {{"category", table.category, By::key},
                                            {"trace_ranks", table.category, By::rows},
                                            {"elapsed_ns", table.elapsed_ns},
                                            {"share", table.elapsed_ns, By::share},
                                            {"smallest_percent", table.share_percent, By::smallest},
                                            {"largest_percent", table.share_percent, By::largest}},
                                .order = "elapsed_ns"}}};
}

}  // namespace nsys_explain::analysis::questions
