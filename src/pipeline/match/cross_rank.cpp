#include "pipeline/match/cross_rank.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "analysis/waits/waits.hpp"
#include "clock/fit.hpp"
#include "pipeline/read/rank_tables.hpp"

namespace nsys_explain::pipeline {

namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;

/// Trivially copyable results of one local rank on their way to all.
struct RoutedBudget {
  std::int64_t index = 0;  ///< into JobRanks::trace_ranks
  Budget budget;
};

/// Ends of one operation agree to microseconds, those of sends and receives to some tens of them.
constexpr Nanoseconds smallest_time_scale_ns = 10'000;

/// Kernel times are multiples of this on many GPUs: no difference is known better.
constexpr Nanoseconds gpu_tick_ns = 32;

/// Devices of one session share its clock but not the conversion of GPU to host time, which is good to about this.
constexpr Nanoseconds device_conversion_uncertainty_ns = 1'000;

/// One standard uncertainty of the difference of two times near at_ns of comparable trace ranks.
/// A session with one trace rank was fitted by that rank's own ends, so nothing is left for its conversion.
Nanoseconds difference_uncertainty(const clock::ClockFit& fit, const JobRanks& job, std::size_t rank_a,
                                   std::size_t rank_b, Nanoseconds at_ns) {
  const std::size_t a = job.session_of_rank[rank_a];
  const std::size_t b = job.session_of_rank[rank_b];
  if (a == b) return device_conversion_uncertainty_ns;
  const bool single = job.ranks_of_session[a] == 1 && job.ranks_of_session[b] == 1;
  return std::max(single ? gpu_tick_ns : device_conversion_uncertainty_ns,
                  clock::difference_uncertainty_ns(fit.report.sessions, fit.errors, a, b, at_ns));
}

/// How far apart ends of one operation may lie on the job clock; no_time where the members' clocks cannot be compared.
Nanoseconds time_scale(const clock::ClockFit& fit, const JobRanks& job, const std::vector<std::int32_t>& trace_ranks) {
  const Nanoseconds p90_ns = fit.report.residual.held_out_p90_ns.value_or(0);
  Nanoseconds scale = std::clamp(p90_ns, smallest_time_scale_ns, clock::largest_credible_residual_ns);
  const std::size_t first = job.index_of(trace_ranks.front());
  const auto component = [&](std::size_t rank) { return fit.report.sessions[job.session_of_rank[rank]].component; };
  for (const std::int32_t trace_rank : trace_ranks) {
    const std::size_t other = job.index_of(trace_rank);
    if (component(other) != component(first)) return no_time;
    const Nanoseconds uncertainty = difference_uncertainty(fit, job, first, other, fit.report.pivot_ns);
    scale = std::max(scale, analysis::resolution_factor * uncertainty);
  }
  return scale;
}

template <class Fields>
std::vector<Fields> sum_fields(const exchange::Communicator& communicator, const std::vector<Fields>& mine) {
  static_assert(std::is_trivially_copyable_v<Fields> && sizeof(Fields) % sizeof(std::int64_t) == 0);
  std::vector<std::int64_t> flat(mine.size() * sizeof(Fields) / sizeof(std::int64_t));
  if (!flat.empty()) std::memcpy(flat.data(), mine.data(), flat.size() * sizeof(std::int64_t));
  flat = communicator.sum(flat);
  std::vector<Fields> result(mine.size());
  if (!flat.empty()) std::memcpy(static_cast<void*>(result.data()), flat.data(), flat.size() * sizeof(std::int64_t));
  return result;
}

/// Collective: sequences count the instances of a communicator over all of its units, without holes.
void number_instances(const exchange::Communicator& communicator, CrossRank& cross) {
  std::vector<std::int64_t> instances(cross.units.size(), 0);
  for (std::size_t b = 0; b < cross.blocks.size(); ++b)
    instances[cross.owned[b]] = static_cast<std::int64_t>(cross.blocks[b].instances.size());
  instances = communicator.sum(instances);
  std::vector<std::int64_t> first(cross.units.size(), 0);
  for (std::size_t u = 1; u < cross.units.size(); ++u) {
    const bool same = cross.units[u].communicator == cross.units[u - 1].communicator;
    first[u] = same ? first[u - 1] + instances[u - 1] : 0;
  }
  for (std::size_t b = 0; b < cross.blocks.size(); ++b) {
    std::int64_t sequence = first[cross.owned[b]];
    for (Instance& instance : cross.blocks[b].instances) instance.sequence = sequence++;
  }
}

/// What analysis wants to know of the clock; of `fit` and `job`, which must remain.
analysis::ClockKnowledge knowledge_of(const clock::ClockFit& fit, const JobRanks& job) {
  return {
      .component = [&](std::int32_t trace_rank) { return fit.report.sessions[job.session_of(trace_rank)].component; },
      .uncertainty =
          [&](std::int32_t a, std::int32_t b, JobTime at) {
            return difference_uncertainty(fit, job, job.index_of(a), job.index_of(b), at.ns);
          }};
}

}  // namespace

