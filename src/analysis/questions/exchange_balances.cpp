#include "analysis/questions/question.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/links/links.hpp"
#include "model/schema/links.hpp"

namespace nsys_explain::analysis::questions {
namespace {

void find_unbalanced_exchange(const JobReport& report, std::vector<Finding>& findings) {
  constexpr double telling_imbalance = 1.5;
  for (const ExchangeBalance& balance : analysis::exchange_balances(report.tables)) {
    const double imbalance =
        static_cast<double>(balance.most_bytes) / static_cast<double>(std::max<std::int64_t>(balance.mean_bytes, 1));
    if (imbalance < telling_imbalance) continue;
    findings.push_back(
        {.id = "unbalanced-exchange",
         .severity = FindingSeverity::medium,
         .title = fmt::format("rank {} sends {:.1f} times the mean in the all-to-alls of communicator {}",
                              balance.busiest_trace_rank, imbalance, balance.communicator),
         .evidence = {fmt::format("{} bytes against a mean of {} over {} members; all wait for the fullest",
                                  balance.most_bytes, balance.mean_bytes, balance.members),
                      "rows: messages of this communicator, byte_matrix"},
         .recommendation = "balance what is exchanged: for experts, capacity factor and load-balancing loss"});
  }
}

}  // namespace

Question exchange_balances() {
  return {
      .shown = {.table = schema::exchange_balances.table_name(), .findings = {"unbalanced-exchange"}, .view = "bytes"},
      .find = find_unbalanced_exchange};
}

}  // namespace nsys_explain::analysis::questions
