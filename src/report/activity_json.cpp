#include "report/activity_json.hpp"

#include <variant>

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

Json overhead(const NamedTotal& total) {
  return {{"kind", total.kind},
          {"name", total.name},
          {"count", total.count},
          {"total_ns", total.total_ns},
          {"max_ns", total.max_ns}};
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

/// A row, an object.
Json objects_of(const Table& table) {
  Json rows = Json::array();
  for (std::size_t r = 0; r < table.row_count(); ++r) {
    Json row;
    for (std::size_t c = 0; c < table.columns.size(); ++c)
      std::visit([&](const auto& values) { row[table.schema.columns[c].name] = values[r]; }, table.columns[c]);
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Json activity_json(const JobReport& report) {
  const ActivitySummary& a = report.activity;
  Json all = {{"suspects", array_of(a.suspects, suspect)},
              {"kernels", array_of(a.kernels, kernel)},
              {"communication_kernels", array_of(a.communication, kernel)},
              {"gpu_speeds", array_of(a.gpu_speeds, gpu_speed)},
              {"compute_counters", array_of(a.compute_counters, percent_spread)},
              {"mfu", array_of(a.mfu, percent_spread)},
              {"category_map", a.category_map},
              {"categories", array_of(a.categories, category)},
              {"overheads", array_of(a.overheads, overhead)},
              {"launches",
               {{"count", a.launches.launches},
                {"storming_trace_ranks", a.launches.storming},
                {"largest_rate_per_second", a.launches.largest_rate},
                {"largest_rate_trace_rank", a.launches.largest_trace_rank}}},
              {"largest_gpu_memory_bytes", a.largest_gpu_memory_bytes},
              {"processes", array_of(a.processes, process)}};
  for (const ShownTable& shown : report.shown)
    if (!shown.list.empty()) all[std::string(shown.list)] = objects_of(sums_of(report.tables, report, shown));
  return all;
}

}  // namespace nsys_explain::report
