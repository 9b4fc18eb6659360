#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ingest/database.hpp"
#include "ingest/trace_time.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::ingest {

/// The counter that goes by this name, with or without its unit ("[Throughput %]"); names changed between nsys
/// releases and chips. Empty: none that an analysis uses.
std::optional<GpuCounter> gpu_counter_named(std::string_view metric_name);

/// GPU_METRICS: fills the samples of every device whose GPU is known (DeviceTrace::gpu_id) and was sampled. Where the
/// export does not map devices to GPUs, one sampled GPU belongs to the only device; else CUDA ordinals are taken for
/// the numbers of the GPUs, with a warning. Samples of GPUs that no process here used are not kept.
void read_gpu_metrics(const Database& database, const TimeBase& time_base, std::vector<ProcessTrace>& processes,
                      std::vector<Warning>& warnings);

/// NET_NIC_METRIC and NET_IB_SWITCH_METRIC.
std::vector<NetworkSeries> read_network_metrics(const Database& database, const TimeBase& time_base,
                                                std::vector<Warning>& warnings);

}  // namespace nsys_explain::ingest
