#include "analysis/findings/finding_parts.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "model/schema/gpu.hpp"
#include "model/shared_gpus.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/names.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::analysis {
namespace {

/// "(-21.8%, 95% interval 21.7 to 21.9%)"; where nothing tells an interval "(-72.6%)".
std::string share_text(const WhatIf& what_if) {
  std::string text = fmt::format("(-{:.1f}%", 100 * what_if.saved_share);
  if (what_if.low_share && what_if.high_share)
    text += fmt::format(", 95% interval {:.1f} to {:.1f}%", 100 * *what_if.low_share, 100 * *what_if.high_share);
  return text + ')';
}

/// What the replay changes, as the subject of a sentence.
std::string_view change_of(const WhatIf& what_if) {
  if (what_if.subject == "communication_hidden") return "Hiding them all";
  return what_if.subject == "work_balanced" ? "Balancing it" : "Fixing it";
}

}  // namespace

std::string saving_text(const WhatIf& what_if) {
  std::string text(change_of(what_if));
  if (saves_nothing(what_if)) return text + " saves nothing";
  if (!what_if.after.empty())
    text += fmt::format(" alone saves nothing yet; once {} {} fixed, it", trace_ranks_text(what_if.after),
                        what_if.after.size() == 1 ? "is" : "are");
  if (what_if.pauses == 1)
    return text + fmt::format(" saves one pause of {} {}", duration_text(what_if.pauses_ns), share_text(what_if));
  if (what_if.pauses > 1)
    return text + fmt::format(" saves {} pauses of {} in all {}", what_if.pauses, duration_text(what_if.pauses_ns),
                              share_text(what_if));
  if (what_if.step_ns_before == 0) return text + fmt::format(" shortens the run {}", share_text(what_if));
  const TimeUnit unit = unit_of(what_if.step_ns_before);
  return text + fmt::format(" shortens a step from {} to {} {} {}", in_unit(what_if.step_ns_before, unit),
                            in_unit(what_if.step_ns_after, unit), unit.name, share_text(what_if));
}

bool saves_nothing(const WhatIf& what_if) {
  return what_if.saved_share < 0.0005;
}

std::string trace_ranks_text(std::span<const std::int32_t> trace_ranks) {
  return fmt::format("rank{} {}", trace_ranks.size() == 1 ? "" : "s", fmt::join(trace_ranks, ", "));
}

std::string tell_all_mended(const JobReport& report) {
  const auto all = std::find_if(report.what_if.begin(), report.what_if.end(),
                                [](const WhatIf& what_if) { return what_if.subject == "all"; });
  if (report.stragglers.size() < 2 || all == report.what_if.end() || all->step_ns_before == 0) return "";
  if (saves_nothing(*all)) return "";
  const std::size_t count = report.stragglers.size();
  return fmt::format(" Fixing {} ({}) shortens it to {} {}.", count == 2 ? "both" : fmt::format("all {}", count),
                     trace_ranks_text(all->trace_ranks), duration_text(all->step_ns_after), share_text(*all));
}

bool names_who_is_late(const Finding& finding) {
  return finding.id.ends_with("straggler") || finding.id == "slow-link" ||
         (finding.id == "long-waits" && !finding.trace_ranks.empty());
}

std::string place_of(const JobReport& report, std::int32_t trace_rank) {
  const auto rank = std::find_if(report.trace_ranks.begin(), report.trace_ranks.end(),
                                 [&](const auto& identity) { return identity.trace_rank == trace_rank; });
  if (rank == report.trace_ranks.end()) return "";
  return fmt::format("GPU {} on {}", rank->key.device_id, rank->host.empty() ? "an unknown host" : rank->host);
}

std::string place_of(const JobReport& report, const Straggler& late) {
  return late.level == Level::gpu ? place_of(report, late.trace_rank) : place_text({late.level, late.place});
}

