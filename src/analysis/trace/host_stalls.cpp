#include "analysis/trace/host_stalls.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

namespace nsys_explain::analysis {
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

}  // namespace nsys_explain::analysis
