#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

namespace nsys_explain::synth {

/// Kernels the simulated program launches. The values index kernel_catalogue().
enum class KernelId : std::uint16_t {
  embedding,
  layer_norm,
  gemm_qkv,
  flash_forward,
  gemm_projection,
  residual_add,
  gemm_up,
  gelu,
  gemm_down,
  layer_norm_backward,
  flash_backward,
  gemm_data_gradient,
  gemm_weight_gradient,
  gelu_backward,
  cast,
  cross_entropy,
  gradient_norm,
  adam,
  nccl_all_reduce,
  nccl_all_gather,
  nccl_reduce_scatter,
  nccl_broadcast,
  nccl_reduce,
  nccl_send_recv,
  nccl_all_reduce_tree
};

struct KernelType {
  std::string short_name;
  std::string demangled_name;
  std::string mangled_name;
  Nanoseconds nominal_ns = 0;  ///< 0: communication
  std::uint32_t grid_x = 1;
  std::int32_t block_x = 128;
  std::int32_t registers = 32;
  std::int32_t static_shared_bytes = 0;
  std::int32_t dynamic_shared_bytes = 0;
};

/// Every kernel type in the order of KernelId, with the names of NCCL `nccl_version` ("2.27"); the last, of NCCL's
/// tree, only with `trees`.
std::vector<KernelType> kernel_catalogue(const std::string& nccl_version, bool trees);

/// The kernel NCCL launches for an operation; only all-reduces go by a tree.
KernelId nccl_kernel(Operation operation, bool by_tree = false);

/// "2.27" -> 227, "2.9" -> 209. Throws PlanError.
int version_number(const std::string& version);

/// CUPTI stream ids by stream index: the compute stream and the streams of up to four communicators.
inline constexpr std::array<std::int64_t, 5> stream_ids{7, 20, 24, 28, 32};

/// Labels of ranges in NVTX's default domain; the values index range_labels.
enum class RangeLabel : std::uint16_t {
  step,
  forward,
  backward,
  optimizer,
  garbage_collection,
  data_loading,
  checkpoint,
  evaluate
};
inline constexpr std::array<const char*, 8> range_labels{
    "step", "forward", "backward", "optimizer", "gc.collect", "DataLoader.__next__", "checkpoint", "evaluate"};

}  // namespace nsys_explain::synth
