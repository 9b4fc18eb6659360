#pragma once

#include <map>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/report_detail.hpp"
#include "nsys_explain/model/report_parts.hpp"

/// A timeline of the whole job in Google's Trace Event Format, which ui.perfetto.dev and chrome://tracing open. One
/// object with a list of events, as text that is made piece by piece: nothing grows with the number of events.
///
/// Findings are a process with a track each. Every host is a process with a counter of its waiting ranks, every trace
/// rank is one with a track per communicator, per stream, and for the ranges and calls of its threads, and with its
/// counters. Kernels and copies carry their launch (grid, block, registers, bytes), and an arrow leads to them from the
/// call that launched them. Times are job time in microseconds with three decimals, so exact. Perfetto knows no colours
/// and picks one by a slice's name: waits are all called "wait"; other viewers go by `cname`.
namespace nsys_explain::report {

/// One collective and the arrivals to show of it, by enter.
struct TimelineCollective {
  std::int64_t instance = 0;
  std::string_view communicator;
  const Instance* summary = nullptr;
  std::span<const InstanceArrival> arrivals;
};

class PerfettoTrace {
 public:
  /// `shift_ns` is added to all times: viewers refuse negative ones.
  PerfettoTrace(const std::vector<TraceRankIdentity>& trace_ranks, Nanoseconds shift_ns);

  /// The beginning of the object, with the names of all processes. `facts` are texts by name for the reader.
  std::string begin(const std::map<std::string, std::string>& facts);
  std::string event(const TimelineEvent& event, const std::vector<std::string>& names);
  /// A slice for every arrival, the wait in it, and an arrow along the order of arrival.
  std::string collective(const TimelineCollective& collective);
  /// Counters of the hosts: how many of their trace ranks wait, on average over each bin of the map that lies in
  /// `window`.
  std::string waiting(const HeatMap& map, const Interval& window);
  /// A slice over the whole of `span` for each finding, with what to do next, and marks at their moments.
  std::string findings(const std::vector<Finding>& findings, const std::vector<Moment>& moments, const Interval& span);
  /// A process of its own with one track: a slice for every segment that begins in `window`.
  std::string critical_path(std::span<const CriticalSegment> path, const Interval& window);
  /// A mark across all tracks.
  std::string mark(Nanoseconds time_ns, std::string_view text);
  std::string end() const;

 private:
  struct Track {
    std::int64_t thread_id = 0;
    JobTime taken_until{std::numeric_limits<Nanoseconds>::min()};  ///< for collectives: where the last slice ends
  };

  /// Writes the track's name where it is new.
  Track& track(std::string& out, std::int32_t trace_rank, std::int64_t order, const std::string& name);
  Track& free_track(std::string& out, const TimelineCollective& collective, const InstanceArrival& arrival);
  std::int64_t process_of(std::int32_t trace_rank) const;
  std::string time(Nanoseconds time_ns) const;

  struct Rank {
    std::int64_t process_id = 0;
    std::string host, name;
  };
  std::map<std::int32_t, Rank> ranks_;
  std::map<std::string, std::int64_t> process_of_host_;
  std::int64_t process_of_findings_ = 1;  ///< 0 stands for the idle process in some viewers
  std::map<std::tuple<std::int32_t, std::int64_t, std::string>, Track> tracks_;
  std::map<std::string, std::int64_t, std::less<>> communicators_;  ///< in order of appearance
  std::int64_t critical_path_process_ = 0;
  Nanoseconds shift_ns_;
};

}  // namespace nsys_explain::report
