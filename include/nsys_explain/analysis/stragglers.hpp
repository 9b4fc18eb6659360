#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/analysis/totals.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::analysis {

/// Probability of at least `successes` in `trials` trials of probability `chance` each: the upper binomial tail, by
/// summation of terms in log space. 1 for successes <= 0.
double binomial_upper_tail(std::int64_t trials, std::int64_t successes, double chance);

/// To how many independent draws a series of `trials` with `successes` amounts, given how often successes come `lag`
/// apart: trials over the variance inflation 1 + 2 sum of the autocorrelations up to the first that is not positive
/// (Geyer 1992, initial positive sequence). A series without variance counts in full.
double independent_draws(std::int64_t trials, std::int64_t successes, std::span<const LagTotals> lags);

struct StragglerCriteria {
  double false_discovery_rate = 1e-3;  ///< of the verdicts "last more often than chance" (Benjamini-Hochberg)
  double smallest_cost_share = 0.002;  ///< caused wait as a share of all trace ranks' window time
};

/// Names the trace ranks whose own lateness delays the others: last by their own lateness more often than chance
/// among the members allows, and at a cost that matters. Ordered by caused wait. `ranks` and `totals` are parallel.
std::vector<Straggler> find_stragglers(std::span<const RankSummary> ranks, const Totals& totals,
                                       const StragglerCriteria& criteria = {});

}  // namespace nsys_explain::analysis