std::string name_and_place(const JobReport& report, const Straggler& late) {
  const std::string place = place_of(report, late);
  if (late.level != Level::gpu || place.empty()) return culprit_name(late);
  return fmt::format("{} ({})", place, culprit_name(late));
}

std::string short_kernel_name(std::string_view name) {
  constexpr std::size_t longest = 60;
  return name.size() <= longest ? std::string(name) : fmt::format("{}...", name.substr(0, longest));
}

const WhatIf* what_if_mended(const JobReport& report, std::string_view finding,
                             const std::vector<std::int32_t>& trace_ranks) {
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(), [&](const WhatIf& what_if) {
    if (what_if.subject == "all" || what_if.subject == "communication_hidden" || what_if.subject == "work_balanced")
      return false;
    const bool of_a_suspect = what_if.finding.empty() && finding.ends_with("straggler");
    return (what_if.finding == finding || of_a_suspect) && (trace_ranks.empty() || what_if.trace_ranks == trace_ranks);
  });
  return found == report.what_if.end() ? nullptr : &*found;
}

const WhatIf* what_if_hidden(const JobReport& report) {
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(),
                                  [](const WhatIf& what_if) { return what_if.subject == "communication_hidden"; });
  return found == report.what_if.end() ? nullptr : &*found;
}

const WhatIf* what_if_balanced(const JobReport& report) {
  constexpr double beyond_chance = 0.03;  // in 15 fault-free recordings it is 0.018 at most (docs/accuracy.md)
  const auto found = std::find_if(report.what_if.begin(), report.what_if.end(),
                                  [](const WhatIf& one) { return one.subject == "work_balanced"; });
  return found == report.what_if.end() || found->saved_share < beyond_chance ? nullptr : &*found;
}

void tell_saving(const WhatIf& mended, Finding& finding) {
  finding.mended = mended;
  finding.severity = severity_of(mended.saved_share, saved_time);
  finding.title += ". " + saving_text(mended);
}

bool tell_saving(const JobReport& report, Finding& finding) {
  const WhatIf* const mended = what_if_mended(report, finding.id, finding.trace_ranks);
  if (mended != nullptr) tell_saving(*mended, finding);
  return mended != nullptr;
}

namespace {

/// By what the program calls it: "gc.collect", "GC".
bool is_garbage_collection(std::string_view name) {
  static const Regex word("(?i)(^|[^a-z])gc([^a-z]|$)|garbage");
  return word.occurs_in(name);
}

/// What to do where the host launched late, by what it did instead.
std::string advice_for_host(WorkPart part, const std::string& host_was_in) {
  if (host_was_in.starts_with("MPI_")) return "find who comes late to that call of MPI, or take it out of the step";
  if (part == WorkPart::unseen && !host_was_in.empty())
    return "take that function off the launching thread (worker processes, prefetching), or make it faster; all that CPU samples met there: table cpu_functions";
  switch (part) {
    case WorkPart::module_load:
      return "load GPU code before the loop: a warm-up step with every shape, or CUDA_MODULE_LOADING=EAGER";
    case WorkPart::file_access:
      return "take file access out of the training thread: more data loader workers with prefetching, a local copy of the data set, checkpoints written in the background; compare the storage of this host with its peers'";
    case WorkPart::named_range:
      if (is_garbage_collection(host_was_in))
        return "collect garbage at fixed steps on all ranks at once (gc.disable() and gc.collect(), or gc.freeze())";
      return "take what that NVTX range does off the launching thread (data: more data loader workers with prefetching; checkpoint: written in the background), or let all ranks do it at the same step";
    case WorkPart::system_wait:
      return "find what the launching thread waits for (the system call is in the evidence): a lock, a data loader worker, a network file system; capture with --osrt-threshold=1000 and --backtrace for its stack";
    case WorkPart::descheduled:
      return "give the launching thread a separate core: check the binding (numactl, srun --cpu-bind=cores), the number of threads (OMP_NUM_THREADS, data loader workers) and other processes on this host";
    case WorkPart::launching:
      return "make fewer and larger launches (CUDA graphs, torch.compile, fused kernels), and compare the CPU frequency governor and load of this host with its peers'";
    default:
      return "find what the host did in the idle times of its GPU (rows of straggler_cases or long_waits): capture this rank again with -t cuda,nvtx,osrt --cpuctxsw=process-tree --sample=process-tree --python-sampling=true";
  }
}

}  // namespace

