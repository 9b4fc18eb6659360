#include <set>

#include <fmt/format.h>

#include "analysis/trace/divergence.hpp"
#include "analysis/trace/host_activity.hpp"
#include "analysis/trace/launches.hpp"
#include "analysis/trace/nvtx_ranges.hpp"
#include "model/text.hpp"

namespace nsys_explain::analysis {
namespace {

/// Calls, ranges and host stalls below this are noise of the host.
constexpr Nanoseconds shortest_event_ns = 20'000;
/// Ranges that launch are as many as operators, and launching is not what they are told for.
constexpr Nanoseconds shortest_launching_range_ns = 100'000;

std::string_view copy_name(const MemoryOperation& operation) {
  if (operation.is_set) return "set";
  switch (operation.copy_kind) {  // ENUM_CUDA_MEMCPY_OPER
    case 1:
      return "copy host to device";
    case 2:
      return "copy device to host";
    case 8:
      return "copy device to device";
    case 10:
      return "copy peer to peer";
    default:
      return "copy";
  }
}

std::string_view host_stall_name(HostStallKind kind) {
  return name_in_order(kind, {"profiler", "loading code", "system call", "system call", "no CPU core"});
}

/// Frameworks number their ranges ("aten::to, op_id = 998672", "step 12"): without the numbers, names of two ranks
/// agree.
std::string without_numbers(const std::string& name) {
  std::string text = name.substr(0, name.find(", seq = "));
  text = text.substr(0, text.find(", op_id = "));
  while (!text.empty() && text.back() >= '0' && text.back() <= '9') text.pop_back();
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text.empty() ? name : text;
}

class EventLister {
 public:
  EventLister(const RankEvents& events, const LaunchSegment& segment) : events_(events), segment_(segment) {}

  std::vector<WorkEvent> list() {
    find_ranges();
    add_kernels();
    add_copies();
    std::sort(launches_.begin(), launches_.end());
    add_calls();
    add_ranges();
    add_host_stalls();
    add_functions();
    std::stable_sort(list_.begin(), list_.end(), [](const WorkEvent& a, const WorkEvent& b) {
      return std::tie(a.start_ns, a.kind, a.name, a.shape) < std::tie(b.start_ns, b.kind, b.name, b.shape);
    });
    if (list_.size() > most_work_events) list_.resize(most_work_events);
    return std::move(list_);
  }

 private:
  bool inside(Nanoseconds time_ns) const { return time_ns >= segment_.start_ns && time_ns < segment_.end_ns; }
  const std::string& text(StringIndex index) const { return events_.trace.strings[index]; }

  void add(WorkEventKind kind, std::string name, std::string shape, Nanoseconds at_ns, Nanoseconds duration_ns) {
    list_.push_back({kind, std::move(name), std::move(shape), at_ns - segment_.start_ns, duration_ns});
  }

  void add_kernels() {
    for (const std::uint32_t number : segment_.kernels) {
      const Kernel kernel = events_.device.kernels[number];
      const KernelKind& k = events_.device.kind_of(kernel);
      add(WorkEventKind::kernel, text(k.demangled_name),
          fmt::format("{}x{}x{} of {}x{}x{}", k.grid_x, k.grid_y, k.grid_z, k.block_x, k.block_y, k.block_z),
          launch_time_ns(events_, kernel), kernel.end_ns - kernel.start_ns);
      if (const auto call = events_.launches.find(kernel.correlation_id, kernel.start_ns)) {
        list_.back().range = range_around(*call);
        launching_threads_.insert(call->thread_id);
        launches_.push_back(call->start_ns);
      }
    }
  }

  void add_copies() {
    for (const MemoryOperation& operation : events_.device.memory_operations) {
      const auto call = events_.launches.find(operation.correlation_id, operation.start_ns);
      const Nanoseconds launch_ns = !call ? operation.start_ns : call->start_ns;
      if (!inside(launch_ns)) continue;
      add(WorkEventKind::copy, std::string(copy_name(operation)), fmt::format("{} bytes", operation.bytes), launch_ns,
          operation.end_ns - operation.start_ns);
      if (call) launching_threads_.insert(call->thread_id);
    }
  }

  /// The two innermost known functions around a call whose backtrace was recorded: "from load < main"; else empty.
  std::string caller_of(const ApiCall& call) const {
    const std::vector<TracedCall>& traced = events_.process.traced_calls;
    auto found = std::partition_point(traced.begin(), traced.end(),
                                      [&](const TracedCall& one) { return one.start_ns < call.start_ns; });
    while (found != traced.end() && found->start_ns == call.start_ns && found->thread_id != call.thread_id) ++found;
    if (found == traced.end() || found->start_ns != call.start_ns) return {};
    std::string callers;
    int told = 0;
    for (std::string_view rest = text(found->stack); !rest.empty() && told < 2;) {
      const std::size_t end = rest.find(" < ");
      const std::string_view frame = rest.substr(0, end);
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 3);
      if (frame == text(call.name) || frame.find(".so") != std::string_view::npos) continue;
      callers.append(told++ > 0 ? " < " : "from ").append(frame);
    }
    return callers;
  }

