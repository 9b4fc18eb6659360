#pragma once

#include <vector>

#include "analysis/trace/launches.hpp"
#include "analysis/trace/nvtx_names.hpp"
#include "nsys_explain/model/table.hpp"

/// Where a program's phases (steps, forward, backward, optimizer, prefill, decode, the user's own) spend the GPU.
namespace nsys_explain::analysis {

/// Steps that table steps keeps for each trace rank: the first ones.
inline constexpr std::size_t most_steps = 2000;
inline constexpr std::string_view outside_phases = "(outside)";

/// The tables
/// - phases: a row per phase in order of its first range, then one for kernels in none. A kernel belongs to the
///   innermost phase around its launch; steps hold all that is launched in them and overlap the other phases. Launches
///   of threads that never enter a phase (autograd's) belong to what is open at that time on other threads.
/// - steps: one row per step, by start.
/// - serving: time to first token (from the start of a prefill to the end of its GPU work; queueing before it is not in
///   a trace) and time per output token (between the ends of a decode and of the prefill or decode before it).
/// Ranges inside another one of the same phase on the same thread are part of that one.
std::vector<Table> phase_tables(const RankEvents& events, const DeviceLaunches& launches,
                                const std::vector<PhaseRule>& rules);

}  // namespace nsys_explain::analysis
