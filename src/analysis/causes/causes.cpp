#include "analysis/causes/causes.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

constexpr double smallest_share = 0.05;        ///< of all that differs in a case: less says nothing
constexpr double smallest_share_of_own = 0.5;  ///< where peers have another role: of what is known without them
constexpr double smallest_excess = 0.005;      ///< of the peer's kernel time: less is not slower
constexpr std::int64_t noise_factor = 4;

/// 1.4826 times the median absolute deviation: a standard deviation that outliers do not bend.
Nanoseconds spread(std::vector<Nanoseconds> values) {
  const Nanoseconds center = lower_median(values);
  std::vector<Nanoseconds> deviations;
  for (const Nanoseconds value : values) deviations.push_back(std::abs(value - center));
  return lower_median(std::move(deviations)) * 14'826 / 10'000;
}

std::vector<const CaseMember*> comparable(std::span<const CaseMember> members, const CaseMember& straggler,
                                          bool& same_kernels) {
  std::vector<const CaseMember*> all, same;
  std::map<std::uint64_t, std::vector<const CaseMember*>> groups;
  for (const CaseMember& member : members) {
    if (member.trace_rank == straggler.trace_rank || member.work_ns == no_time) continue;
    all.push_back(&member);
    groups[member.profile.kernels_hash].push_back(&member);
    if (member.profile.kernels_hash == straggler.profile.kernels_hash) same.push_back(&member);
  }
  same_kernels = !same.empty();
  if (same_kernels) return same;
  for (const auto& [hash, group] : groups)
    if (group.size() >= 2 && group.size() * 2 >= all.size()) return group;
  return all;
}

/// The compute that the straggler's kernels took longer than the peer's; the rest of the difference is behind.
Nanoseconds compute_excess(const StragglerCase& one) {
  const std::int64_t straggler = one.straggler.profile.kernel_ns, peer = one.peer.profile.kernel_ns;
  const Nanoseconds difference = straggler - peer;
  const auto least = std::max(static_cast<Nanoseconds>(smallest_excess * static_cast<double>(peer)),
                              noise_factor * one.kernel_noise_ns);
  return difference > least ? difference : 0;
}

/// More of each part, without what is behind only.
std::array<Nanoseconds, work_part_count> more_of(const StragglerCase& one) {
  std::array<Nanoseconds, work_part_count> more{};
  for (std::size_t part = 0; part < work_part_count; ++part)
    more[part] = std::int64_t{one.straggler.profile.parts_ns[part]} - std::int64_t{one.peer.profile.parts_ns[part]};
  Nanoseconds& compute = more[static_cast<std::size_t>(WorkPart::compute)];
  compute = std::min(compute, compute_excess(one));
  return more;
}

/// Whether more of a part tells anything: what runs on the GPU is each role's own, an idle GPU is nobody's.
bool is_comparable(WorkPart part, const StragglerCase& one) {
  switch (part) {
    case WorkPart::compute:
    case WorkPart::communication:
    case WorkPart::copy:
    case WorkPart::opaque_graph:
    case WorkPart::pending:
      return one.alike;
    default:
      return true;
  }
}

Cause cause_of_starvation(const StragglerCase& one) {
  if (one.straggler.profile.allocations > one.peer.profile.allocations) return Cause::allocation;
  if (one.straggler.profile.synchronisations > one.peer.profile.synchronisations) return Cause::sync_stall;
  return Cause::launch_starved;
}

/// The evidence table of the header, row by row.
Cause cause_of_part(WorkPart part, const StragglerCase& one, std::optional<Cause> compute) {
  switch (part) {
    case WorkPart::compute:
      if (one.same_kernels && compute.value_or(Cause::extra_work) == Cause::extra_work) return Cause::slow_kernel;
      return compute.value_or(Cause::unknown);
    case WorkPart::copy:
      return Cause::extra_work;
    case WorkPart::profiling:
      return Cause::profiler_overhead;
    case WorkPart::allocation:
      return Cause::allocation;
    case WorkPart::blocking_copy:
      return Cause::blocking_copy;
    case WorkPart::synchronising:
      return Cause::sync_stall;
    case WorkPart::launching:
    case WorkPart::unseen:
      return cause_of_starvation(one);
    case WorkPart::module_load:
    case WorkPart::file_access:
    case WorkPart::named_range:
    case WorkPart::system_wait:
    case WorkPart::descheduled:
      return Cause::launch_starved;
    case WorkPart::communication:
    case WorkPart::opaque_graph:
    case WorkPart::pending:
      break;
  }
  return Cause::unknown;
}

double ms(Nanoseconds time_ns) {
  return static_cast<double>(time_ns) * 1e-6;
}

std::string_view meaning(WorkPart part) {
  return work_parts()[static_cast<std::size_t>(part)].meaning;
}

