#include "analysis/trace/program.hpp"

#include <set>

#include "analysis/trace/host_activity.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr Nanoseconds at_the_end_ns = std::numeric_limits<Nanoseconds>::max();

bool has_graph_nodes(const DeviceTrace& device) {
  return std::any_of(device.kernel_kinds.begin(), device.kernel_kinds.end(),
                     [](const KernelKind& kind) { return kind.graph_node_id != 0; });
}

/// Whether the host may wait for the GPU in such a call.
bool may_wait_for_gpu(WorkPart part) {
  return part == WorkPart::synchronising || part == WorkPart::blocking_copy || part == WorkPart::allocation;
}

/// Without any call ids still tell who was launched first, and that was before anything that was launched later began.
void order_by_correlation(Program& program, const DeviceTrace& device) {
  for (LaunchedActivity& launched : program.activities) launched.place = launched.in(device).correlation_id;
  std::sort(program.activities.begin(), program.activities.end(), [](const auto& a, const auto& b) {
    return std::tie(a.place, a.launch_ns) < std::tie(b.place, b.launch_ns);
  });
  Nanoseconds earliest_ns = at_the_end_ns;
  for (auto launched = program.activities.rbegin(); launched != program.activities.rend(); ++launched)
    launched->launch_ns = earliest_ns = std::min(earliest_ns, launched->launch_ns);
}

/// Adds the activities; returns the threads that launched them.
std::set<std::uint32_t> add_activities(const RankEvents& events, Program& program) {
  const DeviceTrace& device = events.device;
  const bool has_graphs = has_graph_nodes(device);
  program.activities.reserve(device.kernels.size() + device.memory_operations.size() + device.graph_launches.size());
  std::set<std::uint32_t> threads;
  // By stream: node and call of the latest kernel in a graph, which copies follow.
  std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> latest_nodes;
  bool nodes_ascend = true;                // on every stream: else they are not numbered as the program made them
  Nanoseconds latest_launch_ns = no_time;  // of what has started
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    LaunchedActivity launched;
    launched.launch_ns = latest_launch_ns != no_time ? latest_launch_ns : activity.start_ns;  // if its call was lost
    launched.call = events.launches.number_of(activity.correlation_id, activity.start_ns);
    launched.what = static_cast<std::uint32_t>(activity.index) * 4 + static_cast<std::uint32_t>(activity.kind);
    if (launched.call != LaunchIndex::no_call) {
      const ApiCall call = events.process.api_calls[launched.call];
      launched.launch_ns = std::min(call.start_ns, activity.start_ns);
      threads.insert(call.thread_id);
      latest_launch_ns = std::max(latest_launch_ns, launched.launch_ns);
    }
    if (has_graphs) {
      auto& [node, call] = latest_nodes[activity.stream_id];
      if (activity.kind == ActivityKind::kernel) {
        const auto here = static_cast<std::uint32_t>(device.kind_of(device.kernels[activity.index]).graph_node_id);
        nodes_ascend = nodes_ascend && (call != launched.call || here >= node);
        node = here;
        call = launched.call;
      }
      launched.place = node;
    }
    program.activities.push_back(launched);
  });
  if (threads.empty()) {
    order_by_correlation(program, device);
  } else if (!nodes_ascend) {
    for (LaunchedActivity& launched : program.activities) launched.place = 0;
  }
  sort_nearly_sorted(program.activities, [](const LaunchedActivity& a, const LaunchedActivity& b) {
    return std::tie(a.launch_ns, a.place) < std::tie(b.launch_ns, b.place);
  });
  return threads;
}

/// Which record an event stands for at some call: by its eventSyncId, else the latest record of the event before it.
class EventRecords {
 public:
  explicit EventRecords(const RankEvents& events) {
    const std::vector<EventRecord>& records = events.process.event_records;
    for (std::uint32_t r = 0; r < records.size(); ++r) {
      if (records[r].event_sync_id != 0) {
        by_sync_id_.try_emplace(records[r].event_sync_id, r);
      } else if (const std::uint32_t call = events.launches.number_of(records[r].correlation_id, at_the_end_ns);
                 call != LaunchIndex::no_call) {
        by_event_.emplace(std::tuple(records[r].context_id, records[r].event_id, call), r);
      }
    }
  }