void apply_clock(const exchange::Communicator& communicator, const clock::ClockFit& fit, const JobRanks& job,
                 CrossRank& cross, std::vector<LocalTrace>& local_traces) {
  const auto clock_of_session = [&](std::size_t session) {
    return job.trace_clock(session, {fit.report.sessions[session], fit.report.pivot_ns});
  };
  const ClockOfRank clock_of = [&](std::int32_t trace_rank) { return clock_of_session(job.session_of(trace_rank)); };
  const analysis::ClockKnowledge knowledge = knowledge_of(fit, job);
  for (std::size_t b = 0; b < cross.owned.size(); ++b) {
    const std::span<const JobArrival> arrivals = cross.arrivals.of(b, clock_of);
    const MatchUnit& unit = cross.units[cross.owned[b]];
    const PlannedCommunicator& planned = cross.communicators[static_cast<std::size_t>(unit.communicator)];
    cross.blocks.push_back(
        collectives::match_unit(unit, planned, arrivals, {time_scale(fit, job, planned.trace_ranks)}));
    analysis::compute_waits(cross.blocks.back(), knowledge);
    cross.comparisons.push_back(collectives::compare_members(planned, arrivals, cross.blocks.back()));
    cross.arrivals.release(b);
  }
  cross.arrivals = {};
  number_instances(communicator, cross);
  make_timelines(cross, local_traces);  // before the steps move away from the arrivals
  for_each_with_rows(local_traces, [&](LocalRank& rank) {
    rank.clock = clock_of_session(rank.session);
    const auto to_job_time = [&](Nanoseconds& time_ns) { time_ns = rank.clock(TraceTime(time_ns)).ns; };
    to_job_time(rank.budget.window_start_ns);
    std::for_each(rank.steps.start_ns.begin(), rank.steps.start_ns.end(), to_job_time);
    to_job_time(rank.steps.end_ns);
  });
}

std::vector<analysis::CommunicatorTotals> count_instances(const exchange::Communicator& communicator,
                                                          const CrossRank& cross) {
  std::vector<analysis::CommunicatorTotals> totals(cross.communicators.size());
  for (const MatchedBlock& block : cross.blocks)
    analysis::count_instances(totals[static_cast<std::size_t>(block.communicator)], block);
  return sum_fields(communicator, totals);
}

analysis::Totals sum_waits(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross,
                           std::vector<analysis::CommunicatorTotals> communicators) {
  analysis::Totals totals = analysis::make_totals(job.trace_ranks.size());
  for (const MatchedBlock& block : cross.blocks) analysis::accumulate(totals, block, job.numbers);
  totals.ranks = sum_fields(communicator, totals.ranks);
  totals.operations = sum_fields(communicator, totals.operations);
  totals.communicators = std::move(communicators);
  totals.largest_skew_uncertainty_ns =
      communicator.maximum(std::vector<std::int64_t>{totals.largest_skew_uncertainty_ns}).front();
  // Minimum as the maximum of the negated values (max(), not min(), so that negation cannot overflow).
  std::vector<std::int64_t> spans;
  for (const analysis::RankSpan& span : totals.spans) {
    spans.push_back(-span.first_ns);
    spans.push_back(span.last_ns);
  }
  spans = communicator.maximum(spans);
  for (std::size_t r = 0; r < totals.spans.size(); ++r) totals.spans[r] = {-spans[2 * r], spans[2 * r + 1]};
  return totals;
}

std::vector<RankSummary> summarise_ranks(const exchange::Communicator& communicator, const JobRanks& job,
                                         const std::vector<LocalTrace>& local_traces, const analysis::Totals& totals) {
  std::vector<RoutedBudget> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      mine.push_back({static_cast<std::int64_t>(job.index_of(rank.trace_rank)), rank.budget});
    }
  }
  std::vector<RankSummary> ranks(job.trace_ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const analysis::RankTotals& total = totals.ranks[r];
    ranks[r].trace_rank = job.numbers[r];
    ranks[r].arrivals = total.arrivals;
    ranks[r].last_arrivals = total.last_arrivals;
    ranks[r].wait_ns = total.wait_ns;
    ranks[r].caused_wait_ns = total.caused_wait_ns;
    ranks[r].own_lateness_ns = total.own_lateness_ns;
    ranks[r].inherited_lateness_ns = total.inherited_lateness_ns;
    ranks[r].bus_bandwidth_gbs = analysis::bus_bandwidth_gbs(total);
  }
  for (const RoutedBudget& routed : communicator.all_gather(std::span<const RoutedBudget>(mine)).values) {
    ranks[static_cast<std::size_t>(routed.index)].budget = routed.budget;
  }
  return ranks;
}

clock::ClockFit estimate_clock(const exchange::Communicator& communicator, const JobRanks& job, CrossRank& cross,
                               const clock::ClockOptions& options) {
  const clock::Reduction reduction{
      .sum = [&](std::span<const std::int64_t> mine) { return communicator.sum(mine); },
      .maximum = [&](std::span<const std::int64_t> mine) { return communicator.maximum(mine); }};
  clock::ClockFit fit = clock::fit_clocks(job.sessions, std::exchange(cross.observations, {}), reduction, options);
  if (job.trace_ranks.empty()) fit.warnings.clear();  // no GPU work is timed by these clocks
  return fit;
}

}  // namespace nsys_explain::pipeline
