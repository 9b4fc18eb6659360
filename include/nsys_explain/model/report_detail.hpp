#pragma once

#include "nsys_explain/model/collective.hpp"

/// What a timeline viewer shows of one trace rank.
namespace nsys_explain {

/// Work of a stream, the value of a counter, what a host thread does (NVTX range, call of CUDA or of the system), and
/// the wait in a collective.
enum class TimelineKind : std::uint8_t { compute, communication, copy, graph, counter, range, call, wait };

/// One span, or the value of a counter from start_ns on. Trivially copyable: it travels between tool ranks.
struct TimelineEvent {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;      ///< counters: as start_ns
  double value = 0;            ///< counters only
  std::uint32_t name = 0;      ///< index into a list of names
  std::uint32_t track_id = 0;  ///< stream, or thread of ranges and calls; counters, waits: none
  std::int32_t trace_rank = -1;
  std::uint16_t lane = 0;  ///< what overlaps on one track (branches of a graph, nested ranges) is on lanes of its own
  TimelineKind kind = TimelineKind::compute;
  std::uint8_t reserved = 0;
  std::uint32_t arguments = no_arguments;  ///< index into the list of names: "grid=8x1x1 registers=32"
  /// Correlation id of a call and of what it launched, where both are in the timeline; 0: none. Of one trace rank.
  std::uint32_t launch = 0;

  static constexpr std::uint32_t no_arguments = std::numeric_limits<std::uint32_t>::max();

  template <class Archive>
  void serialize(Archive& archive) {
    archive(start_ns, end_ns, value, name, track_id, trace_rank, lane, kind, arguments, launch);
  }
};

/// Events by start, end and kind, and the names that they refer to.
struct Timeline {
  std::vector<TimelineEvent> events;
  std::vector<std::string> names;
};

/// What a few trace ranks did around one moment.
struct Moment {
  std::string title;
  std::int64_t instance = -1;                               ///< the collective that ended the wait; -1: none
  std::int32_t late_trace_rank = -1, peer_trace_rank = -1;  ///< who was waited for, and a median peer; -1: nobody
  Nanoseconds at_ns = 0;                                    ///< job time, as all times here
  Interval window;
  std::vector<std::int32_t> trace_ranks;  ///< the late one, its peer, and who waited longest
  std::vector<Timeline> timelines;        ///< parallel to trace_ranks; empty where its trace could not be read again
  std::int64_t left_out = 0;              ///< short events far from the moment
};

// What a picture of the job needs beyond its sums: bounded in size however long the job and however many its ranks.

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
