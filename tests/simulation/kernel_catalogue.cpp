#include "simulation/kernel_catalogue.hpp"

#include <charconv>

#include <fmt/format.h>

#include "simulation/job_plan.hpp"

namespace nsys_explain::synth {
namespace {

/// NCCL renamed its kernels in 2.19 and changed their argument in 2.22 (docs/input.md, Kernel names).
KernelType nccl_type(int version, const std::string& modern, const std::string& old, std::uint32_t channels) {
  KernelType type;
  std::string argument, mangled_argument;
  if (version < 219) {
    type.short_name = "ncclKernel_" + old;
    argument = "ncclDevComm *, unsigned long, ncclWork *";
    mangled_argument = "P11ncclDevCommmP8ncclWork";
  } else {
    type.short_name = "ncclDevKernel_" + modern;
    argument =
        version < 222 ? "ncclDevComm *, unsigned long, ncclWork *" : "ncclDevKernelArgsStorage<(unsigned long)4096>";
    mangled_argument = version < 222 ? "P11ncclDevCommmP8ncclWork" : "24ncclDevKernelArgsStorageILm4096EE";
  }
  type.demangled_name = fmt::format("{}({})", type.short_name, argument);
  type.mangled_name = fmt::format("_Z{}{}{}", type.short_name.size(), type.short_name, mangled_argument);
  type.grid_x = channels;
  type.block_x = 640;
  type.registers = 96;
  type.static_shared_bytes = 21568;
  type.dynamic_shared_bytes = 82240;
  return type;
}

KernelType gemm(const std::string& name, Nanoseconds nominal_ns, std::uint32_t grid_x) {
  return {name, name, name, nominal_ns, grid_x, 384, 168, 0, 213196};
}

}  // namespace

std::vector<KernelType> kernel_catalogue(const std::string& nccl_version, bool trees) {
  const int nccl = version_number(nccl_version);
  const std::string attention_traits =
      "Flash_fwd_kernel_traits<(int)128, (int)128, (int)64, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t>";
  const std::string mangled_traits = "23Flash_fwd_kernel_traitsILi128ELi128ELi64ELi4ELb0ELb0EN7cutlass10bfloat16_tEE";
  std::vector<KernelType> types = {
      {"indexSelectLargeIndex",
       "void at::native::<unnamed>::indexSelectLargeIndex<float, long, unsigned int, (int)2, (int)2, (int)-2, (bool)1>(at::cuda::detail::TensorInfo<T1, T3>, long)",
       "_ZN2at6native12_GLOBAL__N_121indexSelectLargeIndexIfljLi2ELi2ELin2ELb1EEEvl", 40'000, 1056, 128, 32, 0, 0},
      {"vectorized_layer_norm_kernel",
       "void at::native::<unnamed>::vectorized_layer_norm_kernel<float, float, (bool)0>(int, T2, const T1 *, T2 *, T1 *)",
       "_ZN2at6native12_GLOBAL__N_128vectorized_layer_norm_kernelIffLb0EEEviT0_PKT_PS3_S7_", 20'000, 4096, 32, 39, 24,
       0},
      gemm("nvjet_tst_192x192_64x4_2x1_v_bz_coopB_bias_TNN", 180'000, 264),
      {"flash_fwd_kernel",
       "void flash::flash_fwd_kernel<" + attention_traits + ", (bool)0, (bool)1>(flash::Flash_fwd_params)",
       "_ZN5flash16flash_fwd_kernelI" + mangled_traits + "Lb0ELb1EEEvNS_16Flash_fwd_paramsE", 200'000, 512, 128, 255, 0,
       65536},
      gemm("nvjet_tst_128x256_64x4_1x2_h_bz_TNT", 80'000, 132),
      {"vectorized_elementwise_kernel",
       "void at::native::vectorized_elementwise_kernel<(int)4, at::native::CUDAFunctor_add<float>, std::array<char *, (unsigned long)3>>(int, T2, T3)",
       "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_", 15'000,
       8192, 128, 32, 0, 0},
      gemm("nvjet_tst_256x128_64x4_1x2_h_bz_coopA_TNT", 220'000, 396),
      {"unrolled_elementwise_kernel",
       "void at::native::unrolled_elementwise_kernel<at::native::GeluCUDAKernelImpl(at::TensorIteratorBase &)::[lambda(float) (instance 1)], std::array<char *, (unsigned long)2>, (int)4>(int, T1, T2)",
       "_ZN2at6native27unrolled_elementwise_kernelIZNS0_18GeluCUDAKernelImplERNS_18TensorIteratorBaseEEUlfE_St5arrayIPcLm2EELi4EEEviT_T0_",
       25'000, 16384, 128, 34, 0, 0},
      gemm("nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT", 210'000, 264),
      {"layer_norm_grad_input_kernel_vectorized",
       "void at::native::<unnamed>::layer_norm_grad_input_kernel_vectorized<float, float, (bool)0>(const T1 *, const T1 *, const T2 *, const T2 *, const T1 *, T1 *, int)",
       "_ZN2at6native12_GLOBAL__N_139layer_norm_grad_input_kernel_vectorizedIffLb0EEEvPKT_S5_PKT0_S8_S5_PS3_i", 35'000,
       4096, 256, 40, 0, 0},
      {"flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel",
       "void flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<" + attention_traits +
           ", (bool)0, (bool)1>(flash::Flash_bwd_params)",
       "_ZN5flash44flash_bwd_dq_dk_dv_loop_seqk_parallel_kernelI" + mangled_traits +
           "Lb0ELb1EEEvNS_16Flash_bwd_paramsE",
       460'000, 512, 256, 255, 0, 147456},
      gemm("nvjet_tst_128x192_64x5_2x1_v_bz_NNT", 175'000, 264),
      gemm("nvjet_tst_96x64_64x10_1x2_h_bz_bias_NTT", 175'000, 264),
      {"unrolled_elementwise_kernel",
       "void at::native::unrolled_elementwise_kernel<at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase &)::[lambda(float, float) (instance 1)], std::array<char *, (unsigned long)3>, (int)4>(int, T1, T2)",
       "_ZN2at6native27unrolled_elementwise_kernelIZNS0_26GeluBackwardCUDAKernelImplERNS_18TensorIteratorBaseEEUlffE_St5arrayIPcLm3EELi4EEEviT_T0_",
       30'000, 16384, 128, 36, 0, 0},
      {"elementwise_kernel",
       "void at::native::elementwise_kernel<(int)128, (int)2, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda(float) (instance 1)]>(int, T3)",
       "_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_23direct_copy_kernel_cudaERNS_18TensorIteratorBaseEEUlfE_EEviT1_",
       12'000, 4096, 128, 18, 0, 0},
      {"cunn_SoftMaxForward",
       "void at::native::<unnamed>::cunn_SoftMaxForward<(int)4, float, float, float, at::native::<unnamed>::LogSoftMaxForwardEpilogue>(T4 *, const T2 *, int)",
       "_ZN2at6native12_GLOBAL__N_119cunn_SoftMaxForwardILi4EfffNS1_25LogSoftMaxForwardEpilogueEEEvPT2_PKT0_i", 90'000,
       4096, 1024, 40, 0, 16384},
      {"multi_tensor_apply_kernel",
       "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::TensorListMetadata<(int)1>, at::native::<unnamed>::LpNormFunctor<float, (int)2>>(T1, T2)",
       "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi1EEENS1_13LpNormFunctorIfLi2EEEEEvT_T0_",
       60'000, 320, 512, 46, 64, 0},
      {"multi_tensor_apply_kernel",
       "void at::native::<unnamed>::multi_tensor_apply_kernel<at::native::<unnamed>::FusedOptimizerTensorListMetadata<(int)4>, at::native::<unnamed>::FusedAdamMathFunctor<float, (int)4>>(T1, T2)",
       "_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_32FusedOptimizerTensorListMetadataILi4EEENS1_20FusedAdamMathFunctorIfLi4EEEEEvT_T0_",
       150'000, 320, 512, 64, 0, 0},
      nccl_type(nccl, "AllReduce_Sum_bf16_RING_LL", "AllReduce_RING_LL_Sum_bfloat", 24),
      nccl_type(nccl, "AllGather_RING_LL", "AllGather_RING_LL_Sum_int8_t", 24),
      nccl_type(nccl, "ReduceScatter_Sum_bf16_RING_LL", "ReduceScatter_RING_LL_Sum_bfloat", 24),
      nccl_type(nccl, "Broadcast_RING_LL", "Broadcast_RING_LL_Sum_int8_t", 8),
      nccl_type(nccl, "Reduce_Sum_f32_RING_LL", "Reduce_RING_LL_Sum_float", 8),
      nccl_type(nccl, "SendRecv", "SendRecv_RING_SIMPLE_Sum_int8_t", 16),
  };
  if (trees) types.push_back(nccl_type(nccl, "AllReduce_Sum_bf16_TREE_LL", "AllReduce_TREE_LL_Sum_bfloat", 24));
  return types;
}

KernelId nccl_kernel(Operation operation, bool by_tree) {
  if (operation == Operation::all_reduce && by_tree) return KernelId::nccl_all_reduce_tree;
  switch (operation) {
    case Operation::all_gather:
      return KernelId::nccl_all_gather;
    case Operation::reduce_scatter:
      return KernelId::nccl_reduce_scatter;
    case Operation::broadcast:
      return KernelId::nccl_broadcast;
    case Operation::reduce:
      return KernelId::nccl_reduce;
    case Operation::send_recv:
    case Operation::all_to_all:
      return KernelId::nccl_send_recv;
    default:
      return KernelId::nccl_all_reduce;
  }
}

int version_number(const std::string& version) {
  int major = 0, minor = 0;
  const char* end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  const bool dotted = first.ec == std::errc{} && first.ptr != end && *first.ptr == '.';
  const auto second = dotted ? std::from_chars(first.ptr + 1, end, minor) : first;
  if (!dotted || second.ec != std::errc{} || second.ptr != end || minor > 99)
    throw PlanError(
        fmt::format("version '{}' is not MAJOR.MINOR, so no layout can be chosen; write e.g. 2.27", version));
  return major * 100 + minor;
}

}  // namespace nsys_explain::synth
