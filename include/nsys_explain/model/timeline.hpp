#pragma once

#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"

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

}  // namespace nsys_explain
