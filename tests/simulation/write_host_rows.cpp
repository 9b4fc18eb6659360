#include <algorithm>

#include "simulation/export_context.hpp"

namespace nsys_explain::synth {
namespace {

void write_overheads(ExportContext& context) {
  constexpr int buffer_flush = 3;  // ENUM_CUPTI_OVERHEAD_TYPE
  Table table = context.table("PROFILER_OVERHEAD");
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const HostSpan& overhead : context.events(identity).overheads) {
      if (!identity.window.covers(overhead.start_ns, overhead.end_ns)) continue;
      table.set(table.column("start"), context.host_time(identity.shift_ns + overhead.start_ns));
      table.set(table.column("end"), context.host_time(identity.shift_ns + overhead.end_ns));
      table.set(table.column("globalTid"), identity.threads[0]);
      table.set(table.column("nameId"), context.strings.id("CUDA profiling data flush overhead"));
      table.set(table.column("overheadType"), buffer_flush);
      table.set(table.column("returnValue"), 0);
      table.insert();
    }
  }
}

/// CUPTI's own row for code that CUDA loads; the call itself is among the API calls.
void write_module_loads(ExportContext& context) {
  constexpr int module_loading = 6;  // ENUM_CUPTI_OVERHEAD_TYPE
  if (!context.has_table("CUPTI_ACTIVITY_KIND_OVERHEAD")) return;
  Table table = context.table("CUPTI_ACTIVITY_KIND_OVERHEAD");
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    for (std::uint32_t i = 0; i < events.calls.size(); ++i) {
      const HostCall& call = events.calls[i];
      if (call.function != ApiFunction::module_load || !identity.window.covers(call.start_ns, call.end_ns)) continue;
      table.set(table.column("start"), context.host_time(identity.shift_ns + call.start_ns + 1'000));
      table.set(table.column("end"), context.host_time(identity.shift_ns + call.end_ns - 1'000));
      table.set(table.column("eventClass"), 0);
      table.set(table.column("globalTid"), identity.threads[call.thread]);
      table.set(table.column("correlationId"), identity.correlation(i));
      table.set(table.column("nameId"), context.strings.id("Runtime Triggered Module Loading"));
      table.set(table.column("overheadType"), module_loading);
      table.insert();
    }
  }
}

/// A long read is many calls: 256 KiB each at 2 GB/s.
void write_file_reads(ExportContext& context) {
  constexpr int os_runtime = 27;  // ENUM_NSYS_EVENT_CLASS
  constexpr Nanoseconds call_ns = 131'000;
  Table table = context.table("OSRT_API");
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const HostSpan& read : context.events(identity).file_reads) {
      if (!identity.window.covers(read.start_ns, read.end_ns)) continue;
      for (Nanoseconds at_ns = read.start_ns; at_ns < read.end_ns; at_ns += call_ns) {
        table.set(table.column("start"), context.host_time(identity.shift_ns + at_ns));
        table.set(table.column("end"),
                  context.host_time(identity.shift_ns + std::min(at_ns + call_ns - 1'000, read.end_ns)));
        table.set(table.column("eventClass"), os_runtime);
        table.set(table.column("globalTid"), identity.threads[0]);
        table.set(table.column("nameId"), context.strings.id("read"));
        table.set(table.column("returnValue"), 262'144);
        table.set(table.column("nestingLevel"), 0);
        table.set(table.column("callchainId"), 0);
        table.set(table.column("argumentsId"), 0);
        table.insert();
      }
    }
  }
}

/// One row where the thread leaves its core and one where it gets one.
void write_context_switches(ExportContext& context) {
  constexpr int unscheduled = 6, running = 1;  // ENUM_SAMPLING_THREAD_STATE
  Table table = context.table("SCHED_EVENTS");
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const HostSpan& span : context.events(identity).descheduled) {
      if (!identity.window.covers(span.start_ns, span.end_ns)) continue;
      for (const bool in : {false, true}) {
        table.set(table.column("start"), context.host_time(identity.shift_ns + (in ? span.end_ns : span.start_ns)));
        table.set(table.column("cpu"), 8 * identity.device);
        table.set(table.column("isSchedIn"), in ? 1 : 0);
        table.set(table.column("globalTid"), identity.threads[0]);
        table.set(table.column("threadState"), in ? running : unscheduled);
        table.insert();
      }
    }
  }
}

void write_mpi_calls(ExportContext& context) {
  Table table = context.table("MPI_COLLECTIVES_EVENTS");
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const HostSpan& span : context.events(identity).mpi_waits) {
      if (!identity.window.covers(span.start_ns, span.end_ns)) continue;
      table.set(table.column("start"), context.host_time(identity.shift_ns + span.start_ns));
      table.set(table.column("end"), context.host_time(identity.shift_ns + span.end_ns));
      table.set(table.column("globalTid"), identity.threads[0]);
      table.set(table.column("textId"), context.strings.id("MPI_Barrier"));
      table.insert();
    }
  }
}

/// One frame of a call chain.
struct SampledFrame {
  const char* symbol;
  const char* module;
  bool is_resolved;
};

/// Where a main thread is at some time, the innermost frame first: collating a batch where it computes by itself, else
/// in the driver during a call, else in the interpreter.
class ProgramCounter {
 public:
  explicit ProgramCounter(const RankEvents& events) : events_(events) {}

  /// Times ascend.
  std::vector<SampledFrame> frames(Nanoseconds time_ns) {
    while (next_span_ < events_.computing.size() && events_.computing[next_span_].end_ns <= time_ns) ++next_span_;
    while (next_call_ < events_.calls.size() && events_.calls[next_call_].end_ns <= time_ns) ++next_call_;
    const SampledFrame interpreter{"_PyEval_EvalFrameDefault", "/usr/bin/python3.11", true};
    if (next_span_ < events_.computing.size() && events_.computing[next_span_].start_ns <= time_ns)
      return {{"0xffffffffa4600ba0", "[kernel.kallsyms]", false},
              {"__memmove_avx_unaligned_erms", "/usr/lib/x86_64-linux-gnu/libc.so.6", true},
              {"collate_batch", "/home/somebody/train/dataset.py", true},
              interpreter};
    if (next_call_ < events_.calls.size() && events_.calls[next_call_].start_ns <= time_ns)
      return {{"0x7f72b474d6c9", "/usr/lib64/libcuda.so.580.95.05", false}};
    return {interpreter};
  }

 private:
  const RankEvents& events_;
  std::size_t next_span_ = 0, next_call_ = 0;
};

/// Of main threads, whether they wait or not, for as long as the rank launched anything.
void write_cpu_samples(ExportContext& context) {
  const Nanoseconds period_ns = context.plan.export_style.cpu_sampling_ns;
  if (period_ns <= 0) return;
  constexpr int running = 1;  // ENUM_SAMPLING_THREAD_STATE
  Table samples = context.table("COMPOSITE_EVENTS"), frames = context.table("SAMPLING_CALLCHAINS");
  std::int64_t id = 0;
  for (const RankIdentity& identity : context.rank_passes()) {
    const RankEvents& events = context.events(identity);
    if (events.calls.empty()) continue;
    ProgramCounter counter(events);
    for (Nanoseconds at_ns = Nanoseconds{identity.rank} * 7'000; at_ns < events.calls.back().end_ns;
         at_ns += period_ns) {
      const std::vector<SampledFrame> chain = counter.frames(at_ns);
      if (!identity.window.covers(at_ns, at_ns)) continue;
      samples.set(samples.column("id"), ++id);
      samples.set(samples.column("start"), context.host_time(identity.shift_ns + at_ns));
      samples.set(samples.column("cpu"), 8 * identity.device);
      samples.set(samples.column("threadState"), running);
      samples.set(samples.column("globalTid"), identity.threads[0]);
      samples.set(samples.column("cpuCycles"), period_ns * 2);
      samples.insert();
      for (std::size_t depth = 0; depth < chain.size(); ++depth) {
        frames.set(frames.column("id"), id);
        frames.set(frames.column("symbol"), context.strings.id(chain[depth].symbol));
        frames.set(frames.column("module"), context.strings.id(chain[depth].module));
        frames.set(frames.column("unresolved"), chain[depth].is_resolved ? 0 : 1);
        frames.set(frames.column("stackDepth"), static_cast<std::int64_t>(depth));
        frames.insert();
      }
    }
  }
}

}  // namespace

void write_host_rows(ExportContext& context) {
  write_overheads(context);
  write_module_loads(context);
  write_file_reads(context);
  write_context_switches(context);
  write_mpi_calls(context);
  write_cpu_samples(context);
}

}  // namespace nsys_explain::synth
