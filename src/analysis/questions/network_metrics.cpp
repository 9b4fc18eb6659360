#include "analysis/questions/question.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis::questions {

Question network_metrics() {
  using By = FoldedColumn::By;
  const auto& table = schema::network_metrics;
  return {
      .shown = {
          .table = table.table_name(),
          .findings = {"slow-link"},
          .list = "network",
          .in = "",
          .folding = {.columns = {{"source", table.source, By::key},
                                  {"metric", table.metric, By::key},
                                  {"unit", table.unit, By::key},
                                  {"ports", table.ports},
                                  {"mean_during", table.mean_during},
                                  {"mean_outside", table.mean_outside},
                                  {"correlated_ports", table.correlated_ports}},
                      .most = every_row},
          .title = "Network during NCCL",
          .derivation =
              "From the samples of NICs and switches: means over ports while the rank that a port follows best is in a collective, and while it is in none. Ports that follow: those that correlate with the collectives of a rank of their node beyond chance.",
          .cells = {{"metric", "metric"},
                    {"ports", "ports"},
                    {"during", "mean_during"},
                    {"outside", "mean_outside"},
                    {"unit", "unit"},
                    {"ports that follow", "correlated_ports"}},
          .rest = "table `network_metrics` of store.h5"}};
}

}  // namespace nsys_explain::analysis::questions
