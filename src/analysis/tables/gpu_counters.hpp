#pragma once

#include <string_view>
#include <vector>

#include "analysis/trace/rank_events.hpp"
#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// "tensor_active"; empty for counters of links and clocks, which have tables of their own.
std::string_view counter_name(GpuCounter counter);

/// Tables `gpu_counters` and `kernel_counters`; without rows where the trace has no such GPU metrics.
std::vector<Table> gpu_counter_tables(const RankEvents& events);

/// Sets gpu_counters.peers_median_percent in the joined table, where there is one.
void compare_gpu_counters(std::vector<Table>& joined);

}  // namespace nsys_explain::analysis
