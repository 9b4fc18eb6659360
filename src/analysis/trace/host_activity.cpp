#include "analysis/trace/host_activity.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "analysis/statistics/delimited_text.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
Nanoseconds sampling_period_ns(std::span<const CpuSample> samples) {
  std::unordered_map<std::uint32_t, Nanoseconds> last_ns;  // by thread
  std::vector<Nanoseconds> gaps;
  for (const CpuSample& sample : samples) {
    const auto [last, is_first] = last_ns.try_emplace(sample.thread_id, sample.time_ns);
    if (!is_first) gaps.push_back(sample.time_ns - std::exchange(last->second, sample.time_ns));
  }
  return gaps.empty() ? 0 : lower_median(std::move(gaps));
}

std::string function_name(const Trace& trace, const CpuSample& sample) {
  const std::string &function = trace.strings[sample.function], &module = trace.strings[sample.module];
  if (function.empty()) return module.empty() ? "not known" : module;
  return module.empty() ? function : fmt::format("{} ({})", function, module);
}

namespace {

/// Calls that move or map data; every other one that is recorded waits for somebody or something.
constexpr std::array<std::string_view, 24> file_calls{"read",   "readv",   "pread",   "pread64",   "preadv", "fread",
                                                      "fgets",  "getline", "write",   "writev",    "pwrite", "pwrite64",
                                                      "fwrite", "fflush",  "fsync",   "fdatasync", "open",   "open64",
                                                      "openat", "fopen",   "fopen64", "mmap",      "mmap64", "munmap"};

HostStallKind kind_of_call(std::string_view name) {
  const bool moves_data = std::find(file_calls.begin(), file_calls.end(), name) != file_calls.end();
  return moves_data ? HostStallKind::file : HostStallKind::wait;
}

/// A full launch queue holds nobody up: the GPU is busy then.
std::optional<HostStallKind> kind_of_overhead(const Overhead& overhead) {
  if (overhead.is_profiler) return HostStallKind::profiler;
  if (overhead.kind == OverheadKind::command_buffer_full) return std::nullopt;
  return HostStallKind::module_load;
}

/// The time between leaving a core and getting one.
void add_descheduled(const ProcessTrace& process, std::vector<HostStall>& all) {
  std::map<std::uint32_t, Nanoseconds> off_since;
  for (const SchedulingEvent& event : process.scheduling_events) {
    if (!event.on_cpu) {
      off_since.try_emplace(event.thread_id, event.time_ns);
      continue;
    }
    const auto off = off_since.find(event.thread_id);
    if (off == off_since.end()) continue;
    all.push_back({off->second, event.time_ns, event.thread_id, 0, HostStallKind::descheduled});
    off_since.erase(off);
  }
}

}  // namespace

std::vector<HostStall> host_stalls(const Trace& trace, const ProcessTrace& process) {
  std::vector<HostStall> all;
  for (const OsCall& call : process.os_calls) {
    if (call.is_nested) continue;
    all.push_back({call.start_ns, call.end_ns, call.thread_id, call.name, kind_of_call(trace.strings[call.name])});
  }
  for (const Overhead& overhead : process.overheads) {
    const auto kind = kind_of_overhead(overhead);
    if (kind) all.push_back({overhead.start_ns, overhead.end_ns, overhead.thread_id, overhead.name, *kind});
  }
  add_descheduled(process, all);
  std::erase_if(all, [](const HostStall& h) { return h.end_ns - h.start_ns < shortest_host_stall_ns; });
  std::sort(all.begin(), all.end(), [](const HostStall& a, const HostStall& b) {
    return std::tie(a.start_ns, a.end_ns, a.thread_id, a.kind, a.name) <
           std::tie(b.start_ns, b.end_ns, b.thread_id, b.kind, b.name);
  });
  return all;
}

