#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/table.hpp"

namespace nsys_explain::analysis {

/// One GPU against those that run the same kernels: a row of the table gpu_speed.
struct GpuSpeed {
  std::int32_t trace_rank = -1;
  std::int64_t kernels = 0;       ///< compared
  double ratio = 1, p_value = 1;  ///< of their durations; of being this slow by chance, over all trace ranks
  bool slow = false;              ///< significant, at least 2%, and unlike the others
  double spread = 0;              ///< relative standard deviation of one kernel's executions, of a typical kernel
  std::int64_t executions = 0;    ///< likewise, their number

  template <class Archive>
  void serialize(Archive& archive) {
    archive(trace_rank, kernels, ratio, p_value, slow, spread, executions);
  }
};

/// By trace rank; empty where the table is not among them.
std::vector<GpuSpeed> gpu_speeds(const std::vector<Table>& tables);

/// Writes what is known better by now into these rows: p_value and slow, by trace rank. Without such a table, nothing.
void correct_gpu_speeds(std::span<const GpuSpeed> speeds, std::vector<Table>& tables);

}  // namespace nsys_explain::analysis
