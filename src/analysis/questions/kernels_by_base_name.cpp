#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question kernels();

/// Which communication kernels took how long, and how much of it compute hid.
Question kernels_by_base_name() {
  const auto& table = schema::kernels_by_base_name;
  const auto& overlap = schema::communication_overlap;
  Folding folding = kernels().shown.folding;  // of the same columns
  folding.only_where = table.communication;
  return {.shown = {.table = table.table_name(),
                    .list = "communication_kernels",
                    .folding = std::move(folding),
                    .beside = {{overlap.table_name(),
                                {.columns = {{"name", overlap.name, FoldedColumn::By::key},
                                             {"overlapped_ns", overlap.overlapped_ns}},
                                 .most = every_row}}}}};
}

}  // namespace nsys_explain::analysis::questions
