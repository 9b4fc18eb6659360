#include "analysis/questions/question.hpp"

#include "analysis/tables/tables.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question barriers() {
  const auto& table = schema::barriers;
  return {
      .shown =
          {.table = table.table_name(),
           .findings = {"launch-starved", "gpu-idle"},
           .list = "barriers",
           .folding = {.columns = {{"kind", table.kind, FoldedColumn::By::key},
                                   {"name", table.name, FoldedColumn::By::key},
                                   {"count", table.count},
                                   {"total_ns", table.total_ns},
                                   {"max_ns", table.max_ns, FoldedColumn::By::largest}},
                       .order = "total_ns"},
           .title = "Top CPU-GPU barriers",
           .derivation =
               "Where the host stopped: calls that wait for the GPU, blocking copies, waits in the operating system on threads that launch, and pauses of 100 us or more without a launching call, which hold the others. Sums over all processes.",
           .cells = {{"kind", "kind"},
                     {.heading = "name", .column = "name", .is_code = true},
                     {"total", "total_ns"},
                     {"count", "count"},
                     {"longest", "max_ns"}},
           .rest = "table `barriers` of store.h5"},
      .rows = barriers_table,
      .of_hosts = true};
}

}  // namespace nsys_explain::analysis::questions
