#include "cross_rank.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "nsys_explain/analysis/waits.hpp"
#include "nsys_explain/clock/job_time.hpp"
#include "rank_tables.hpp"

namespace nsys_explain::pipeline {
namespace {

using collectives::MatchUnit;
using collectives::PlannedCommunicator;
using collectives::SequenceSummary;

struct RoutedArrival {
  std::int32_t unit = 0;
  std::int32_t reserved = 0;
  Arrival arrival;
};

/// Which unit an arrival belongs to.
class UnitIndex {
 public:
  UnitIndex(const std::vector<PlannedCommunicator>& communicators, const std::vector<MatchUnit>& units)
      : units_(units) {
    for (std::size_t c = 0; c < communicators.size(); ++c) {
      for (const std::int32_t trace_rank : communicators[c].trace_ranks) {
        communicator_of_[{communicators[c].source_key, trace_rank}] = c;
      }
    }
    first_unit_.assign(communicators.size(), 0);
    for (std::size_t u = units.size(); u-- > 0;) first_unit_[static_cast<std::size_t>(units[u].communicator)] = u;
  }

  std::size_t communicator_of(const Arrival& arrival) const {
    return communicator_of_.at({arrival.communicator, arrival.trace_rank});
  }

  std::size_t unit_of(const Arrival& arrival) const {
    const std::size_t first = first_unit_[communicator_of(arrival)];
    // Units of one communicator are equally long, but for the last.
    const std::int64_t length = units_[first].end_position - units_[first].first_position;
    return first + static_cast<std::size_t>(arrival.position / length);
  }

 private:
  const std::vector<MatchUnit>& units_;
  std::map<std::pair<std::uint64_t, std::int32_t>, std::size_t> communicator_of_;
  std::vector<std::size_t> first_unit_;
};

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
  Nanoseconds scale = std::max(smallest_time_scale_ns, fit.report.residual.held_out_p90_ns.value_or(0));
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

}  // namespace

CrossRank match_collectives(const exchange::Communicator& communicator, std::vector<LocalTrace>& local_traces) {
  std::vector<SequenceSummary> mine;
  for (const LocalTrace& trace : local_traces) {
    for (const LocalRank& rank : trace.ranks) {
      const auto summaries = collectives::summarise_sequences(rank.arrivals, rank.memberships);
      mine.insert(mine.end(), summaries.begin(), summaries.end());
    }
  }
  CrossRank cross;
  cross.communicators =
      collectives::plan_communicators(communicator.all_gather(std::span<const SequenceSummary>(mine)).values);
  cross.units = collectives::plan_units(cross.communicators, communicator.size());

  const UnitIndex index(cross.communicators, cross.units);
  std::vector<std::vector<RoutedArrival>> outgoing(static_cast<std::size_t>(communicator.size()));
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      std::map<std::uint64_t, std::size_t> communicators;
      for (const Arrival& arrival : rank.arrivals) {
        communicators.try_emplace(arrival.communicator, index.communicator_of(arrival));
        const std::size_t unit = index.unit_of(arrival);
        outgoing[static_cast<std::size_t>(cross.units[unit].owner)].push_back(
            {static_cast<std::int32_t>(unit), 0, arrival});
      }
      std::vector<analysis::PathCommunicator> members;
      for (const auto& [key, c] : communicators)
        members.push_back({key, cross.communicators[c].size, cross.communicators[c].trace_ranks});
      rank.path = analysis::make_path(rank.arrivals, std::move(members), rank.steps);
      rank.path.trace_rank = rank.trace_rank;
      rank.arrivals = {};
    }
  }
  std::vector<RoutedArrival> received = communicator.all_to_all(outgoing).values;
  outgoing.clear();
  std::stable_sort(received.begin(), received.end(),
                   [](const RoutedArrival& a, const RoutedArrival& b) { return a.unit < b.unit; });
  for (std::size_t first = 0; first < received.size();) {
    const auto unit = static_cast<std::size_t>(received[first].unit);
    std::vector<Arrival> arrivals;
    for (; first < received.size() && static_cast<std::size_t>(received[first].unit) == unit; ++first) {
      arrivals.push_back(received[first].arrival);
    }
    const MatchUnit& match_unit = cross.units[unit];
    const auto& planned = cross.communicators[static_cast<std::size_t>(match_unit.communicator)];
    cross.owned.push_back(unit);
    cross.blocks.push_back(collectives::match_unit(match_unit, planned, arrivals));
    cross.uneven.push_back(planned.equal_sequences ? std::vector<Arrival>{} : std::move(arrivals));
  }
  return cross;
}

