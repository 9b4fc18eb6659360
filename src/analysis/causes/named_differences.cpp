#include "analysis/causes/named_differences.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "model/kernel_name.hpp"

namespace nsys_explain::analysis {
namespace {

std::string difference_text(const WorkDifference& difference) {
  std::string name(difference.kind == WorkEventKind::kernel ? function_name(difference.name) : difference.name);
  if (name.size() > 90) name = name.substr(0, 87) + "...";
  return fmt::format(
      "{} {}{}{}{}: {}, peer {}", work_event_kind_name(difference.kind), name, difference.shape.empty() ? "" : " ",
      difference.shape, difference.range.empty() ? "" : " in " + difference.range,
      executions_text(static_cast<double>(difference.straggler_count), static_cast<double>(difference.straggler_ns)),
      executions_text(static_cast<double>(difference.peer_count), static_cast<double>(difference.peer_ns)));
}

bool is_about(WorkEventKind kind, Cause cause) {
  const bool on_gpu = kind == WorkEventKind::kernel || kind == WorkEventKind::copy;
  return is_on_gpu(cause) ? on_gpu : !on_gpu || cause == Cause::blocking_copy;
}

/// What shows what the host did in this part of the work; nothing where its calls do.
std::optional<WorkEventKind> shown_by(WorkPart part) {
  switch (part) {
    case WorkPart::named_range:
      return WorkEventKind::range;
    case WorkPart::system_wait:
    case WorkPart::file_access:
      return WorkEventKind::host_stall;
    case WorkPart::unseen:
    case WorkPart::launching:
      return WorkEventKind::function;
    default:
      return std::nullopt;
  }
}

/// What holds most of the straggler's time beyond its peer's, by a kind of event.
struct Holder {
  std::string name;  ///< empty: nothing by itself
  Nanoseconds time_ns = 0;
};

/// `name_of`: of a difference of this kind; empty: it counts, but holds nothing.
template <class NameOf>
Holder main_holder(const Divergence& divergence, WorkEventKind kind, const NameOf& name_of) {
  std::map<std::string, Nanoseconds> by_name;
  Nanoseconds all_ns = 0;
  for (const WorkDifference& difference : divergence.differences) {
    if (difference.kind != kind || difference.difference_ns() <= 0) continue;
    all_ns += difference.difference_ns();
    by_name[name_of(difference)] += difference.difference_ns();
  }
  for (const auto& [name, time_ns] : by_name)
    if (2 * time_ns > all_ns) return {name, time_ns};
  return {};
}

}  // namespace

std::string executions_text(double count, double total_ns) {
  return count == 0 ? "none" : fmt::format("{:.0f} in {:.3f} ms", count, total_ns * 1e-6);
}

bool is_on_gpu(Cause cause) {
  return cause == Cause::slow_kernel || cause == Cause::extra_work || cause == Cause::uneven_work;
}

std::string range_of_host(const Divergence& divergence, Nanoseconds more_ns) {
  const Holder range = main_holder(divergence, WorkEventKind::range, [](const WorkDifference& d) { return d.name; });
  return 2 * range.time_ns >= more_ns ? range.name : std::string();
}

std::string host_was_in(const Divergence& divergence, Cause cause, WorkPart part, Nanoseconds more_ns) {
  if (cause == Cause::extra_work || cause == Cause::uneven_work)
    return main_holder(divergence, WorkEventKind::kernel, [](const WorkDifference& d) { return d.range; }).name;
  if (cause != Cause::launch_starved) return {};
  std::string range = range_of_host(divergence, more_ns);
  const std::optional<WorkEventKind> kind = shown_by(part);
  if (!range.empty() || !kind) return range;
  return main_holder(divergence, *kind, [](const WorkDifference& d) { return d.name; }).name;
}

std::string largest_differences(const Divergence& divergence, Cause cause) {
  constexpr std::size_t shown = 2;
  std::string text;
  std::size_t added = 0;
  for (const WorkDifference& difference : divergence.differences) {
    if (added == shown) break;
    if (difference.difference_ns() <= 0 || !is_about(difference.kind, cause)) continue;
    text += (added++ > 0 ? "; " : "") + difference_text(difference);
  }
  return text;
}

}  // namespace nsys_explain::analysis
