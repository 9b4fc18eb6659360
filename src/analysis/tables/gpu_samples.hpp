#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

/// Samples of GPU clocks, power and temperature: from outside the trace (NVML), joined with it by UTC, and from its own
/// GPU metrics.
namespace nsys_explain::analysis {

/// One sample of one GPU. Negative numbers: not in the file.
struct GpuSample {
  Nanoseconds utc_ns = 0;
  std::string host;         ///< empty: the file does not tell
  std::string uuid;         ///< without "GPU-"; empty: the file does not tell
  std::string bus_id;       ///< as plain_bus_id writes it; empty: the file does not tell
  std::int64_t index = -1;  ///< of NVML and nvidia-smi, which count by PCI bus
  double sm_clock_mhz = -1, max_sm_clock_mhz = -1, memory_clock_mhz = -1;
  double utilization_percent = -1, power_w = -1, temperature_c = -1, memory_used_mib = -1;
  double sm_active_percent = -1, tensor_active_percent = -1, dram_active_percent = -1;  ///< DCGM only
  bool is_throttled = false;  ///< the driver says so: a reason other than idle or application clocks is active
};

/// A PCI bus id in one way of writing: nvidia-smi has eight digits of the domain in capitals, nsys four in lower case.
/// Empty for what is none ("[N/A]").
std::string plain_bus_id(std::string_view bus_id);

/// The CSV of `nvidia-smi --query-gpu=timestamp,... --format=csv -lms N`, or a file of that kind with the columns time
/// (or timestamp, utc_ns), host, uuid (or gpu_uuid), pci.bus_id, index (or gpu), sm_clock, ... in any order: names are
/// compared without units, "clocks.current." and case. Times: nanoseconds, microseconds, milliseconds or seconds of UTC
/// (by size), or "2026/01/31 12:00:00.123", also with 'T' and a zone ("Z", "+01:00"); nvidia-smi writes the host's
/// local time without one: `utc_offset_s` is what that is ahead of UTC. DCGM's names of fields (DCGM_FI_DEV_SM_CLOCK,
/// SMCLK) are known, too, and what `dcgmi dmon` prints where each line has a time before it (| ts '%.s'); and the text
/// of DCGM's exporter for Prometheus (exporter_text.hpp). Throws std::runtime_error: problem, why it matters, what to
/// do.
std::vector<GpuSample> parse_gpu_samples(std::string_view text, std::int64_t utc_offset_s);

/// The tables
/// - gpu_samples: a row for each source with samples of this rank's GPU during its GPU activity: how many, their median
///   clock, power and temperature.
/// - gpu_throttling: spans in which the GPU ran slower than it should while it was used: the driver says so, or the SM
///   clock is below 90% of the highest seen while the GPU is in use.
/// Sources: "nvml" (`samples`; in use from a utilisation of 50% on, or while a kernel runs where that is not sampled),
/// and "gpu_metrics", the GPC clock that the trace itself holds (--gpu-metrics-devices): means over bins of 1 ms of the
/// samples taken while a kernel runs.
/// A sample of NVML belongs to the GPU by UUID, else by host and PCI bus, else by host and index; where the export does
/// not tell the buses of the node's GPUs the index is compared with the CUDA ordinal that the process saw.
std::vector<Table> gpu_sample_tables(const RankEvents& events, const std::vector<GpuSample>& samples);

}  // namespace nsys_explain::analysis
