#include <algorithm>

#include "synth/export_context.hpp"

namespace nsys_explain::synth {
namespace {

void write_overheads(ExportContext& context) {
  constexpr int buffer_flush = 3;  // ENUM_CUPTI_OVERHEAD_TYPE
  Table table = context.table("PROFILER_OVERHEAD");
  for (const RankIdentity& identity : context.rank_passes()) {
    for (const ProfilerOverhead& overhead : context.events(identity).overheads) {
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
    for (const FileRead& read : context.events(identity).file_reads) {
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
    for (const Descheduled& span : context.events(identity).descheduled) {
      if (!identity.window.covers(span.start_ns, span.end_ns)) continue;
      for (const bool in : {false, true}) {
        table.set(table.column("start"), context.host_time(identity.shift_ns + in ? span.end_ns : span.start_ns));
        table.set(table.column("cpu"), 8 * identity.device);
        table.set(table.column("isSchedIn"), in ? 1 : 0);
        table.set(table.column("globalTid"), identity.threads[0]);
        table.set(table.column("threadState"), in ? running : unscheduled);
        table.insert();
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
}

}  // namespace nsys_explain::synth
