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
  if (process.api_calls.empty()) return {};
  const Nanoseconds first_ns = process.api_calls.front().start_ns;
  std::optional<ApiCall> before;
  Nanoseconds until_ns = first_ns;
  std::int64_t first_id = -1, latest_id = -1;
  const Nanoseconds shortest_ns = (process.api_calls.back().start_ns - first_ns) / shortest_share;
  std::vector<Silence> silences;
  for (const ApiCall& call : process.api_calls) {
    if (before && shortest_ns > 0 && call.start_ns - until_ns >= shortest_ns) {
      const std::int64_t ids =
          call.correlation_id != 0 && latest_id >= 0 ? std::int64_t{call.correlation_id} - latest_id : 0;
      silences.push_back(
          {{until_ns, call.start_ns},
           ids,
           has_name_with(trace, *before, "ProfilerStop") || has_name_with(trace, call, "ProfilerStart")});
    }
    if (call.correlation_id != 0) {
      if (first_id < 0) first_id = call.correlation_id;
      latest_id = std::max<std::int64_t>(latest_id, call.correlation_id);
    }
    until_ns = std::max(until_ns, call.end_ns);
    before = call;
  }
  std::vector<Interval> holes;
  for (const Silence& silence : silences) {
    const Nanoseconds length_ns = silence.time.end_ns - silence.time.start_ns;
    const double other_ns = std::max(1.0, static_cast<double>(until_ns - first_ns - length_ns));
    const double ids_per_ns = static_cast<double>(latest_id - first_id - silence.ids) / other_ns;
    const double usual_ids = ids_per_ns * static_cast<double>(length_ns);
    const bool is_counted = silence.ids > 1 && 2.0 * static_cast<double>(silence.ids) >= usual_ids;
    if (!silence.is_commanded && !is_counted) continue;
    const Interval hole = inner_silence(process, silence.time);
    const Nanoseconds hole_ns = hole.end_ns - hole.start_ns;
    if (hole_ns >= shortest_ns && 2 * hole_ns >= length_ns) holes.push_back(hole);
  }
  return holes;
}

}  // namespace nsys_explain::analysis