void apply_clock(const clock::ClockFit& fit, const JobRanks& job, CrossRank& cross,
                 std::vector<LocalTrace>& local_traces) {
  const ClockReport& clock = fit.report;
  const auto correct = [&](auto& arrival) {
    const SessionClock& session = clock.sessions[job.session_of_rank[job.index_of(arrival.trace_rank)]];
    arrival.enter_ns = clock::to_job_time(session, clock.pivot_ns, arrival.enter_ns);
    arrival.exit_ns = clock::to_job_time(session, clock.pivot_ns, arrival.exit_ns);
  };
  for (std::size_t b = 0; b < cross.blocks.size(); ++b) {
    if (cross.uneven[b].empty()) {
      for (InstanceArrival& arrival : cross.blocks[b].arrivals) correct(arrival);
      continue;
    }
    for (Arrival& arrival : cross.uneven[b]) correct(arrival);
    const MatchUnit& unit = cross.units[cross.owned[b]];
    const PlannedCommunicator& planned = cross.communicators[static_cast<std::size_t>(unit.communicator)];
    cross.blocks[b] =
        collectives::match_unit(unit, planned, std::move(cross.uneven[b]), {time_scale(fit, job, planned.trace_ranks)});
    cross.uneven[b] = {};
  }
  for (LocalTrace& trace : local_traces) {
    for (LocalRank& rank : trace.ranks) {
      const auto to_job_time = [&](Nanoseconds time_ns) {
        return clock::to_job_time(clock.sessions[rank.session], clock.pivot_ns, time_ns);
      };
      rank.budget.window_start_ns = to_job_time(rank.budget.window_start_ns);
      for (Nanoseconds& start_ns : rank.steps.start_ns) start_ns = to_job_time(start_ns);
      rank.steps.end_ns = to_job_time(rank.steps.end_ns);
      for (Table& table : rank.tables) move_times(table, to_job_time);
    }
  }
}

void compute_waits(const clock::ClockFit& fit, const JobRanks& job, CrossRank& cross) {
  const analysis::ClockKnowledge clock{
      .component =
          [&](std::int32_t trace_rank) {
            return fit.report.sessions[job.session_of_rank[job.index_of(trace_rank)]].component;
          },
      .uncertainty =
          [&](std::int32_t a, std::int32_t b, Nanoseconds at_ns) {
            return difference_uncertainty(fit, job, job.index_of(a), job.index_of(b), at_ns);
          }};
  for (MatchedBlock& block : cross.blocks) analysis::compute_waits(block, clock);
}

analysis::Totals sum_waits(const exchange::Communicator& communicator, const JobRanks& job, const CrossRank& cross) {
  analysis::Totals totals = analysis::make_totals(job.trace_ranks.size(), cross.communicators.size());
  for (const MatchedBlock& block : cross.blocks) analysis::accumulate(totals, block, job.numbers);
  totals.ranks = sum_fields(communicator, totals.ranks);
  totals.operations = sum_fields(communicator, totals.operations);
  totals.communicators = sum_fields(communicator, totals.communicators);
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
  }
  for (const RoutedBudget& routed : communicator.all_gather(std::span<const RoutedBudget>(mine)).values) {
    ranks[static_cast<std::size_t>(routed.index)].budget = routed.budget;
  }
  return ranks;
}

}  // namespace nsys_explain::pipeline
