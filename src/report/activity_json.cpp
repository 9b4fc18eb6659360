#include "report/activity_json.hpp"

#include "report/json_parts.hpp"

namespace nsys_explain::report {

namespace {

Json kernel(const KernelSummary& k) {
  Json object = {{"name", k.name},
                 {"trace_ranks", k.trace_ranks},
                 {"count", k.count},
                 {"total_ns", k.total_ns},
                 {"max_ns", k.max_ns},
                 {"share", k.share},
                 {"tail_score_ns", k.tail_score_ns},
                 {"largest_trace_rank", k.largest_trace_rank},
                 {"largest_ns", k.largest_ns}};
  if (k.communication) object["overlapped_ns"] = k.overlapped_ns;
  return object;
}

Json named(const NamedTotal& total) {
  return {{"name", total.name}, {"count", total.count}, {"total_ns", total.total_ns}, {"max_ns", total.max_ns}};
}

Json named_of_kind(const NamedTotal& total) {
  Json object = {{"kind", total.kind}};
  object.update(named(total));
  return object;
}

Json with_bytes(const NamedTotal& total) {
  return {{"name", total.name}, {"count", total.count}, {"total_ns", total.total_ns}, {"bytes", total.bytes}};
}

Json suspect(const Suspect& s) {
  return {{"kind", s.kind}, {"name", s.name}, {"count", s.count}, {"total_ns", s.total_ns}, {"share", s.share}};
}

Json process(const ProcessSummary& p) {
  return {{"path", p.path},
          {"process_id", p.process_id},
          {"trace_ranks", p.trace_ranks},
          {"kernels", p.kernels},
          {"kernel_ns", p.kernel_ns},
          {"communication_ns", p.communication_ns},
          {"barrier_ns", p.barrier_ns},
          {"top_kernel", p.top_kernel},
          {"top_communication", p.top_communication},
          {"top_barrier", p.top_barrier}};
}

Json category(const CategorySummary& c) {
  return {{"category", c.category},
          {"elapsed_ns", c.elapsed_ns},
          {"share", c.share},
          {"smallest_share", c.smallest_share},
          {"largest_share", c.largest_share}};
}

Json gpu_speed(const GpuSpeed& s) {
  return {{"trace_rank", s.trace_rank},
          {"kernels", s.kernels},
          {"ratio", s.ratio},
          {"p_value", s.p_value},
          {"slow", s.slow}};
}

Json percent_spread(const PercentSpread& p) {
  return {{"name", p.name},
          {"trace_ranks", p.trace_ranks},
          {"lowest_percent", p.lowest},
          {"median_percent", p.median},
          {"highest_percent", p.highest},
          {"lowest_trace_rank", p.lowest_trace_rank},
          {"highest_trace_rank", p.highest_trace_rank}};
}

}  // namespace

Json activity_json(const ActivitySummary& a) {
  return {{"suspects", array_of(a.suspects, suspect)},
          {"kernels", array_of(a.kernels, kernel)},
          {"communication_kernels", array_of(a.communication, kernel)},
          {"gpu_speeds", array_of(a.gpu_speeds, gpu_speed)},
          {"compute_counters", array_of(a.compute_counters, percent_spread)},
          {"mfu", array_of(a.mfu, percent_spread)},
          {"cpu_functions", array_of(a.cpu_functions, named)},
          {"category_map", a.category_map},
          {"categories", array_of(a.categories, category)},
          {"idle_causes", array_of(a.idle_causes, named)},
          {"barriers", array_of(a.barriers, named_of_kind)},
          {"api_calls", array_of(a.api_calls, named)},
          {"allocations", array_of(a.allocations, named)},
          {"expert_rules", array_of(a.rules, with_bytes)},
          {"transfers", array_of(a.transfers, with_bytes)},
          {"os_calls", array_of(a.os_calls, named)},
          {"overheads", array_of(a.overheads, named_of_kind)},
          {"launches",
           {{"count", a.launches.launches},
            {"storming_trace_ranks", a.launches.storming},
            {"largest_rate_per_second", a.launches.largest_rate},
            {"largest_rate_trace_rank", a.launches.largest_trace_rank}}},
          {"largest_gpu_memory_bytes", a.largest_gpu_memory_bytes},
          {"processes", array_of(a.processes, process)}};
}

}  // namespace nsys_explain::report
