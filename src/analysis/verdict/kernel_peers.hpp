#pragma once

#include <vector>

#include "nsys_explain/model/table.hpp"

/// The same kernel on different GPUs: finds a slow GPU without any communication.
namespace nsys_explain::analysis {

/// GpuSpeed::p_value of a slow GPU is below it.
inline constexpr double significantly_slow = 0.01;

/// From the joined `kernels_by_launch` of all trace ranks. A kernel is the same where name, grid and block are, so that
/// different work rarely passes for slow work. Communication kernels are left out: they wait for others. A trace rank
/// is compared where it and at least one peer ran the kernel five times or more.
///
/// - `kernel_peers`: the 100 kernels with most time, by trace rank: its median against the median of the peers'
/// medians.
///   z is the logarithm of that ratio in standard errors: of both medians (1.2533 s / (median sqrt n)), of the spread
///   between peers (1.4826 MAD of their logarithms) and of the GPU clock's steps of 32 ns.
/// - `gpu_speed`, one row per trace rank compared: ratio is the median of its kernels' ratios weighted by their time;
///   p_value that of all z combined (Stouffer, weighted by time, one-sided), times the number of trace ranks. slow is 1
///   where three kernels or more were compared, p_value < 0.01, the ratio is at least 1.02, and it stands out from the
///   other trace ranks' ratios by three of their robust standard deviations (with only two trace ranks: the ratio is at
///   least 1.05). This p-value takes executions as independent, which they are not: it is the least that can be
///   asked. doubt_wandering_speeds knows better, and correct_gpu_speeds writes that into the table.
std::vector<Table> kernel_peer_tables(const Table& kernels_by_launch);

/// Table `kernel_imbalance` from the joined `kernels`: by kernel name that two or more trace ranks ran, the sum of
/// durations of the mean and of the largest trace rank, and their ratio (Pipit's load imbalance); most time first.
Table kernel_imbalance_table(const Table& kernels);

}  // namespace nsys_explain::analysis
