#include "analysis/questions/question.hpp"

#include "analysis/tables/tables.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question os_runtime() {
  const auto& table = schema::os_runtime;
  return {.shown = {.table = table.table_name(),
                    .list = "os_calls",
                    .folding = {.columns = {{"name", table.name, FoldedColumn::By::key},
                                            {"count", table.durations.count},
                                            {"total_ns", table.durations.total},
                                            {"max_ns", table.durations.max, FoldedColumn::By::largest}},
                                .order = "total_ns"}},
          .rows = os_runtime_table,
          .of_hosts = true};
}

}  // namespace nsys_explain::analysis::questions
