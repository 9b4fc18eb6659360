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

/// True where one of them, by start, begins within the time, ends not included.
template <class Events>
bool any_begins(const Events& events, const Interval& time) {
  std::size_t first = 0, end = events.size();
  while (first < end) {
    const std::size_t middle = first + (end - first) / 2;
    if (events[middle].start_ns <= time.start_ns) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  return first < events.size() && events[first].start_ns < time.end_ns;
}

/// Nothing else was recorded meanwhile, neither by the host nor by a GPU.
bool is_silent(const ProcessTrace& process, const Interval& time) {
  const bool is_gpu_silent =
      std::none_of(process.devices.begin(), process.devices.end(), [&](const DeviceTrace& device) {
        return any_begins(device.kernels, time) || any_begins(device.memory_operations, time) ||
               any_begins(device.graph_launches, time);
      });
  return is_gpu_silent && !any_begins(process.nvtx_ranges, time) && !any_begins(process.os_calls, time);
}

}  // namespace

std::vector<Interval> recording_holes(const Trace& trace, const ProcessTrace& process) {
  constexpr std::int64_t shortest_share = 100;  // what is shorter than a hundredth of the recording changes nothing
  if (process.api_calls.empty()) return {};
  const Nanoseconds first_ns = process.api_calls.front().start_ns;
  std::optional<ApiCall> before;
  Nanoseconds until_ns = first_ns;
  std::int64_t first_id = -1, latest_id = -1, skipped_ids = 0;
  Nanoseconds skipped_ns = 0;
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
      skipped_ids += std::max<std::int64_t>(0, ids);
      skipped_ns += call.start_ns - until_ns;
    }
    if (call.correlation_id != 0) {
      if (first_id < 0) first_id = call.correlation_id;
      latest_id = std::max<std::int64_t>(latest_id, call.correlation_id);
    }
    until_ns = std::max(until_ns, call.end_ns);
    before = call;
  }
  const double recorded_ns = static_cast<double>(until_ns - first_ns - skipped_ns);
  const double ids_per_ns = static_cast<double>(latest_id - first_id - skipped_ids) / std::max(1.0, recorded_ns);
  std::vector<Interval> holes;
  for (const Silence& silence : silences) {
    const double usual_ids = ids_per_ns * static_cast<double>(silence.time.end_ns - silence.time.start_ns);
    const bool is_counted = silence.ids > 1 && 2.0 * static_cast<double>(silence.ids) >= usual_ids;
    if ((silence.is_commanded || is_counted) && is_silent(process, silence.time)) holes.push_back(silence.time);
  }
  return holes;
}

}  // namespace nsys_explain::analysis
