#include "analysis/findings/late_advice.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "analysis/findings/finding_parts.hpp"
#include "model/schema/gpu.hpp"
#include "model/shared_gpus.hpp"
#include "nsys_explain/model/lower_median.hpp"
#include "nsys_explain/model/names.hpp"
#include "nsys_explain/model/regex.hpp"

namespace nsys_explain::analysis {
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

}  // namespace nsys_explain::analysis
