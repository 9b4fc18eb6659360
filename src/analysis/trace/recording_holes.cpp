#include <algorithm>

#include "analysis/trace/rank_events.hpp"

namespace nsys_explain::analysis {
namespace {

/// Between the end of all calls so far and the begin of the next one.
struct Silence {
  Interval time;
  std::int64_t ids = 0;  ///< by how much correlation ids advance
  bool is_commanded = false;
};

bool has_name_with(const Trace& trace, const ApiCall& call, std::string_view part) {
  return trace.strings[call.name].find(part) != std::string::npos;
}

/// How many of them, by start, begin before the time.
template <class Events>
std::size_t begun_before(const Events& events, Nanoseconds time_ns) {
  std::size_t first = 0, end = events.size();
  while (first < end) {
    const std::size_t middle = first + (end - first) / 2;
    (events[middle].start_ns < time_ns ? first : end) = events[middle].start_ns < time_ns ? middle + 1 : middle;
  }
  return first;
}

/// Of a silence of calls the longest part in which neither a GPU nor the host did anything else.
Interval inner_silence(const ProcessTrace& process, const Interval& time) {
  std::vector<Interval> done{{time.start_ns, time.start_ns}, {time.end_ns, time.end_ns}};
  const auto add = [&](const auto& events, bool lasts) {
    const std::size_t end = begun_before(events, time.end_ns);
    std::size_t i = begun_before(events, time.start_ns);
    if (lasts && i > 0) --i;  // it may reach into the silence
    for (; i < end; ++i) done.push_back({events[i].start_ns, lasts ? events[i].end_ns : events[i].start_ns});
  };
  for (const DeviceTrace& device : process.devices) {
    add(device.kernels, true);
    add(device.memory_operations, true);
    add(device.graph_launches, true);
  }
  add(process.nvtx_ranges, false);  // a range around the hole tells nothing of it
  add(process.os_calls, false);
  std::sort(done.begin(), done.end(), [](const Interval& a, const Interval& b) { return a.start_ns < b.start_ns; });
  Interval longest{time.start_ns, time.start_ns};
  Nanoseconds until_ns = time.start_ns;
  for (const Interval& one : done) {
    if (one.start_ns - until_ns > longest.end_ns - longest.start_ns) longest = {until_ns, one.start_ns};
    until_ns = std::max(until_ns, std::min(one.end_ns, time.end_ns));
  }
  return longest;
}

}  // namespace

std::vector<Interval> recording_holes(const Trace& trace, const ProcessTrace& process) {
  constexpr std::int64_t shortest_share = 100;  // what is shorter than a hundredth of the recording changes nothing
  // Recordings with five steps cut out: ids advance by 146 times as many as between other calls, and more; complete
  // traces of torch.profiler: 2.5 times as many, at most.
  constexpr std::int64_t many_times = 10;
  if (process.api_calls.empty()) return {};
  const Nanoseconds first_ns = process.api_calls.front().start_ns;
  const Nanoseconds shortest_ns = (process.api_calls.back().start_ns - first_ns) / shortest_share;
  std::optional<ApiCall> before;
  Nanoseconds until_ns = first_ns;
  std::int64_t latest_id = 0, usual_advance = 1;  // the largest between calls that follow each other
  std::vector<Silence> silences;
  for (const ApiCall& call : process.api_calls) {
    const std::int64_t advance =
        latest_id > 0 && call.correlation_id != 0 ? std::int64_t{call.correlation_id} - latest_id : 0;
    if (before && shortest_ns > 0 && call.start_ns - until_ns >= shortest_ns) {
      const bool is_commanded =
          has_name_with(trace, *before, "ProfilerStop") || has_name_with(trace, call, "ProfilerStart");
      silences.push_back({{until_ns, call.start_ns}, advance, is_commanded});
    } else {
      usual_advance = std::max(usual_advance, advance);
    }
    latest_id = std::max<std::int64_t>(latest_id, call.correlation_id);
    until_ns = std::max(until_ns, call.end_ns);
    before = call;
  }
  std::vector<Interval> holes;
  for (const Silence& silence : silences) {
    if (!silence.is_commanded && silence.ids < many_times * usual_advance) continue;
    const Interval hole = inner_silence(process, silence.time);
    const Nanoseconds hole_ns = hole.end_ns - hole.start_ns;
    const Nanoseconds silence_ns = silence.time.end_ns - silence.time.start_ns;
    if (hole_ns >= shortest_ns && 2 * hole_ns >= silence_ns) holes.push_back(hole);
  }
  return holes;
}

}  // namespace nsys_explain::analysis
