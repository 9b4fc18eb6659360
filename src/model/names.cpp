#include "nsys_explain/model/names.hpp"

#include <algorithm>

#include "model/text.hpp"
#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/work.hpp"

namespace nsys_explain {
std::string_view status_name(InputStatus status) {
  return name_in_order(status, {"ok", "degraded", "failed"});
}

std::string_view rank_source_name(RankSource source) {
  return name_in_order(source, {"user", "mpi_ranks", "nccl_payload", "environment", "file_name", "file_order"});
}

std::string_view clock_method_name(ClockMethod method) {
  return name_in_order(method, {"collectives", "host_clock", "utc"});
}

std::string culprit_name(const Straggler& straggler) {
  if (straggler.level == Level::gpu) return "rank " + std::to_string(straggler.trace_rank);
  return place_text({straggler.level, straggler.place}) + " (all " + std::to_string(straggler.trace_ranks.size()) +
         " ranks)";
}

std::string place_text(const PlaceName& place) {
  std::string text(level_name(place.level));
  std::replace(text.begin(), text.end(), '_', ' ');
  return text + ' ' + place.name;
}

std::string_view doubt_name(Doubt doubt) {
  return name_in_order(doubt, {"too_few_steps", "unseen"});
}

std::string_view level_name(Level level) {
  return name_in_order(level,
                       {"gpu", "node", "rail", "rack", "pipeline_stage", "expert_index", "tensor_index", "data_index"});
}

std::string_view pattern_name(Pattern pattern) {
  return name_in_order(pattern, {"persistent", "transient", "periodic", "rotating", "unknown"});
}

std::string_view cause_name(Cause cause) {
  return name_in_order(cause, {"slow_kernel", "extra_work", "uneven_work", "launch_starved", "sync_stall",
                               "blocking_copy", "allocation", "slow_link", "profiler_overhead", "unknown"});
}

std::string_view severity_name(FindingSeverity severity) {
  return name_in_order(severity, {"high", "medium", "low", "info"});
}

std::string_view severity_name(Severity severity) {
  return name_in_order(severity, {"info", "data_loss", "error"});
}

std::string_view warning_source_name(WarningSource source) {
  return name_in_order(source, {"trace", "analysis"});
}

std::span<const WorkPartMeaning, work_part_count> work_parts() {
  static constexpr std::array<WorkPartMeaning, work_part_count> parts{{
      {WorkPart::compute, "compute", "compute kernels ran"},
      {WorkPart::communication, "communication", "other collectives ran"},
      {WorkPart::blocking_copy, "blocking_copy", "the host waited for a copy"},
      {WorkPart::copy, "copy", "copies and sets that nobody waited for ran"},
      {WorkPart::opaque_graph, "opaque_graph", "CUDA graphs whose kernels were not recorded ran"},
      {WorkPart::profiling, "profiling", "the GPU was idle and the profiler stalled the host"},
      {WorkPart::allocation, "allocation", "the GPU was idle and the host was allocating or freeing memory"},
      {WorkPart::module_load, "module_load", "the GPU was idle and the host was loading GPU code"},
      {WorkPart::synchronising, "synchronising", "the GPU was idle and the host was in a synchronising call"},
      {WorkPart::file_access, "file_access", "the GPU was idle and the host was reading or writing files"},
      {WorkPart::named_range, "named_range",
       "the GPU was idle and the host was in an NVTX range that launches no kernels"},
      {WorkPart::system_wait, "system_wait", "the GPU was idle and the host waited in a system call"},
      {WorkPart::descheduled, "descheduled", "the GPU was idle and the launching thread had no CPU core"},
      {WorkPart::launching, "launching", "the GPU was idle and the host was in calls that launch work"},
      {WorkPart::unseen, "unseen", "the GPU was idle and the host did something that no call or range shows"},
      {WorkPart::pending, "pending", "the GPU was idle with its next work already launched"},
  }};
  return parts;
}

std::optional<double> Change::ratio() const {
  if (!base || !current || *base == 0) return std::nullopt;
  return *current / *base;
}

std::string_view verdict_name(ComparisonVerdict verdict) {
  return name_in_order(verdict, {"same", "better", "worse", "unknown"});
}

double RunProfile::busy_ns() const {
  double sum = 0;
  for (const MeanTime& one : categories) sum += one.mean_ns;
  return sum;
}

std::optional<double> RunProfile::mean_ns(std::string_view figure) const {
  for (const MeanTime& one : rank_means_ns)
    if (one.name == figure) return one.mean_ns;
  return std::nullopt;
}

std::string_view trend_direction_name(TrendDirection direction) {
  return name_in_order(direction, {"none", "rising", "falling", "too_few_runs"});
}

std::string_view part_name(ChangedPart part) {
  return name_in_order(part, {"kernel_speed", "kernel_work", "copies", "idle", "graphs"});
}

std::string_view basis_name(ComparisonBasis basis) {
  return name_in_order(basis, {"window", "step", "token"});
}

double Comparison::amount(const RunProfile& run) const {
  switch (basis) {
    case ComparisonBasis::token:
      return run.tokens.value_or(1);
    case ComparisonBasis::step:
      return static_cast<double>(run.steps);
    case ComparisonBasis::window:
      break;
  }
  return 1;
}

}  // namespace nsys_explain