std::string advice_for_one(Cause cause, WorkPart part, const std::string& host_was_in) {
  switch (cause) {
    case Cause::slow_kernel:
      return "compare clocks, power and temperature with its peers'; where nothing throttles it, drain the node and test the GPU";
    case Cause::extra_work:
      return "find what it runs that its peers do not (the kernels and their NVTX range are in the evidence): an evaluation, a checkpoint, logging on one rank; else balance the work: layers per stage, micro-batches";
    case Cause::uneven_work:
      return fmt::format("its GPU is as fast as the others: {}", advice_for_uneven_work);
    case Cause::launch_starved:
      return advice_for_host(part, host_was_in);
    case Cause::sync_stall:
      return "remove the synchronisation from the step: no .item(), .cpu() or print of GPU values, torch.cuda.synchronize() only for timing; a synchronisation that returns late points to an overloaded host or to CUDA_LAUNCH_BLOCKING";
    case Cause::blocking_copy:
      return "copy asynchronously: pinned host memory (pin_memory=True) with non_blocking=True on a separate stream, prefetched before it is needed; keep what stays equal on the GPU";
    case Cause::allocation:
      return "allocate before the loop, or from a pool (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, cudaMallocAsync); no torch.cuda.empty_cache() in the step; look for a rank whose memory is nearly full";
    case Cause::slow_link:
      return "check the links of the members named in the evidence (nvidia-smi nvlink -e, ibstat, counters of the switch), and the mapping of ranks to nodes";
    case Cause::profiler_overhead:
      return "do not trust the times of this rank: profile less (fewer --trace domains, no sampling, a shorter --capture-range), and repeat before looking for a fault in the job";
    case Cause::unknown:
      break;
  }
  return "capture this rank and a peer with -t cuda,nvtx,osrt --cpuctxsw=process-tree --cuda-graph-trace=node, and compare their GPUs (nvidia-smi -q -d CLOCK,PERFORMANCE)";
}

std::string advice(const JobReport& report, const Straggler& late) {
  if (late.cause == Cause::slow_kernel && shares_its_gpu(report, late.trace_rank))
    return std::string(advice_for_shared_gpu);
  const bool shares_a_machine = late.level == Level::node || late.level == Level::rack;
  if (!shares_a_machine) return advice_for_one(late.cause, late.part, late.host_was_in);
  switch (late.cause) {
    case Cause::slow_kernel:
      return std::string(advice_for_slow_node);
    case Cause::launch_starved:
    case Cause::sync_stall:
    case Cause::blocking_copy:
    case Cause::allocation:
      return "compare the host with others: CPU frequency governor, BIOS power profile, other jobs on it (a noisy neighbour), daemons; then " +
             advice_for_one(late.cause, late.part, late.host_was_in);
    default:
      return advice_for_one(late.cause, late.part, late.host_was_in);
  }
}

namespace {

/// "1.3 times " of GPUs that are slow all the time; empty where no ratio of equal kernels tells.
std::string times_text(const JobReport& report, const Straggler& late) {
  const Table* const speeds = find_table(report.tables, schema::gpu_speed);
  if (speeds == nullptr || late.pattern != Pattern::persistent) return "";
  std::vector<double> ratios;
  for (std::size_t row = 0; row < speeds->row_count(); ++row) {
    const auto rank = static_cast<std::int32_t>(column(*speeds, schema::gpu_speed.trace_rank)[row]);
    if (column(*speeds, schema::gpu_speed.slow)[row] == 1 &&
        std::binary_search(late.trace_ranks.begin(), late.trace_ranks.end(), rank))
      ratios.push_back(column(*speeds, schema::gpu_speed.ratio)[row]);
  }
  if (ratios.empty() || ratios.size() != late.trace_ranks.size()) return "";
  return fmt::format("{:.3g} times ", lower_median(ratios));
}

/// " (in cudaFree)"; empty where nothing tells.
std::string host_text(std::string_view host_was_in) {
  constexpr std::string_view call = "system call: ";
  if (host_was_in.empty()) return "";
  const bool is_call = host_was_in.starts_with(call);
  return fmt::format(" ({} {})", is_call ? "in system call" : "in",
                     short_kernel_name(is_call ? host_was_in.substr(call.size()) : host_was_in));
}

}  // namespace