namespace {

/// Ranges that took less do not explain lateness; frameworks mark every operator.
constexpr Nanoseconds shortest_range_ns = 20'000;

/// Precedence of what happens at one time, on the launching thread and on others. 0: does not count.
struct Precedence {
  int own = 0, other = 0;
};
constexpr int precedence_levels = 14;

constexpr Precedence precedence_of(WorkPart part) {
  switch (part) {
    case WorkPart::profiling:
      return {13, 6};
    case WorkPart::allocation:
      return {12, 5};
    case WorkPart::module_load:
      return {11, 5};
    case WorkPart::synchronising:
      return {10, 5};
    case WorkPart::blocking_copy:
      return {9, 5};
    case WorkPart::file_access:
      return {8, 0};
    case WorkPart::named_range:
      return {7, 0};
    case WorkPart::system_wait:
      return {4, 0};
    case WorkPart::descheduled:
      return {3, 0};
    case WorkPart::launching:
      return {2, 0};
    default:
      return {};
  }
}

WorkPart part_of_stall(HostStallKind kind) {
  switch (kind) {
    case HostStallKind::profiler:
      return WorkPart::profiling;
    case HostStallKind::module_load:
      return WorkPart::module_load;
    case HostStallKind::file:
      return WorkPart::file_access;
    case HostStallKind::wait:
      return WorkPart::system_wait;
    case HostStallKind::descheduled:
      break;
  }
  return WorkPart::descheduled;
}

using Change = HostActivity::Change;

void append(std::vector<WorkPiece>& pieces, Nanoseconds start_ns, Nanoseconds end_ns, WorkPart part) {
  if (start_ns >= end_ns) return;
  if (!pieces.empty() && pieces.back().part == part && pieces.back().end_ns == start_ns) {
    pieces.back().end_ns = end_ns;
  } else {
    pieces.push_back({start_ns, end_ns, part});
  }
}

/// Cuts the span by whatever has the highest precedence at each time.
void sweep(const Interval& span, std::vector<Change>& changes, std::vector<WorkPiece>& pieces) {
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::tie(a.time_ns, a.level, a.part, a.count) < std::tie(b.time_ns, b.level, b.part, b.count);
  });
  // Parts that share a level do not lie: the first of them that is open is as right as another.
  std::array<std::array<int, work_part_count>, precedence_levels> open{};
  std::array<int, precedence_levels> open_at_level{};
  const auto current = [&] {
    for (std::size_t level = precedence_levels; level-- > 0;) {
      if (open_at_level[level] == 0) continue;
      for (std::size_t part = 0; part < work_part_count; ++part)
        if (open[level][part] > 0) return static_cast<WorkPart>(part);
    }
    return WorkPart::unseen;
  };
  Nanoseconds at_ns = span.start_ns;
  for (const Change& change : changes) {
    if (change.time_ns > at_ns) {
      append(pieces, at_ns, change.time_ns, current());
      at_ns = change.time_ns;
    }
    open[static_cast<std::size_t>(change.level)][static_cast<std::size_t>(change.part)] += change.count;
    open_at_level[static_cast<std::size_t>(change.level)] += change.count;
  }
  append(pieces, at_ns, span.end_ns, current());
}

std::int64_t count_between(const std::vector<Nanoseconds>& times, Nanoseconds start_ns, Nanoseconds end_ns) {
  return std::lower_bound(times.begin(), times.end(), end_ns) - std::lower_bound(times.begin(), times.end(), start_ns);
}

/// By API call: whether it launched work of this device; kernels alone, or copies and sets, too.
std::vector<bool> calls_with_work(const RankEvents& events, bool with_copies) {
  std::vector<bool> with_work(events.process.api_calls.size(), false);
  const auto note = [&](const auto& activity) {
    const std::uint32_t call = events.launches.number_of(activity.correlation_id, activity.start_ns);
    if (call != LaunchIndex::no_call) with_work[call] = true;
  };
  for (const Kernel& kernel : events.device.kernels) note(kernel);
  for (const GraphLaunch& launch : events.device.graph_launches) note(launch);
  if (!with_copies) return with_work;
  for (const MemoryOperation& operation : events.device.memory_operations) note(operation);
  return with_work;
}

}  // namespace

