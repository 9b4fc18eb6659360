#include "analysis/questions/question.hpp"

#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question cuda_api() {
  const auto& table = schema::cuda_api;
  return {.shown = {.table = table.table_name(),
                    .findings = {"launch-starved", "launch-storm", "allocation-churn", "profiler-overhead"},
                    .list = "api_calls",
                    .folding = {.columns = {{"name", table.name, FoldedColumn::By::key},
                                            {"count", table.durations.count},
                                            {"total_ns", table.durations.total},
                                            {"max_ns", table.durations.max, FoldedColumn::By::largest}},
                                .order = "total_ns"},
                    .title = "CUDA calls of the host",
                    .derivation = "Runtime and driver calls by name, over all processes and threads.",
                    .cells = {{.heading = "call", .column = "name", .is_code = true},
                              {"total", "total_ns"},
                              {"count", "count"},
                              {"longest", "max_ns"}},
                    .lines = 5,
                    .rest = "tables `cuda_api`, `kernel_launches`, `launch_latency` and `allocations` of store.h5"}};
}

}  // namespace nsys_explain::analysis::questions
