#include "nsys_explain/model/names.hpp"

#include <algorithm>

#include "nsys_explain/model/comparison.hpp"
#include "nsys_explain/model/work.hpp"

namespace nsys_explain {
std::string_view status_name(InputStatus status) {
  switch (status) {
    case InputStatus::ok:
      return "ok";
    case InputStatus::degraded:
      return "degraded";
    case InputStatus::failed:
      break;
  }
  return "failed";
}

std::string_view rank_source_name(RankSource source) {
  switch (source) {
    case RankSource::user:
      return "user";
    case RankSource::mpi_ranks:
      return "mpi_ranks";
    case RankSource::nccl_payload:
      return "nccl_payload";
    case RankSource::environment:
      return "environment";
    case RankSource::file_name:
      return "file_name";
    case RankSource::file_order:
      break;
  }
  return "file_order";
}

std::string_view clock_method_name(ClockMethod method) {
  switch (method) {
    case ClockMethod::collectives:
      return "collectives";
    case ClockMethod::host_clock:
      return "host_clock";
    case ClockMethod::utc:
      break;
  }
  return "utc";
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
  switch (doubt) {
    case Doubt::too_few_steps:
      return "too_few_steps";
    case Doubt::unseen:
      return "unseen";
  }
  return "";
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::gpu:
      return "gpu";
    case Level::node:
      return "node";
    case Level::rail:
      return "rail";
    case Level::rack:
      return "rack";
    case Level::pipeline_stage:
      return "pipeline_stage";
    case Level::expert_index:
      return "expert_index";
    case Level::tensor_index:
      return "tensor_index";
    case Level::data_index:
      return "data_index";
  }
  return "gpu";
}

std::string_view pattern_name(Pattern pattern) {
  switch (pattern) {
    case Pattern::persistent:
      return "persistent";
    case Pattern::transient:
      return "transient";
    case Pattern::periodic:
      return "periodic";
    case Pattern::rotating:
      return "rotating";
    case Pattern::unknown:
      break;
  }
  return "unknown";
}

std::string_view cause_name(Cause cause) {
  switch (cause) {
    case Cause::slow_kernel:
      return "slow_kernel";
    case Cause::extra_work:
      return "extra_work";
    case Cause::uneven_work:
      return "uneven_work";
    case Cause::launch_starved:
      return "launch_starved";
    case Cause::sync_stall:
      return "sync_stall";
    case Cause::blocking_copy:
      return "blocking_copy";
    case Cause::allocation:
      return "allocation";
    case Cause::slow_link:
      return "slow_link";
    case Cause::profiler_overhead:
      return "profiler_overhead";
    case Cause::unknown:
      break;
  }
  return "unknown";
}

std::string_view severity_name(FindingSeverity severity) {
  switch (severity) {
    case FindingSeverity::high:
      return "high";
    case FindingSeverity::medium:
      return "medium";
    case FindingSeverity::low:
      return "low";
    case FindingSeverity::info:
      break;
  }
  return "info";
}

std::string_view severity_name(Severity severity) {
  switch (severity) {
    case Severity::info:
      return "info";
    case Severity::data_loss:
      return "data_loss";
    case Severity::error:
      break;
  }
  return "error";
}

std::string_view warning_source_name(WarningSource source) {
  switch (source) {
    case WarningSource::trace:
      return "trace";
    case WarningSource::analysis:
      break;
  }
  return "analysis";
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
  switch (verdict) {
    case ComparisonVerdict::same:
      return "same";
    case ComparisonVerdict::better:
      return "better";
    case ComparisonVerdict::worse:
      return "worse";
    case ComparisonVerdict::unknown:
      break;
  }
  return "unknown";
}

double RunProfile::busy_ns() const {
  double sum = 0;
  for (const MeanTime& one : categories) sum += one.mean_ns;
  return sum;
}

std::optional<double> RunProfile::mean_ns(std::string_view figure) const {
  for (const MeanTime& one : rank_means_ns) {
    if (one.name == figure) return one.mean_ns;
  }
  return std::nullopt;
}

std::string_view trend_direction_name(TrendDirection direction) {
  switch (direction) {
    case TrendDirection::none:
      return "none";
    case TrendDirection::rising:
      return "rising";
    case TrendDirection::falling:
      return "falling";
    case TrendDirection::too_few_runs:
      return "too_few_runs";
  }
  return "";
}

std::string_view part_name(ChangedPart part) {
  switch (part) {
    case ChangedPart::kernel_speed:
      return "kernel_speed";
    case ChangedPart::kernel_work:
      return "kernel_work";
    case ChangedPart::copies:
      return "copies";
    case ChangedPart::idle:
      return "idle";
    case ChangedPart::graphs:
      break;
  }
  return "graphs";
}

std::string_view basis_name(ComparisonBasis basis) {
  switch (basis) {
    case ComparisonBasis::token:
      return "token";
    case ComparisonBasis::step:
      return "step";
    case ComparisonBasis::window:
      break;
  }
  return "window";
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