std::string tell_cause(Cause cause, WorkPart part, std::string_view host_was_in) {
  const std::string host = host_text(host_was_in);
  switch (cause) {
    case Cause::slow_kernel:
      return "runs slower than its peers" + host;
    case Cause::extra_work:
      return "has more work than its peers" + host;
    case Cause::uneven_work:
      return "has larger kernels than its peers (uneven work)";
    case Cause::launch_starved:
      return (part == WorkPart::file_access ? "sits idle because its host reads or writes files"
                                            : "sits idle because its host launches late") +
             host;
    case Cause::sync_stall:
      return "sits idle because its host is blocked in a synchronising call" + host;
    case Cause::blocking_copy:
      return "sits idle because its host is blocked in a copy" + host;
    case Cause::allocation:
      return "sits idle because its host allocates or frees GPU memory" + host;
    case Cause::slow_link:
      return "has slow transfers";
    case Cause::profiler_overhead:
      return "is delayed by the profiler itself";
    case Cause::unknown:
      break;
  }
  return "is late; the traces do not say why";
}

std::string tell_cause(const JobReport& report, const Straggler& late) {
  std::string text = tell_cause(late.cause, late.part, late.host_was_in);
  if (late.cause == Cause::slow_kernel) {
    text = fmt::format("runs {}slower than its peers{}", times_text(report, late), host_text(late.host_was_in));
    if (shares_its_gpu(report, late.trace_rank)) text += ", on a GPU that it shares with other ranks";
  }
  if (!late.first_step || !late.last_step) return text;
  if (late.period_steps) return text + fmt::format(", every {} steps", *late.period_steps);
  return late.pattern != Pattern::transient
             ? text
             : text + fmt::format(", in steps {} to {}", *late.first_step, *late.last_step);
}

std::string_view LatePart::beside() const {
  return time_ns > 0 ? ", besides that of ranks that are late by it" : "";
}

void LatePart::add_to(std::vector<std::string>& evidence) const {
  if (time_ns > 0)
    evidence.push_back(fmt::format("besides, {} more than is usual on rank{} {}: see the findings about them",
                                   gpu_time(time_ns), ranks.size() == 1 ? "" : "s", rank_list(ranks)));
}

Windows windows_of(const JobReport& report) {
  Windows windows;
  std::map<std::int32_t, Nanoseconds> of_rank;
  std::map<std::pair<std::string_view, std::uint64_t>, Nanoseconds> longest_ns;  // by process
  for (const RankSummary& rank : report.ranks) {
    windows.ranks_ns += rank.budget.window_ns;
    of_rank[rank.trace_rank] = rank.budget.window_ns;
  }
  for (const TraceRankIdentity& rank : report.trace_ranks) {
    Nanoseconds& longest = longest_ns[{rank.key.path, rank.key.global_pid}];
    longest = std::max(longest, of_rank[rank.trace_rank]);
  }
  for (const auto& [process, window_ns] : longest_ns) windows.processes_ns += window_ns;
  windows.processes = longest_ns.size();
  return windows;
}

std::string rank_list(const std::vector<std::int32_t>& ranks) {
  constexpr std::size_t named_ranks = 8;
  const std::size_t shown = std::min(ranks.size(), named_ranks);
  std::string text =
      fmt::format("{}", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace nsys_explain::analysis