/// "; collectives 12, 40, 77": the first few; empty where none is matched.
std::string instance_list(const std::vector<const StragglerCase*>& cases) {
  constexpr std::size_t shown = 4;
  std::vector<std::int64_t> matched;
  for (const StragglerCase* one : cases)
    if (one->instance >= 0) matched.push_back(one->instance);
  if (matched.empty()) return {};
  const std::size_t count = std::min(matched.size(), shown);
  return fmt::format("; collectives {}{}",
                     fmt::join(matched.begin(), matched.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     matched.size() > shown ? ", ..." : "");
}

/// More of a part in a case, on average.
Nanoseconds mean_more(const std::vector<const StragglerCase*>& speaking, WorkPart part) {
  Nanoseconds more_ns = 0;
  for (const StragglerCase* one : speaking) more_ns += more_of(*one)[static_cast<std::size_t>(part)];
  return more_ns / std::max<std::int64_t>(std::ssize(speaking), 1);
}

/// The cases that speak for the verdict, and what they have in common. `range`: that the host was in; empty: none.
std::string case_line(const std::vector<const StragglerCase*>& speaking, std::size_t all, WorkPart part,
                      const std::string& range) {
  Nanoseconds work = 0;
  std::map<std::int32_t, std::size_t> peers;
  for (const StragglerCase* one : speaking) {
    work += one->straggler.work_ns - one->peer.work_ns;
    ++peers[one->peer.trace_rank];
  }
  const auto peer =
      std::max_element(peers.begin(), peers.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const auto count = static_cast<std::int64_t>(speaking.size());
  return fmt::format(
      "in {} of {} sampled collectives {} {:.3f} ms longer than on a median peer (most often rank {}); all of its work took {:.3f} ms longer (table straggler_cases{})",
      speaking.size(), all, range.empty() ? std::string(meaning(part)) : "the host was in " + range,
      ms(mean_more(speaking, part)), peer->first, ms(work / count), instance_list(speaking));
}

std::string kernel_line(const std::vector<const StragglerCase*>& speaking) {
  std::int64_t kernels = 0, peer_kernels = 0;
  Nanoseconds time = 0, peer_time = 0;
  for (const StragglerCase* one : speaking) {
    kernels += one->straggler.profile.kernels;
    peer_kernels += one->peer.profile.kernels;
    time += one->straggler.profile.kernel_ns;
    peer_time += one->peer.profile.kernel_ns;
  }
  return fmt::format("it ran {} kernels in {:.3f} ms there, its peers {} in {:.3f} ms: {:.3f} times as long", kernels,
                     ms(time), peer_kernels, ms(peer_time),
                     peer_time > 0 ? static_cast<double>(time) / static_cast<double>(peer_time) : 0);
}

void add_names(const Divergence& divergence, Cause cause, std::vector<std::string>& evidence) {
  const std::string largest = largest_differences(divergence, cause);
  if (!largest.empty()) evidence.push_back("largest differences (straggler_differences): " + largest);
  if (!divergence.first.empty()) evidence.push_back("first difference: " + divergence.first);
}

}  // namespace

bool choose_peer(std::span<const CaseMember> members, StragglerCase& of) {
  std::vector<const CaseMember*> peers = comparable(members, of.straggler, of.same_kernels);
  if (peers.empty()) return false;
  std::sort(peers.begin(), peers.end(), [](const CaseMember* a, const CaseMember* b) {
    return a->work_ns != b->work_ns ? a->work_ns < b->work_ns : a->trace_rank < b->trace_rank;
  });
  of.peer = *peers[(peers.size() - 1) / 2];
  std::vector<Nanoseconds> kernel_times;
  for (const CaseMember* peer : peers) kernel_times.push_back(peer->profile.kernel_ns);
  of.kernel_noise_ns = spread(kernel_times);
  return true;
}

void pool_kernel_noise(std::span<StragglerCase> cases) {
  std::vector<Nanoseconds> noise;
  for (const StragglerCase& one : cases)
    if (!one.same_kernels) noise.push_back(one.kernel_noise_ns);
  if (noise.empty()) return;
  const Nanoseconds usual_ns = lower_median(std::move(noise));
  for (StragglerCase& one : cases)
    if (!one.same_kernels) one.kernel_noise_ns = std::max(one.kernel_noise_ns, usual_ns);
}

namespace {

/// True where the straggler ran the same kernels as its peers in most of the cases that count.
bool runs_same_kernels(std::span<const StragglerCase> cases, std::span<const CaseVerdict> verdicts) {
  std::size_t counting = 0, same = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (!verdicts[i].counts) continue;
    ++counting;
    same += cases[i].same_kernels ? 1 : 0;
  }
  return 2 * same > counting;
}

/// The most that one case weighs among others: the median of the caused waits, or the second of them.
Nanoseconds heaviest_case(std::span<const StragglerCase> cases, LateIn late_in) {
  std::vector<Nanoseconds> waits;
  for (const StragglerCase& one : cases) waits.push_back(one.caused_wait_ns);
  if (waits.empty()) return 0;
  if (late_in == LateIn::whole_run) return lower_median(std::move(waits));
  const auto second = waits.begin() + (waits.size() > 1 ? 1 : 0);
  std::nth_element(waits.begin(), second, waits.end(), std::greater<>());
  return *second;
}

}  // namespace