WorkPart part_of_call(std::string_view name) {
  if (contains(name, "Synchronize") || name.starts_with("MPI_")) return WorkPart::synchronising;
  if (contains(name, "Module") || contains(name, "Library") || contains(name, "cuLink")) return WorkPart::module_load;
  if (contains(name, "Malloc") || contains(name, "Free") || contains(name, "MemAlloc") || contains(name, "HostAlloc") ||
      contains(name, "HostRegister") || contains(name, "HostUnregister") || contains(name, "cuMemCreate") ||
      contains(name, "cuMemMap") || contains(name, "cuMemUnmap") || contains(name, "cuMemRelease") ||
      contains(name, "cuMemSetAccess") || contains(name, "MemPoolTrim")) {
    return WorkPart::allocation;
  }
  const bool moves = contains(name, "Memcpy") || contains(name, "Memset");
  if (moves && !contains(name, "Async") && !contains(name, "Node")) return WorkPart::blocking_copy;
  return WorkPart::launching;
}

HostActivity::HostActivity(const RankEvents& events) : api_calls_(events.process.api_calls) {
  find_threads(calls_with_work(events, true));
  add_calls(events);
  add_ranges(events, calls_with_work(events, false));
  add_host_stalls(events);
  for (auto& [id, thread] : threads_.all()) {
    sort_nearly_sorted(thread.doings, [](const Doing& a, const Doing& b) {
      return std::tie(a.start_ns, a.end_ns, a.part) < std::tie(b.start_ns, b.end_ns, b.part);
    });
    Nanoseconds latest_ns = no_time;
    for (Doing& doing : thread.doings) doing.latest_end_ns = latest_ns = std::max(latest_ns, doing.end_ns);
  }
}

void HostActivity::find_threads(const std::vector<bool>& launched_work) {
  RunMap<std::uint32_t, std::size_t> calls;  // by thread: room for them all at once
  for (std::size_t i = 0; i < api_calls_.size(); ++i) {
    const std::uint32_t thread_id = api_calls_[i].thread_id;
    ++calls[thread_id];
    if (launched_work[i]) threads_[thread_id].launches = true;
  }
  for (auto& [id, thread] : threads_.all()) thread.steps.reserve(calls[id]);
}

void HostActivity::add(std::uint32_t thread_id, Nanoseconds start_ns, Nanoseconds end_ns, WorkPart part) {
  threads_[thread_id].doings.push_back({start_ns, end_ns, part, end_ns});
}

void HostActivity::Thread::add_launching(std::uint32_t call, Nanoseconds end_ns) {
  constexpr std::size_t most_in_block = 64;
  const bool is_full = blocks.empty() || steps.size() - blocks.back().first_step == most_in_block;
  const bool is_far = call - latest_call > std::numeric_limits<std::uint16_t>::max();
  if (is_full || is_far) {
    const Nanoseconds latest_ns = blocks.empty() ? end_ns : blocks.back().latest_end_ns;
    blocks.push_back({call, static_cast<std::uint32_t>(steps.size()), latest_ns});
    latest_call = call;
  }
  steps.push_back(static_cast<std::uint16_t>(call - latest_call));
  latest_call = call;
  blocks.back().latest_end_ns = std::max(blocks.back().latest_end_ns, end_ns);
}

void HostActivity::add_calls(const RankEvents& events) {
  CallParts parts(events.trace);
  for (std::uint32_t i = 0; i < api_calls_.size(); ++i) {
    const ApiCall call = api_calls_[i];
    Thread* thread = threads_.find(call.thread_id);
    if (thread == nullptr) continue;  // threads of other devices
    const WorkPart part = parts.of(call);
    if (part == WorkPart::synchronising) synchronisations_.push_back(call.start_ns);
    if (part == WorkPart::allocation) allocations_.push_back(call.start_ns);
    if (part == WorkPart::launching) {
      thread->add_launching(i, call.end_ns);
    } else {
      thread->doings.push_back({call.start_ns, call.end_ns, part, call.end_ns});
    }
  }
}

