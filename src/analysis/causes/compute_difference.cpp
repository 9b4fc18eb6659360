#include "analysis/causes/causes.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/schema/gpu.hpp"
#include "model/text.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {

namespace {

constexpr double least_share_of_family = 0.01;  // of what both compute: the rest is launches of a few microseconds
constexpr std::size_t told_families = 3;

/// The typical ratio of those that both ran, and of how many.
std::pair<double, std::int64_t> typical_ratio(std::span<const KernelFamily> families) {
  double both_ns = 0;
  for (const KernelFamily& family : families)
    if (family.is_common()) both_ns += family.peers_total_ns;
  std::vector<double> ratios;
  for (const KernelFamily& family : families)
    if (family.is_common() && family.peers_total_ns >= least_share_of_family * both_ns)
      ratios.push_back(family.ratio());
  const std::int64_t count = std::ssize(ratios);
  return {count == 0 ? 1 : lower_median(std::move(ratios)), count};
}

/// Time of the kernels that the late one runs beyond its peers' number.
double time_of_more(std::span<const KernelFamily> families) {
  struct Sum {
    double count = 0, peers_count = 0, total_ns = 0;
  };
  std::map<std::string_view, Sum> names;
  for (const KernelFamily& family : families) {
    Sum& sum = names[family.name];
    sum.count += family.count;
    sum.peers_count += family.peers_count;
    sum.total_ns += family.total_ns;
  }
  double more = 0, less = 0, more_ns = 0;
  for (const auto& [name, sum] : names) {
    const double beyond = sum.count - sum.peers_count;
    (beyond > 0 ? more : less) += std::abs(beyond);
    if (beyond > 0) more_ns += sum.total_ns * beyond / sum.count;
  }
  return more > 0 ? more_ns * std::max(0.0, 1 - less / more) : 0;
}

std::optional<ComputeDifference> compare_families(std::vector<KernelFamily> families, double own_ns, double peers_ns) {
  if (own_ns <= 0 || peers_ns <= 0) return std::nullopt;
  ComputeDifference result;
  std::tie(result.speed, result.families) = typical_ratio(families);
  result.own_ns = own_ns;
  result.peers_ns = peers_ns;
  const double slowness = std::max(1.0, result.speed);
  result.slower_ns = own_ns * (1 - 1 / slowness);
  result.more_ns = time_of_more(families) / slowness;
  result.larger_ns = own_ns - peers_ns - result.slower_ns - result.more_ns;
  std::sort(families.begin(), families.end(), [](const KernelFamily& a, const KernelFamily& b) {
    return a.lost_ns() != b.lost_ns() ? a.lost_ns() > b.lost_ns()
                                      : std::tie(a.name, a.shape) < std::tie(b.name, b.shape);
  });
  families.resize(std::min(families.size(), told_families));
  std::erase_if(families, [](const KernelFamily& family) { return family.lost_ns() <= 0; });
  result.largest = std::move(families);
  return result;
}

double in_ms(double time_ns) {
  return time_ns * 1e-6;
}

/// Without what it works on, which has thousands of characters and means something to Markdown.
std::string short_name(std::string_view kernel) {
  constexpr std::size_t longest = 90;
  const std::string_view name = function_name(kernel);
  return name.size() > longest ? std::string(name.substr(0, longest - 3)) + "..." : std::string(name);
}

std::string family_text(const KernelFamily& family) {
  return fmt::format("{} {}: {}, peers {}", short_name(family.name), family.shape,
                     executions_text(family.count, family.total_ns),
                     executions_text(family.peers_count, family.peers_total_ns));
}

/// FamilyRuns by name, grid and block; then by trace rank.
using FamilyShape = std::array<std::int64_t, schema::kernels_by_launch.shape.sizes.size()>;
struct FamilyRuns {
  std::int64_t count = 0, total_ns = 0;
};
using RunsByRank = std::map<std::int64_t, FamilyRuns>;

/// Of the ranks, those that did not run it included.
template <class Value>
std::vector<std::int64_t> runs_of(const RunsByRank& of_rank, std::span<const std::int32_t> ranks, const Value& value) {
  std::vector<std::int64_t> values;
  for (const std::int32_t rank : ranks) {
    const auto found = of_rank.find(rank);
    values.push_back(found == of_rank.end() ? 0 : value(found->second));
  }
  return values;
}

double mean_value(const std::vector<std::int64_t>& values) {
  double sum = 0;
  for (const std::int64_t value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

constexpr auto runs_count = [](const FamilyRuns& executions) { return executions.count; };
constexpr auto runs_total = [](const FamilyRuns& executions) { return executions.total_ns; };

}  // namespace

Cause ComputeDifference::cause() const {
  const double most = std::max({slower_ns, more_ns, larger_ns});
  if (own_ns <= peers_ns || most <= 0) return Cause::unknown;
  return most == slower_ns ? Cause::slow_kernel : most == more_ns ? Cause::extra_work : Cause::uneven_work;
}

std::optional<ComputeDifference> compare_compute(const Table& kernels_by_launch, std::span<const std::int32_t> late,
                                                 std::span<const std::int32_t> peers) {
  if (late.empty() || peers.empty()) return std::nullopt;
  const auto& ranks = column(kernels_by_launch, schema::trace_rank);
  const auto& names = column(kernels_by_launch, schema::kernels_by_launch.name);
  const auto& communication = column(kernels_by_launch, schema::kernels_by_launch.communication);
  const auto& counts = column(kernels_by_launch, schema::kernels_by_launch.durations.count);
  const auto& totals = column(kernels_by_launch, schema::kernels_by_launch.durations.total);
  const auto sizes = columns(kernels_by_launch, schema::kernels_by_launch.shape.sizes);
  std::map<std::pair<std::string_view, FamilyShape>, RunsByRank> executions;
  RunsByRank all;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (communication[i] != 0) continue;
    FamilyShape shape{};
    for (std::size_t s = 0; s < shape.size(); ++s) shape[s] = (*sizes[s])[i];
    executions[{names[i], shape}][ranks[i]] = {counts[i], totals[i]};
    all[ranks[i]].total_ns += totals[i];
  }
  std::vector<KernelFamily> families;
  for (const auto& [key, of_rank] : executions) {
    const auto& [name, s] = key;
    KernelFamily family{std::string(name),
                        fmt::format("{}x{}x{} of {}x{}x{}", s[0], s[1], s[2], s[3], s[4], s[5]),
                        mean_value(runs_of(of_rank, late, runs_count)),
                        static_cast<double>(lower_median(runs_of(of_rank, peers, runs_count))),
                        mean_value(runs_of(of_rank, late, runs_total)),
                        static_cast<double>(lower_median(runs_of(of_rank, peers, runs_total)))};
    if (family.count > 0 || family.peers_count > 0) families.push_back(std::move(family));
  }
  std::optional<ComputeDifference> result =
      compare_families(std::move(families), mean_value(runs_of(all, late, runs_total)),
                       static_cast<double>(lower_median(runs_of(all, peers, runs_total))));
  if (result) result->of_run = true;
  return result;
}

std::optional<ComputeDifference> compare_compute(const Divergence& divergence) {
  std::map<std::pair<std::string, std::string>, KernelFamily> families;
  double own_ns = 0, peers_ns = 0;
  for (const WorkDifference& difference : divergence.differences) {
    if (difference.kind != WorkEventKind::kernel) continue;
    KernelFamily& family = families[{difference.name, difference.shape}];
    family.name = difference.name;
    family.shape = difference.shape;
    family.count += static_cast<double>(difference.straggler_count);
    family.peers_count += static_cast<double>(difference.peer_count);
    family.total_ns += static_cast<double>(difference.straggler_ns);
    family.peers_total_ns += static_cast<double>(difference.peer_ns);
    own_ns += static_cast<double>(difference.straggler_ns);
    peers_ns += static_cast<double>(difference.peer_ns);
  }
  std::vector<KernelFamily> all;
  for (auto& [key, family] : families) all.push_back(std::move(family));
  return compare_families(std::move(all), own_ns, peers_ns);
}

namespace {

/// ": 3.100 ms by slower kernels, 0.020 ms less by fewer or smaller ones"; what rounds to nothing is not told.
std::string parts_text(const ComputeDifference& difference) {
  std::vector<std::string> parts;
  const auto add = [&](double part_ns, std::string_view more, std::string_view less) {
    constexpr double least_ns = 500;
    if (std::abs(part_ns) < least_ns) return;
    parts.push_back(fmt::format("{:.3f} ms {}", std::abs(in_ms(part_ns)), part_ns > 0 ? more : less));
  };
  add(difference.slower_ns, "by slower kernels", "less by faster kernels");
  add(difference.more_ns + difference.larger_ns, "by more or larger ones", "less by fewer or smaller ones");
  return parts.empty() ? "" : fmt::format(": {}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::string> describe(const ComputeDifference& difference) {
  std::vector<std::string> lines{fmt::format(
      "its kernels take {:.3f} ms {}, those of its peers {:.3f} ms{}; a typical kernel of equal grid takes {:.2f} times as long (median of {})",
      in_ms(difference.own_ns), difference.of_run ? "over the run" : "before these collectives",
      in_ms(difference.peers_ns), parts_text(difference), difference.speed, difference.families)};
  if (!difference.largest.empty()) {
    std::vector<std::string> families;
    for (const KernelFamily& family : difference.largest) families.push_back(family_text(family));
    lines.push_back(fmt::format("most of it: {}", fmt::join(families, "; ")));
  }
  return lines;
}

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