std::optional<Cause> compute_cause(const ComputeDifference* compute) {
  return compute == nullptr ? std::nullopt : std::optional(compute->cause());
}

CaseVerdict judge_case(const StragglerCase& one, std::optional<Cause> compute) {
  std::array<Nanoseconds, work_part_count> more = more_of(one);
  std::map<Cause, Nanoseconds> by_cause;
  for (std::size_t part = 0; part < work_part_count; ++part) {
    if (!is_comparable(static_cast<WorkPart>(part), one)) more[part] = 0;
    if (more[part] > 0) by_cause[cause_of_part(static_cast<WorkPart>(part), one, compute)] += more[part];
  }
  CaseVerdict verdict;
  for (const auto& [cause, difference_ns] : by_cause) {
    if (difference_ns > verdict.difference_ns) {
      verdict.cause = cause;
      verdict.difference_ns = difference_ns;
    }
  }
  for (std::size_t part = 0; part < work_part_count; ++part) {
    const auto which = static_cast<WorkPart>(part);
    if (more[part] <= verdict.part_ns || cause_of_part(which, one, compute) != verdict.cause) continue;
    verdict.part_ns = more[part];
    verdict.part = which;
  }
  const Nanoseconds lateness = one.straggler.work_ns - one.peer.work_ns;
  const double least = one.alike ? smallest_share * static_cast<double>(lateness)
                                 : smallest_share_of_own * static_cast<double>(one.own_lateness_ns);
  verdict.counts = verdict.difference_ns > 0 && static_cast<double>(verdict.difference_ns) >= least;
  return verdict;
}

double share_that_counts(std::span<const StragglerCase> cases, LateIn late_in) {
  const Nanoseconds heaviest = heaviest_case(cases, late_in);
  Nanoseconds counts = 0, all = 0;
  for (const StragglerCase& one : cases) {
    const Nanoseconds weight = std::min(one.caused_wait_ns, heaviest);
    all += weight;
    if (judge_case(one, std::nullopt).counts) counts += weight;
  }
  return all > 0 ? static_cast<double>(counts) / static_cast<double>(all) : 0;
}

CauseVerdict decide_cause(std::span<const StragglerCase> cases, const Divergence* divergence,
                          const ComputeDifference* compute, LateIn late_in) {
  CauseVerdict result;
  if (share_that_counts(cases, late_in) < least_that_counts) return result;
  const Nanoseconds heaviest = heaviest_case(cases, late_in);

  std::vector<CaseVerdict> verdicts;
  for (const StragglerCase& one : cases) verdicts.push_back(judge_case(one, compute_cause(compute)));
  const bool same_kernels = runs_same_kernels(cases, verdicts);
  std::map<Cause, Nanoseconds> weight;
  std::map<std::pair<Cause, WorkPart>, Nanoseconds> part_weight;
  Nanoseconds all = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CaseVerdict& verdict = verdicts[i];
    if (same_kernels && !cases[i].same_kernels && verdict.part == WorkPart::compute &&
        verdict.cause != Cause::slow_kernel)
      verdict.counts = false;
    if (!verdict.counts) continue;
    const Nanoseconds w = std::min(cases[i].caused_wait_ns, heaviest);
    weight[verdict.cause] += w;
    part_weight[{verdict.cause, verdict.part}] += w;
    all += w;
  }
  Nanoseconds most = 0;
  for (const auto& [cause, w] : weight) {
    if (w <= most) continue;
    most = w;
    result.cause = cause;
  }
  if (most * 2 < all) result.cause = Cause::unknown;
  if (all == 0) return result;
  Nanoseconds most_part = 0;
  for (const auto& [key, w] : part_weight) {
    if (key.first != result.cause || w <= most_part) continue;
    most_part = w;
    result.part = key.second;
  }
  if (most_part == 0) return result;

  std::vector<const StragglerCase*> speaking;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (verdicts[i].counts && verdicts[i].cause == result.cause) speaking.push_back(&cases[i]);
  std::string range;
  if (divergence != nullptr) {
    const Nanoseconds more_ns = mean_more(speaking, result.part) * divergence->cases;
    result.host_was_in = host_was_in(*divergence, result.cause, result.part, more_ns);
    if (!is_on_gpu(result.cause)) range = range_of_host(*divergence, more_ns);
  }
  result.evidence.push_back(case_line(speaking, cases.size(), result.part, result.host_was_in.empty() ? "" : range));
  if (result.part == WorkPart::unseen && !range.empty()) result.part = WorkPart::named_range;
  if (is_on_gpu(result.cause) && compute == nullptr) result.evidence.push_back(kernel_line(speaking));
  if (divergence != nullptr) add_names(*divergence, result.cause, result.evidence);
  return result;
}

}  // namespace nsys_explain::analysis
