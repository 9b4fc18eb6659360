#pragma once

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/timeline.hpp"

/// What a picture of the job needs beyond its sums: bounded in size however long the job and however many its ranks.
namespace nsys_explain {

/// Waiting and own lateness by trace rank and span of job time. Cell [rank * bins + bin] holds the sums over the
/// arrivals of collectives whose latest enter lies in that bin.
struct HeatMap {
  Nanoseconds start_ns = 0;  ///< job time at which bin 0 starts
  Nanoseconds bin_ns = 1;
  std::int32_t bins = 0;  ///< 0: no collective was matched
  std::vector<std::int32_t> trace_ranks;
  std::vector<Nanoseconds> wait_ns, own_lateness_ns;
};

/// One collective with its arrivals; where it has very many, the earliest and the latest of them.
struct CollectiveDetail {
  std::int64_t instance = 0;
  std::string communicator;
  Instance summary;
  Nanoseconds wait_ns = 0;                ///< summed over all arrivals
  std::vector<InstanceArrival> arrivals;  ///< by enter
  std::int64_t left_out = 0;              ///< arrivals that are not listed
};

/// The job's steps one after another.
struct StepStarts {
  std::int64_t first_number = 0;
  std::vector<Nanoseconds> start_ns;  ///< job time; empty: no steps known
  Nanoseconds end_ns = 0;             ///< of the last
};

/// What every trace rank did in one step, or in the whole run where no steps are known.
struct LaneSpan {
  std::int64_t step = -1;  ///< its number; -1: the whole run
  Interval window;         ///< job time
  /// Cell [rank * bins + bin], in thirds of the bin's time: 16 x the GPU worked + 4 x waiting for who comes late + an
  /// exposed transfer. The rest of it nothing was seen.
  std::vector<std::uint8_t> cells;
};

/// Some steps of all trace ranks, each in bins of equal length.
struct RankLanes {
  std::int32_t bins = 0;  ///< of each span; 0: the job was not replayed
  std::vector<std::int32_t> trace_ranks;
  std::vector<LaneSpan> spans;  ///< ascending
  std::size_t shown_first = 0;  ///< the span of the moment that the report is about
};

struct ReportDetail {
  HeatMap heat_map;
  StepStarts steps;
  /// By latest enter: the ones with the most waiting, of the whole job and, as far as there is room, of every
  /// communicator, in every span of time; and those before which the work of late trace ranks was looked into.
  std::vector<CollectiveDetail> collectives;
  RankLanes lanes;
  std::vector<Moment> moments;  ///< the costliest late trace rank's first; the last one is usual
};

}  // namespace nsys_explain
