#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/waits/rank_timeline.hpp"
#include "exchange/communicator.hpp"
#include "pipeline/read/job_ranks.hpp"
#include "pipeline/read/local_traces.hpp"
#include "pipeline/tool_rank/outgoing.hpp"

namespace nsys_explain::pipeline {

// Where the timeline of each trace rank is, for what is sent to it.

/// Which tool rank holds the timeline of each trace rank, and where.
struct ReaderRanks {
  std::vector<int> tool_rank;        ///< by index of the trace rank; -1: nowhere
  std::vector<LocalRank*> of_index;  ///< by index of the trace rank; null: not here
  std::vector<LocalRank*> local;     ///< those that are here, ascending by trace rank
};

/// Which arrival of the job. Trivially copyable.
struct ArrivalNumber {
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;  ///< Arrival::index
};

/// What is told of it.
template <class Told>
struct ToldOfArrival {
  Told told{};
  ArrivalNumber arrival;
};

/// Collective.
ReaderRanks find_readers(const exchange::Communicator& communicator, const JobRanks& job,
                         std::vector<LocalTrace>& local_traces);

/// What the arrivals of a trace rank in one step of the job add up to.
struct StepSums {
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds wait_ns = 0;
  Nanoseconds excess_ns = 0;  ///< analysis::excess_at
  Nanoseconds caused_wait_ns = 0;
  std::int32_t compared = 0;    ///< arrivals whose work was compared, be it with other steps
  std::int32_t with_peers = 0;  ///< those with peers
};

/// By index of the trace rank, then step; what lies outside of all steps comes last. Empty where the timeline is not
/// here.
using SumsOfSteps = std::vector<std::vector<StepSums>>;

/// The entry of an arrival's step among those of its rank.
inline StepSums& sums_of_step(std::vector<StepSums>& sums, const analysis::TimelineArrival& arrival) {
  return arrival.step < 0 ? sums.back() : sums[static_cast<std::size_t>(arrival.step)];
}

/// All but caused waits; after analysis::finish_excess.
std::vector<StepSums> add_up_steps(const analysis::RankTimeline& timeline, std::size_t steps);

/// One step of one trace rank: a row of the table `steps`. Trivially copyable.
struct StepRow {
  std::int64_t step = 0;
  Nanoseconds start_ns = 0;  ///< job time
  Nanoseconds duration_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  Nanoseconds wait_ns = 0;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds excess_ns = 0;  ///< as JobDelays::excess_work_ns; not in the table
  std::int32_t trace_rank = -1;
  std::int32_t apart = 0;  ///< 1: of Attribution::steps_apart
  // Of its arrivals, not in the table: those whose work was compared, be it with other steps, and those with peers.
  std::int32_t compared = 0;
  std::int32_t with_peers = 0;
};

/// Once caused waits are in the sums: one row per local trace rank and step of the job that it has, by (step, trace
/// rank).
std::vector<StepRow> make_step_rows(const JobRanks& job, const ReaderRanks& readers, const analysis::Steps& steps,
                                    std::span<const std::int32_t> steps_apart, const SumsOfSteps& sums);

}  // namespace nsys_explain::pipeline
