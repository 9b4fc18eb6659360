#include "analysis/questions/question.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::analysis::questions {

Question serving() {
  const auto& table = schema::serving;
  using By = FoldedColumn::By;
  return {.shown = {.table = table.table_name(),
                    .findings = {"longest-stage", "step-time-change"},
                    .list = "serving",
                    .in = "",
                    .folding = {.columns = {{"trace_rank", schema::trace_rank, By::key},
                                            {"latency", table.latency, By::key},
                                            {"count", table.latencies.count},
                                            {"median_ns", table.latencies.median},
                                            {"p99_ns", table.latencies.p99}},
                                .by_first_rows = true,
                                .most = every_row},
                    .title = "Latencies of token generation",
                    .derivation = "From the ranges of prefill and decode; queueing before a prefill is not in them.",
                    .cells = {{"rank", "trace_rank"},
                              {"latency", "latency"},
                              {"median", "median_ns"},
                              {"99%", "p99_ns"},
                              {"count", "count"}},
                    .lines = 20,
                    .rest = "table `serving` of store.h5"}};
}

}  // namespace nsys_explain::analysis::questions