/// A range that launches kernels is a part of the program; one that launches none, as for loading a batch or writing a
/// checkpoint, is what the host did instead, whatever it copies. Goes back in time, so that the next launch of each
/// thread is known without a list of millions.
void HostActivity::add_ranges(const RankEvents& events, const std::vector<bool>& launched_kernels) {
  const NvtxRanges& ranges = events.process.nvtx_ranges;
  RunMap<std::uint32_t, Nanoseconds> next_launch_ns;  // by thread
  std::size_t call = api_calls_.size();               // this one and those after it are looked at
  for (std::size_t i = ranges.size(); i-- > 0;) {
    const NvtxRange range = ranges[i];
    if (range.is_nccl_call || range.kind == NvtxKind::mark || range.end_ns == no_time) continue;
    if (range.end_ns - range.start_ns < shortest_range_ns) continue;
    const Thread* thread = threads_.find(range.thread_id);
    if (thread == nullptr || !thread->launches) continue;
    for (; call > 0 && api_calls_[call - 1].start_ns >= range.start_ns; --call) {
      if (!launched_kernels[call - 1]) continue;
      const ApiCall launch = api_calls_[call - 1];
      next_launch_ns[launch.thread_id] = launch.start_ns;
    }
    const Nanoseconds* launch_ns = next_launch_ns.find(range.thread_id);
    if (launch_ns != nullptr && *launch_ns < range.end_ns) continue;
    add(range.thread_id, range.start_ns, range.end_ns, WorkPart::named_range);
  }
}

void HostActivity::add_host_stalls(const RankEvents& events) {
  for (const HostStall& host_stall : host_stalls(events.trace, events.process)) {
    const Thread* thread = threads_.find(host_stall.thread_id);
    const bool launches = thread != nullptr && thread->launches;
    if (launches || host_stall.kind == HostStallKind::profiler)
      add(host_stall.thread_id, host_stall.start_ns, host_stall.end_ns, part_of_stall(host_stall.kind));
  }
}

template <class Use>
void HostActivity::for_each_doing(const Thread& thread, const Interval& span, const Use& use) const {
  auto doing = std::upper_bound(thread.doings.begin(), thread.doings.end(), span.start_ns,
                                [](Nanoseconds time_ns, const Doing& d) { return time_ns < d.latest_end_ns; });
  for (; doing != thread.doings.end() && doing->start_ns < span.end_ns; ++doing)
    if (doing->end_ns > span.start_ns) use(doing->start_ns, doing->end_ns, doing->part);
  auto block = std::upper_bound(thread.blocks.begin(), thread.blocks.end(), span.start_ns,
                                [](Nanoseconds time_ns, const LaunchingCalls& b) { return time_ns < b.latest_end_ns; });
  for (; block != thread.blocks.end(); ++block) {
    const bool is_last = std::next(block) == thread.blocks.end();
    const std::size_t end = is_last ? thread.steps.size() : std::next(block)->first_step;
    std::uint32_t number = block->first_call;
    for (std::size_t i = block->first_step; i < end; ++i) {
      number += thread.steps[i];
      const ApiCall call = api_calls_[number];
      if (call.start_ns >= span.end_ns) return;
      if (call.end_ns > span.start_ns) use(call.start_ns, call.end_ns, WorkPart::launching);
    }
  }
}

void HostActivity::explain(const Interval& idle, const ApiCall& launch, IdlePieces& found) const {
  std::vector<WorkPiece>& pieces = found.pieces;
  std::vector<Change>& changes = found.changes;
  pieces.clear();
  changes.clear();
  const Interval host{idle.start_ns, std::min(idle.end_ns, launch.end_ns)};
  if (host.end_ns <= host.start_ns) return append(pieces, idle.start_ns, idle.end_ns, WorkPart::pending);
  for (const auto& [id, thread] : threads_.all()) {
    const bool is_own = id == launch.thread_id;
    for_each_doing(thread, host, [&](Nanoseconds start_ns, Nanoseconds end_ns, WorkPart part) {
      const Precedence precedence = precedence_of(part);
      const int level = is_own ? precedence.own : precedence.other;
      if (level == 0) return;
      changes.push_back({std::max(start_ns, host.start_ns), level, part, 1});
      changes.push_back({std::min(end_ns, host.end_ns), level, part, -1});
    });
  }
  sweep(host, changes, pieces);
  append(pieces, host.end_ns, idle.end_ns, WorkPart::pending);
}

std::int64_t HostActivity::synchronisations(Nanoseconds start_ns, Nanoseconds end_ns) const {
  return count_between(synchronisations_, start_ns, end_ns);
}

std::int64_t HostActivity::allocations(Nanoseconds start_ns, Nanoseconds end_ns) const {
  return count_between(allocations_, start_ns, end_ns);
}

}  // namespace nsys_explain::analysis
