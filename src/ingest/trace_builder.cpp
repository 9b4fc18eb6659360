#include "ingest/trace_builder.hpp"

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::ingest {
namespace {

template <class Event, class Key>
void sort_by(std::vector<Event>& events, const Key& key) {
  sort_nearly_sorted(events, [&](const Event& a, const Event& b) { return key(a) < key(b); });
}

void sort_device(DeviceTrace& device) {
  device.kernels.sort([&](const Kernel& a, const Kernel& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    const auto rest = [&](const Kernel& k) {
      const KernelKind& kind = device.kind_of(k);
      return std::tie(k.end_ns, kind.context_id, kind.stream_id, k.correlation_id, kind.graph_node_id);
    };
    return rest(a) < rest(b);
  });
  sort_by(device.memory_operations, [](const MemoryOperation& m) {
    return std::tie(m.start_ns, m.end_ns, m.context_id, m.stream_id, m.correlation_id, m.is_set, m.bytes, m.copy_kind);
  });
  sort_by(device.graph_launches, [](const GraphLaunch& g) {
    return std::tie(g.start_ns, g.end_ns, g.stream_id, g.correlation_id, g.graph_id, g.graph_exec_id);
  });
}

void sort_process(ProcessTrace& process) {
  process.api_calls.sort([](const ApiCall& a, const ApiCall& b) {
    if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
    return std::tie(a.end_ns, a.thread_id, a.correlation_id) < std::tie(b.end_ns, b.thread_id, b.correlation_id);
  });
  sort_by(process.synchronizations,
          [](const Synchronization& s) { return std::tie(s.start_ns, s.end_ns, s.correlation_id); });
  sort_by(process.mpi_calls, [](const MpiCall& c) {
    return std::tie(c.start_ns, c.end_ns, c.thread_id, c.name, c.communicator, c.handle, c.bytes, c.root, c.tag,
                    c.request);
  });
  sort_by(process.event_records, [](const EventRecord& e) { return std::tie(e.correlation_id, e.event_id); });
  // Where a node has several rows, the one that names its original tells most.
  sort_by(process.graph_nodes, [](const GraphNode& n) {
    return std::tuple(n.node_id, n.original_id == 0, n.created_ns, n.original_id, n.thread_id);
  });
  sort_by(process.memory_events,
          [](const MemoryEvent& m) { return std::tie(m.time_ns, m.device_id, m.is_release, m.memory_kind, m.bytes); });
  sort_by(process.os_calls, [](const OsCall& c) { return std::tie(c.start_ns, c.end_ns, c.thread_id, c.name); });
  sort_by(process.overheads,
          [](const Overhead& o) { return std::tie(o.start_ns, o.end_ns, o.thread_id, o.kind, o.name); });
  sort_by(process.scheduling_events,
          [](const SchedulingEvent& s) { return std::tie(s.time_ns, s.thread_id, s.on_cpu, s.cpu); });
  sort_by(process.cpu_samples,
          [](const CpuSample& s) { return std::tie(s.time_ns, s.thread_id, s.cpu, s.function, s.module); });
  sort_by(process.traced_calls,
          [](const TracedCall& c) { return std::tie(c.start_ns, c.end_ns, c.thread_id, c.name, c.stack); });
  sort_by(process.library_calls,
          [](const LibraryCall& c) { return std::tie(c.start_ns, c.end_ns, c.thread_id, c.is_cudnn, c.name); });
}

}  // namespace

ProcessTrace& TraceBuilder::process(std::uint64_t global_pid) {
  if (last_process_ == nullptr || last_process_->global_pid != global_pid) {
    const auto [place, is_new] = processes_.try_emplace(global_pid);
    last_process_ = &place->second;
    if (is_new) {
      last_process_->global_pid = global_pid;
      last_process_->process_id = process_id_of(global_pid);
    }
  }
  return *last_process_;
}

ProcessTrace* TraceBuilder::find_process(std::uint64_t global_pid) {
  if (last_process_ != nullptr && last_process_->global_pid == global_pid) return last_process_;
  const auto place = processes_.find(global_pid);
  if (place == processes_.end()) return nullptr;
  last_process_ = &place->second;
  return last_process_;
}

DeviceTrace& TraceBuilder::device(std::uint64_t global_pid, std::int32_t device_id) {
  if (last_device_ == nullptr || last_device_pid_ != global_pid || last_device_->device_id != device_id) {
    process(global_pid);
    last_device_ = &devices_[{global_pid, device_id}];
    last_device_->device_id = device_id;
    last_device_pid_ = global_pid;
  }
  return *last_device_;
}

std::vector<ProcessTrace> TraceBuilder::finish() {
  for (auto& [key, device] : devices_) {
    sort_device(device);
    processes_.at(key.first).devices.push_back(std::move(device));
  }
  std::vector<ProcessTrace> result;
  for (auto& [global_pid, process] : processes_) {
    sort_process(process);
    result.push_back(std::move(process));
  }
  processes_.clear();
  devices_.clear();
  last_process_ = nullptr;
  last_device_ = nullptr;
  return result;
}

}  // namespace nsys_explain::ingest
