#include "analysis/questions/question.hpp"

#include "model/schema/gpu.hpp"

namespace nsys_explain::analysis::questions {

Question memory_transfers() {
  const auto& table = schema::memory_transfers;
  return {.shown = {.table = table.table_name(),
                    .findings = {"exposed-copies"},
                    .view = "budget",
                    .list = "transfers",
                    .folding = {.columns = {{"name", table.operation, FoldedColumn::By::key},
                                            {"count", table.count},
                                            {"total_ns", table.total_ns},
                                            {"bytes", table.bytes}},
                                .order = "total_ns"},
                    .title = "Copies and sets",
                    .derivation = "By operation, over all ranks; bandwidth is bytes over the sum of durations.",
                    .cells = {{.heading = "operation", .column = "name", .is_code = true},
                              {"total", "total_ns"},
                              {"count", "count"},
                              {"bytes", "bytes"},
                              {"bandwidth", "bytes", "total_ns"}},
                    .rest = "tables `memory_time`, `memory_transfers` and `copy_engines` of store.h5"}};
}

}  // namespace nsys_explain::analysis::questions
