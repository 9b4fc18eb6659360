#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/trace.hpp"

/// What a GPU can do at most.
namespace nsys_explain::analysis {

/// Dense peaks (no structured sparsity) at boost clock, from NVIDIA's data sheets; tensor cores where the type has
/// them. 0: the GPU does not have the type, or the sheet does not tell.
struct GpuPeaks {
  std::string name;  ///< the GPU's name has all of these words, in any order and case
  double fp64_tflops = 0, fp32_tflops = 0, tf32_tflops = 0, fp16_tflops = 0, fp8_tflops = 0;
  double bandwidth_gbs = 0;  ///< device memory; GB = 1e9
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0;
  int shared_bytes_per_multiprocessor = 0;  ///< 65,536 registers everywhere
  int shared_bytes_reserved_per_block = 0;  ///< 1024 from compute capability 8.0 on

  double tflops(std::string_view type) const;  ///< "fp64", "fp32", "tf32", "fp16" (and bf16), "fp8"; 0 for others
};

/// The user's entries come first.
class PeakTable {
 public:
  /// Built-in entries only.
  PeakTable() = default;
  explicit PeakTable(std::vector<GpuPeaks> own) : own_(std::move(own)) {}
  /// What is known of the GPU: the user's entry for its name first, then what the export itself tells, then the
  /// built-in entry. Of each list the first entry that fits counts. Empty where none of the three tells anything.
  std::optional<GpuPeaks> find(std::string_view gpu_name, const GpuLimits& exported = {}) const;

 private:
  std::vector<GpuPeaks> own_;
};

/// Lines `KEY=VALUE ... NAME`: fp64, fp32, tf32, fp16, fp8 (TFLOP/s), bandwidth (GB/s), then words of the GPU's name.
/// Throws std::runtime_error: problem, why it matters, what to do, with the line.
PeakTable parse_gpu_peaks(std::string_view text);

/// Share of a multiprocessor's thread slots that blocks of this shape can fill (the occupancy of CUDA's calculator:
/// registers are given to warps in units of 256, shared memory to blocks in units of 128 bytes).
struct Occupancy {
  double percent = 0;
  int blocks = 0;          ///< resident on one multiprocessor
  std::string_view limit;  ///< "threads", "blocks", "registers" or "shared memory": what allows no more
};
/// Empty where the GPU's limits or the block's size are not known.
std::optional<Occupancy> theoretical_occupancy(const GpuPeaks& gpu, int threads_per_block, int registers_per_thread,
                                               int shared_bytes_per_block);

}  // namespace nsys_explain::analysis
