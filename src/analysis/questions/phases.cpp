#include "analysis/questions/question.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question phases() {
  const auto& table = schema::phases;
  using By = FoldedColumn::By;
  return {
      .shown = {
          .table = table.table_name(),
          .findings = {"longest-stage", "step-time-change"},
          .list = "phases",
          .in = "",
          .folding = {.columns = {{"phase", table.phase, By::key},
                                  {"trace_ranks", table.phase, By::rows},
                                  {"ranges", table.ranges},
                                  {"host_ns", table.host_ns},
                                  {"kernel_ns", table.kernel_ns},
                                  {"other_thread_kernel_ns", table.other_thread_kernel_ns},
                                  {"median_kernel_ns", table.kernel_ns, By::median},
                                  {"most_kernel_ns", table.kernel_ns, By::largest},
                                  {"slowest_trace_rank", schema::trace_rank, By::at_largest, table.kernel_ns}},
                      .by_first_rows = true,
                      .most = every_row},
          .title = "Phases of the program",
          .derivation =
              "From NVTX ranges: a kernel belongs to the innermost phase around its launch, and to its step besides. Kernel time of all ranks, then of the median one and of the one with the most. Single steps are in table `steps` of store.h5.",
          .cells = {{.heading = "phase", .column = "phase", .is_code = true},
                    {"ranks", "trace_ranks"},
                    {"ranges", "ranges"},
                    {"kernel time", "kernel_ns"},
                    {"median rank", "median_kernel_ns"},
                    {"slowest rank", "most_kernel_ns"},
                    {"it is", "slowest_trace_rank"}},
          .lines = every_row}};
}

}  // namespace nsys_explain::analysis::questions
