#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/verdict/gpu_speed.hpp"
#include "analysis/waits/levels.hpp"
#include "nsys_explain/model/table.hpp"

/// Whether the stages of a pipeline have equal work. Peers cannot tell: those of a stage are its own members.
///
/// Uneven by design is what only one stage runs: the embedding of the first, the head and the loss of the last. More of
/// the kernels that the other stages run, too (of equal name, grid and block) is a matter of how layers were dealt out,
/// and it is a surplus as far as it makes the whole step of the stage longer: a stage that has a layer more in place of
/// a heavy head is balanced.
namespace nsys_explain::analysis {

/// A surplus below this share of a stage's kernel time is not worth a verdict.
inline constexpr double smallest_surplus = 0.02;

/// Of each trace rank's kernel time (by index) the share that lies in kernels which at least one other pipeline stage
/// runs. 1 where a rank has no kernels. `kernels_by_launch` is the joined table; `trace_ranks` are ascending.
std::vector<double> shared_kernel_shares(const Table& kernels_by_launch, std::span<const std::int32_t> trace_ranks,
                                         const Grouping& stages);

/// Kernel time of each trace rank in each bin of the run; ranks by index.
struct KernelTime {
  std::size_t bins = 0;
  std::vector<std::int64_t> kernel_ns;  ///< by rank, then bin; 0: not known
  std::vector<double> shared;           ///< shared_kernel_shares
};

/// One stage against the median of the others (of an even number the longer of the two in the middle); times are those
/// of its median member in its median bin, without what a slow GPU adds.
struct StageBalance {
  std::string stage;
  std::vector<std::size_t> ranks;
  Nanoseconds kernel_ns = 0, others_kernel_ns = 0;
  Nanoseconds shared_ns = 0, others_shared_ns = 0;  ///< of kernels that other stages run, too
  double surplus = 0;  ///< share of kernel_ns beyond the others', as far as shared kernels are the reason; not below 0
  double p_value = 1;  ///< bound on the probability of so much more if in every bin stages were dealt out at random

  bool overfull() const { return surplus >= smallest_surplus; }
};

/// By the name of the stage. Empty with fewer than two stages, or where no bin is known of all of them.
std::vector<StageBalance> compare_stages(const KernelTime& time, std::span<const GpuSpeed> speeds,
                                         const Grouping& stages);

/// Of a job of two trace ranks whose roles differ: each is a stage by itself, as far as balance goes. An exchange
/// between two looks the same in a pipeline and elsewhere, so their communicator does not tell.
Grouping lone_stages(std::span<const std::int32_t> trace_ranks);
std::string name_of_lone_stage(std::int32_t trace_rank);

/// Table `stage_balance`.
Table stage_balance_table(std::span<const StageBalance> stages);

}  // namespace nsys_explain::analysis
