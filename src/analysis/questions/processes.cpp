#include "analysis/questions/question.hpp"
#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

/// What each trace rank ran, and where its host stopped.
Question processes() {
  const auto& kernels = schema::kernels_by_base_name;
  const auto& barriers = schema::barriers;
  using By = FoldedColumn::By;
  const FoldedColumn rank{"trace_rank", schema::trace_rank, By::key};
  return {
      .shown = {.table = kernels.table_name(),
                .list = "processes",
                .folding = {.columns = {rank,
                                        {"kernels", kernels.durations.count},
                                        {"kernel_ns", kernels.durations.total},
                                        {"top_kernel", kernels.name, By::at_largest, kernels.durations.total}},
                            .most = every_row},
                .beside = {{kernels.table_name(),
                            {.columns = {rank,
                                         {"communication_ns", kernels.durations.total},
                                         {"top_communication", kernels.name, By::at_largest, kernels.durations.total}},
                             .most = every_row,
                             .only_where = kernels.communication}},
                           {barriers.table_name(),
                            {.columns = {rank,
                                         {"barrier_ns", barriers.total_ns},
                                         {"top_barrier", barriers.name, By::at_largest, barriers.total_ns}},
                             .most = every_row,
                             .only_where = barriers.kind,
                             .is_not = "launcher_gap"}}}}};
}

}  // namespace nsys_explain::analysis::questions