  void add_calls() {
    CallParts parts(events_.trace);
    for (const ApiCall& call : events_.process.api_calls) {
      if (!inside(call.start_ns) || !launching_threads_.contains(call.thread_id)) continue;
      const bool blocks = parts.of(call) != WorkPart::launching;
      if (blocks || call.end_ns - call.start_ns >= shortest_event_ns)
        add(WorkEventKind::call, text(call.name), caller_of(call), call.start_ns, call.end_ns - call.start_ns);
    }
  }

  bool launches_within(const NvtxRange& range) const {
    const auto launch = std::lower_bound(launches_.begin(), launches_.end(), range.start_ns);
    return launch != launches_.end() && *launch < range.end_ns;
  }

  /// The program's that are open at some time of the segment, by start: of one thread outer before inner ones.
  void find_ranges() {
    for_each_outer_first(events_.process.nvtx_ranges, segment_.end_ns, [&](std::uint32_t index) {
      const NvtxRange range = events_.process.nvtx_ranges[index];
      if (range.is_nccl_call || range.kind == NvtxKind::mark || range.start_ns >= segment_.end_ns) return;
      if (end_of(range, segment_.end_ns) > segment_.start_ns) ranges_.push_back(range);
    });
  }

  /// The innermost around a call; empty where there is none.
  std::string range_around(const ApiCall& call) const {
    const auto begun = std::partition_point(ranges_.begin(), ranges_.end(),
                                            [&](const NvtxRange& range) { return range.start_ns <= call.start_ns; });
    const auto innermost = std::find_if(std::make_reverse_iterator(begun), ranges_.rend(), [&](const NvtxRange& range) {
      return range.thread_id == call.thread_id && end_of(range, segment_.end_ns) > call.start_ns;
    });
    return innermost == ranges_.rend() ? std::string() : without_numbers(text(innermost->text));
  }

  /// Each without those directly inside it.
  void add_ranges() {
    std::vector<Nanoseconds> own_ns;
    std::map<std::uint32_t, std::vector<std::size_t>> open;  // by thread
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const NvtxRange& range = ranges_[i];
      const Nanoseconds end_ns = end_of(range, segment_.end_ns);
      own_ns.push_back(end_ns - range.start_ns);
      std::vector<std::size_t>& around = open[range.thread_id];
      while (!around.empty() && end_of(ranges_[around.back()], segment_.end_ns) < end_ns) around.pop_back();
      if (!around.empty()) own_ns[around.back()] -= own_ns.back();
      around.push_back(i);
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const NvtxRange& range = ranges_[i];
      const Nanoseconds least_ns = launches_within(range) ? shortest_launching_range_ns : shortest_event_ns;
      if (range.end_ns == no_time || range.end_ns > segment_.end_ns || !inside(range.start_ns)) continue;
      if (own_ns[i] < least_ns || !launching_threads_.contains(range.thread_id)) continue;
      add(WorkEventKind::range, without_numbers(text(range.text)), {}, range.start_ns, own_ns[i]);
    }
  }

  void add_host_stalls() {
    for (const HostStall& host_stall : host_stalls(events_.trace, events_.process)) {
      const bool here = host_stall.kind == HostStallKind::profiler || launching_threads_.contains(host_stall.thread_id);
      if (!here || !inside(host_stall.start_ns)) continue;
      const std::string& name = text(host_stall.name);
      add(WorkEventKind::host_stall,
          name.empty() ? std::string(host_stall_name(host_stall.kind))
                       : fmt::format("{}: {}", host_stall_name(host_stall.kind), name),
          {}, host_stall.start_ns, host_stall.end_ns - host_stall.start_ns);
    }
  }

  void add_functions() {
    const std::vector<CpuSample>& samples = events_.process.cpu_samples;
    const auto inside_from = std::partition_point(
        samples.begin(), samples.end(), [&](const CpuSample& sample) { return sample.time_ns < segment_.start_ns; });
    const Nanoseconds period_ns = inside_from == samples.end() ? 0 : sampling_period_ns(samples);
    for (auto sample = inside_from; sample != samples.end() && inside(sample->time_ns); ++sample)
      if (launching_threads_.contains(sample->thread_id))
        add(WorkEventKind::function, function_name(events_.trace, *sample), {}, sample->time_ns, period_ns);
  }

  const RankEvents& events_;
  const LaunchSegment& segment_;
  std::set<std::uint32_t> launching_threads_;
  std::vector<Nanoseconds> launches_;  ///< of kernels, ascending
  std::vector<NvtxRange> ranges_;
  std::vector<WorkEvent> list_;
};

}  // namespace

std::string_view work_event_kind_name(WorkEventKind kind) {
  return name_in_order(kind, {"kernel", "copy", "call", "range", "host_stall", "function"});
}

std::vector<WorkEvent> work_events(const RankEvents& events, TraceTime enter) {
  std::vector<WorkEvent> list;
  bool is_found = false;  // of several that start at once the first one counts
  for_each_launch_segment(events, [&](const Kernel& communication, const LaunchSegment& segment) {
    if (is_found || communication.start_ns != enter.ns) return;
    is_found = true;
    list = EventLister(events, segment).list();
  });
  return list;
}

}  // namespace nsys_explain::analysis
