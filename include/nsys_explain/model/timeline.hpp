#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/time.hpp"

/// What a timeline viewer shows of one trace rank.
namespace nsys_explain {

enum class TimelineKind : std::uint8_t { compute, communication, copy, graph, counter };

/// One span of GPU work, or the value of a counter from start_ns on. Trivially copyable: it travels between tool ranks.
struct TimelineEvent {
  Nanoseconds start_ns = 0;
  Nanoseconds end_ns = 0;       ///< counters: as start_ns
  double value = 0;             ///< counters only
  std::uint32_t name = 0;       ///< index into a list of names
  std::uint32_t stream_id = 0;  ///< counters: none
  std::int32_t trace_rank = -1;
  std::uint16_t lane = 0;  ///< work of one stream that overlaps (branches of a graph) is on lanes of its own
  TimelineKind kind = TimelineKind::compute;
  std::uint8_t reserved = 0;
};

/// Events by start, end and kind, and the names that they refer to.
struct Timeline {
  std::vector<TimelineEvent> events;
  std::vector<std::string> names;
};

}  // namespace nsys_explain