  std::uint32_t waited_for(const Synchronization& wait, std::uint32_t call) const {
    if (wait.event_sync_id != 0) {
      const auto found = by_sync_id_.find(wait.event_sync_id);
      return found == by_sync_id_.end() ? HostEvent::none : found->second;
    }
    const auto next = by_event_.lower_bound(std::tuple(wait.context_id, wait.event_id, call));
    if (next == by_event_.begin()) return HostEvent::none;
    const auto& [key, record] = *std::prev(next);
    const bool is_same = std::get<0>(key) == wait.context_id && std::get<1>(key) == wait.event_id;
    return is_same ? record : HostEvent::none;
  }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> by_sync_id_;
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, std::uint32_t> by_event_;  ///< context, event, call
};

/// What is recorded of who waits: type 2 tells both a stream that waits for an event and a host that waits for a stream
/// (nsys 2025.3), so names of calls tell them apart.
class RecordedWaits {
 public:
  RecordedWaits(const RankEvents& events, Program& program) : events_(events), program_(program), records_(events) {
    std::vector<bool> is_waited_for(events.process.event_records.size(), false);
    for (const Synchronization& wait : events.process.synchronizations) {
      const std::uint32_t call = events.launches.number_of(wait.correlation_id, at_the_end_ns);
      if (call == LaunchIndex::no_call) continue;
      const std::uint32_t record = records_.waited_for(wait, call);
      const ApiCall made = events.process.api_calls[call];
      const std::string& name = events.trace.strings[made.name];
      if (name.find("StreamWaitEvent") != std::string::npos) {
        ++stream_waits_;
        if (record == HostEvent::none) continue;
        ++resolved_;
        program.events.push_back({made.start_ns, call, stream_of(wait), record, HostEventKind::stream_wait});
      } else if (name.find("EventSynchronize") != std::string::npos) {
        of_call_[call] = {HostEvent::none, record};
      } else if (name.find("StreamSynchronize") != std::string::npos) {
        of_call_[call] = {wait.stream_id == no_stream ? HostEvent::none : stream_of(wait), HostEvent::none};
        continue;
      } else if (name.find("DeviceSynchronize") != std::string::npos ||
                 name.find("CtxSynchronize") != std::string::npos) {
        of_call_[call] = {HostEvent::every_stream, HostEvent::none};
        continue;
      } else {
        continue;
      }
      if (record != HostEvent::none) is_waited_for[record] = true;
    }
    add_records(is_waited_for);
  }

  /// Nearly all: the first ones may name records before the capture.
  bool are_resolved() const { return stream_waits_ > 0 && 2 * resolved_ > stream_waits_; }

  /// Stream and record that a call of the host waited for.
  std::pair<std::uint32_t, std::uint32_t> of_call(std::uint32_t call) const {
    const auto found = of_call_.find(call);
    return found == of_call_.end() ? std::pair(HostEvent::none, HostEvent::none) : found->second;
  }

 private:
  std::uint32_t stream_of(const Synchronization& wait) {
    return program_.streams.number_of(wait.context_id, wait.stream_id);
  }

  void add_records(const std::vector<bool>& is_waited_for) {
    for (std::uint32_t r = 0; r < is_waited_for.size(); ++r) {
      if (!is_waited_for[r]) continue;
      const EventRecord& record = events_.process.event_records[r];
      const std::uint32_t call = events_.launches.number_of(record.correlation_id, at_the_end_ns);
      if (call == LaunchIndex::no_call) continue;
      program_.events.push_back({events_.process.api_calls[call].start_ns, call,
                                 program_.streams.number_of(record.context_id, record.stream_id), r,
                                 HostEventKind::record});
    }
  }

