#include "report/capture_advice.hpp"

#include <algorithm>
#include <numeric>

#include "model/schema/gpu.hpp"
#include "model/schema/host.hpp"

namespace nsys_explain::report {

namespace {

// PROGRAM and REPORT.nsys-rep are the user's to fill in. Other launchers have their own variable for the rank.
constexpr const char* capture =
    "srun nsys profile -t cuda,nvtx --cuda-graph-trace=node --gpu-metrics-devices=cuda-visible -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* capture_nccl =
    "srun nsys profile -t cuda,nvtx,nccl --cuda-graph-trace=node --gpu-metrics-devices=cuda-visible -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* capture_vclock =
    "srun nsys profile -t cuda,nvtx --enable vclock --cuda-graph-trace=node -o rank_%q{SLURM_PROCID}_%h PROGRAM";
constexpr const char* export_with_payload =
    "nsys export --type sqlite --include-blobs=true --include-json=true REPORT.nsys-rep";
constexpr const char* export_normalised =
    "nsys export --type sqlite --include-blobs=true --include-json=true --ts-normalize=true REPORT.nsys-rep";

bool has_opaque_graphs(const JobReport& report) {
  return std::any_of(report.ranks.begin(), report.ranks.end(),
                     [](const RankSummary& rank) { return rank.budget.opaque_graph_ns > 0; });
}

/// Less than 70% of the kernel time of all trace ranks has its launching call.
bool lacks_launches(const JobReport& report) {
  const Table* coverage = find_table(report.tables, schema::nvtx_coverage);
  if (coverage == nullptr) return false;
  const auto& kernel_ns = column(*coverage, schema::nvtx_coverage.kernel_ns);
  const auto& launched_ns = column(*coverage, schema::nvtx_coverage.launched_ns);
  return std::accumulate(launched_ns.begin(), launched_ns.end(), 0.0) <
         0.7 * std::accumulate(kernel_ns.begin(), kernel_ns.end(), 0.0);
}

bool lacks_payload(const JobReport& report) {
  return std::any_of(report.communicators.begin(), report.communicators.end(),
                     [](const CommunicatorSummary& c) { return c.instances > 0 && !is_told_by_calls(c.evidence); });
}

bool lacks_members(const JobReport& report) {
  return std::any_of(report.communicators.begin(), report.communicators.end(), [](const CommunicatorSummary& c) {
    return c.size > 0 && c.trace_ranks.size() < static_cast<std::size_t>(c.size);
  });
}

bool has_unrelated_clocks(const JobReport& report) {
  return report.clock.sessions.size() > 1 &&
         std::any_of(report.clock.sessions.begin(), report.clock.sessions.end(),
                     [](const SessionClock& session) { return !session.uncertainty_ns; });
}

bool has_gpu_metrics(const JobReport& report) {
  const Table* const counters = find_table(report.tables, schema::gpu_counters);
  return counters != nullptr && counters->row_count() > 0;
}

}  // namespace

std::vector<CaptureAdvice> capture_advice(const JobReport& report) {
  std::vector<CaptureAdvice> advice;
  if (report.trace_ranks.empty()) return advice;  // of each input its message says what it lacks
  if (has_opaque_graphs(report)) {
    advice.push_back(
        {"CUDA graphs were recorded as one interval each: kernels and collectives inside them are invisible. Tracing by node shows them, at a higher overhead.",
         {capture}});
  } else if (report.instances == 0) {
    advice.push_back(
        {"No collective was matched, so nobody can be called late. Capture every rank over the same steps, with CUDA and NVTX.",
         {capture}});
  }
  if (lacks_members(report)) {
    advice.push_back(
        {"Some members of a communicator were not captured: who among them was late cannot be seen. Start nsys on every rank (under the launcher, as here), before NCCL is initialised.",
         {capture}});
  }
  if (lacks_launches(report)) {
    advice.push_back(
        {"Many kernels have no launching call in the export, so NVTX ranges, phases and causes on the host cover only a part of them. Start the capture before the work is launched.",
         {capture}});
  }
  if (lacks_payload(report)) {
    advice.push_back(
        {"Message sizes and communicators are not in all exports: collectives were matched by order, and bandwidths are missing. Often a new export is enough; nsys 2025.6.1 and later with NCCL 2.28 and later record more with nccl in -t.",
         {export_with_payload, capture_nccl}});
  }
  if (has_unrelated_clocks(report)) {
    advice.push_back(
        {"Some sessions' clocks cannot be related, so lateness between them is not judged. Capture the same collectives on all ranks; nsys 2026.4 and later can also record the clocks.",
         {capture_vclock, export_normalised}});
  }
  if (!report.nvlink.available && !has_gpu_metrics(report)) {
    advice.push_back(
        {"NVLink traffic was not analysed: it needs GPU metrics in the capture, and permission to read the GPU's performance counters.",
         {capture}});
  }
  return advice;
}

}  // namespace nsys_explain::report
