#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/regex.hpp"

/// What other tools know about kernels and a trace does not: work done, bytes moved, how far units were used.
namespace nsys_explain::analysis {

/// Averages over the profiled launches of one kernel, from Nsight Compute. Negative: the metric was not collected.
struct NcuKernel {
  std::string name;  ///< as Nsight Compute shows it
  std::int64_t launches = 0;
  double flops = -1;       ///< per launch: add + mul + 2 fma of FP64, FP32, FP16, and tensor operations where counted
  double dram_bytes = -1;  ///< per launch
  double sm_percent = -1, dram_percent = -1, tensor_percent = -1, l2_hit_percent = -1, occupancy_percent = -1;
  double bank_conflicts = -1;                            ///< per launch: of loads from and stores to shared memory
  double sectors_per_load = -1, sectors_per_store = -1;  ///< of 32 bytes of global memory, by a request of a warp
  /// Why warps do not issue, by reason, summed over the launches; in the unit of the metrics that were collected.
  std::map<std::string, double> stalls;
};

/// The reason that stalls most; empty where none was collected.
std::string top_stall(const std::map<std::string, double>& stalls);

/// The CSV that `ncu --csv` prints, both its forms: one row per metric (default page) and one row per launch (--page
/// raw). Lines before the header (ncu's own messages) are left out. ncu writes numbers by the locale it runs in: a
/// decimal comma is recognised. Throws std::runtime_error: problem, why it matters, what to do.
std::vector<NcuKernel> parse_ncu_csv(std::string_view text);

/// Matrix multiplications that one process logged, by type.
struct LoggedGemms {
  std::int64_t calls = 0;
  double flops = 0;  ///< 2 M N K batch, four times that of complex numbers, summed
};
/// By process id (0 where the log does not tell), then type ("fp64", "fp32", "tf32", "fp16", "fp8", "fp4", "int8").
using GemmLog = std::map<std::int64_t, std::map<std::string, LoggedGemms>>;

/// The logs of cuBLAS (CUBLAS_LOGINFO_DBG=1) and cuBLASLt (CUBLASLT_LOG_LEVEL=2 or above), also mixed: what cuBLAS
/// hands on to cublasLt (cublasLtTSTMatmul and the like) counts where the process's cuBLAS log does not hold it
/// already. Throws std::runtime_error where they hold no multiplication.
GemmLog parse_cublas_log(std::string_view text);

/// Bytes of weights that each launch of the kernels must read.
struct WeightRule {
  double bytes = 0;
  Regex pattern;  ///< searched in the demangled name
};

/// Lines `BYTES PATTERN`; k, M, G after the number are 1e3, 1e6, 1e9. Throws std::runtime_error.
std::vector<WeightRule> parse_weights(std::string_view text);

}  // namespace nsys_explain::analysis