  const RankEvents& events_;
  Program& program_;
  const EventRecords records_;
  std::int64_t stream_waits_ = 0, resolved_ = 0;
  std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>> of_call_;
};

/// Starts of the calls that launched activities, by thread.
class LaunchTimes {
 public:
  LaunchTimes(const RankEvents& events, const Program& program) {
    for (const LaunchedActivity& launched : program.activities) {
      if (launched.call == LaunchIndex::no_call) continue;
      const ApiCall call = events.process.api_calls[launched.call];
      starts_[call.thread_id].push_back(call.start_ns);
    }
    for (auto& [thread, starts] : starts_) std::sort(starts.begin(), starts.end());
  }

  bool has_one_within(const ApiCall& wait) const {
    const auto of_thread = starts_.find(wait.thread_id);
    if (of_thread == starts_.end()) return false;
    const auto after = std::upper_bound(of_thread->second.begin(), of_thread->second.end(), wait.start_ns);
    return after != of_thread->second.end() && *after < wait.end_ns;
  }

 private:
  std::map<std::uint32_t, std::vector<Nanoseconds>> starts_;
};

}  // namespace

std::uint32_t Program::stream_of(const DeviceTrace& device, const GpuActivity& activity) {
  const bool has_context = activity.kind != ActivityKind::graph_launch;
  const std::uint32_t of_device = device.kernel_kinds.empty() ? 0 : device.kernel_kinds.front().context_id;
  return streams.number_of(has_context ? activity.context_id : of_device, activity.stream_id);
}

Nanoseconds first_host_event(const RankEvents& events, const Program& program) {
  Nanoseconds earliest_ns = program.activities.front().launch_ns;
  std::uint32_t first = program.activities.front().call;
  if (!program.events.empty() && program.events.front().time_ns < earliest_ns) {
    earliest_ns = program.events.front().time_ns;
    first = program.events.front().call;
  }
  if (first == LaunchIndex::no_call) return earliest_ns;
  const std::uint32_t thread = events.process.api_calls[first].thread_id;
  for (const ApiCall& call : events.process.api_calls) {
    if (call.start_ns >= earliest_ns) break;
    if (call.thread_id == thread) earliest_ns = call.start_ns;
  }
  for (const NvtxRange& range : events.process.nvtx_ranges) {
    if (range.start_ns >= earliest_ns) break;
    if (range.thread_id == thread) earliest_ns = range.start_ns;
  }
  return earliest_ns;
}

Program program_of(const RankEvents& events) {
  Program program;
  const std::set<std::uint32_t> threads = add_activities(events, program);
  const RecordedWaits recorded(events, program);
  program.has_records = recorded.are_resolved() && !has_graph_nodes(events.device);
  if (!program.has_records) program.events.clear();
  constexpr Nanoseconds longest_launch_ns = 20'000;
  CallParts parts(events.trace);
  const LaunchTimes launches(events, program);
  std::uint32_t number = 0;
  for (const ApiCall& call : events.process.api_calls) {
    const std::uint32_t here = number++;
    if (!threads.contains(call.thread_id)) continue;
    const WorkPart part = parts.of(call);
    if (!may_wait_for_gpu(part) && (part != WorkPart::launching || call.end_ns - call.start_ns < longest_launch_ns))
      continue;
    HostEvent wait{call.start_ns, here};
    wait.contradicted = part == WorkPart::synchronising && launches.has_one_within(call);
    if (program.has_records) std::tie(wait.stream, wait.record) = recorded.of_call(here);
    program.events.push_back(wait);
  }
  std::stable_sort(program.events.begin(), program.events.end(), [](const HostEvent& a, const HostEvent& b) {
    return std::tie(a.time_ns, a.call) < std::tie(b.time_ns, b.call);
  });
  return program;
}

}  // namespace nsys_explain::analysis
