#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/causes/compute_difference.hpp"
#include "analysis/trace/divergence.hpp"
#include "nsys_explain/model/job_report.hpp"
#include "nsys_explain/model/work.hpp"

/// Why a straggler is late: from what it did before the collectives that it delayed, against what a peer did before
/// the same collectives.
///
/// The evidence table. "More" is the straggler's part less the peer's in one case; "behind" means that a part is longer
/// only because the peer had got it done while it waited for the straggler in an earlier collective.
///
/// More of what -> cause:
/// - compute, though its kernels took no longer -> none: behind
/// - compute: most families of kernels took longer -> slow_kernel; more kernels -> extra_work; the same kernels, some
///   larger or longer -> uneven_work (compute_difference.hpp)
/// - copies and sets that nobody waited for -> extra_work
/// - GPU idle: the profiler held the host up -> profiler_overhead
/// - GPU idle: the host was allocating or freeing -> allocation
/// - blocking copies, and GPU idle in one -> blocking_copy
/// - GPU idle: the host was synchronising -> sync_stall
/// - GPU idle: launching or nothing seen, and allocations that the peer lacks -> allocation
/// - GPU idle: launching or nothing seen, and synchronisations that the peer lacks -> sync_stall
/// - GPU idle: module loading, files, an NVTX range, a system wait, no core, launching, nothing seen -> launch_starved
/// - other collectives, opaque graphs, work that was launched in time -> unknown
///
/// The verdict is what most cases say, weighted by the waiting they caused (but none by more than the median one: one
/// long hiccup does not speak for a whole run; of who is late in some steps only, by more than the second: in most
/// spans it may be last by chance); below half of the weight it is unknown. Records that a trace lost look like other
/// kernels: where the straggler ran the same kernels as its peers in most of what counts, other kernels elsewhere are
/// no more work, and none beyond what peers themselves differ by in such cases. Against members of another role, such
/// as the neighbouring stage, only parts in which the GPU is idle count, and only where they are at least half of the
/// straggler's own lateness: what runs there differs by design. slow_link is not decided here: a slow link shows in
/// transfers, not in the work before a collective (cause_context.hpp).
namespace nsys_explain::analysis {

/// One member of an instance that a straggler delayed.
struct CaseMember {
  std::int32_t trace_rank = -1;
  Nanoseconds work_ns = no_time;
  WorkProfile profile;
};

/// One instance that a straggler delayed, with the peer that it is compared with.
struct StragglerCase {
  std::int64_t instance = 0;  ///< row of collective_instances; -1: what it came late to is not matched
  JobTime last_enter;
  Nanoseconds caused_wait_ns = 0;
  Nanoseconds own_lateness_ns = 0;
  CaseMember straggler, peer;
  bool alike = true;  ///< the peers have the straggler's role, at the same program position; else what they compute
                      ///< tells nothing
  bool same_kernels = false;        ///< both launched the same kernels (WorkProfile::kernels_hash)
  Nanoseconds kernel_noise_ns = 0;  ///< how much WorkProfile::kernel_ns of comparable peers differs by chance
};

/// Chooses the peer: of the members (without the straggler) that launched the same kernels as the straggler, or else,
/// where at least two and half of the members launched the same, of these, or else of all, the one with the median work
/// (the lower one; ties by trace rank). Fills peer, same_kernels and kernel_noise_ns. False: nobody to compare with.
bool choose_peer(std::span<const CaseMember> members, StragglerCase& of);

/// Once all cases of a straggler are known: where kernels are not the same, the few peers of one case tell badly by how
/// much they differ, so that of all such cases is the least.
void pool_kernel_noise(std::span<StragglerCase> cases);

/// What one case says.
struct CaseVerdict {
  Cause cause = Cause::unknown;
  WorkPart part = WorkPart::pending;  ///< the part that differs most
  bool counts = false;                ///< false: behind only, or no difference worth a word
  Nanoseconds difference_ns = 0;      ///< of all parts of that cause, without what is behind only
  Nanoseconds part_ns = 0;            ///< of `part` alone
};

/// `compute`: why it computes longer, where that is known. Else, and where it runs more kernels elsewhere, the same
/// kernels are slow_kernel; other kernels are unknown.
CaseVerdict judge_case(const StragglerCase& one, std::optional<Cause> compute);

/// Its cause; empty where nothing was compared.
std::optional<Cause> compute_cause(const ComputeDifference* compute);

/// When a straggler is late, which tells how much one case may weigh.
enum class LateIn : std::uint8_t { whole_run, some_steps };

struct CauseVerdict {
  Cause cause = Cause::unknown;
  WorkPart part = WorkPart::pending;
  std::string host_was_in;  ///< Straggler::host_was_in
  std::vector<std::string> evidence;
};

/// How much of the waiting in these cases lies in those that count, 0 to 1; one case cannot outweigh all others.
double share_that_counts(std::span<const StragglerCase> cases, LateIn late_in = LateIn::whole_run);

/// Below this share what counts is not what made the straggler late.
inline constexpr double least_that_counts = 0.1;

/// `cases` in order of time; unknown where too little of them counts. None weighs more than the median case, or the
/// second: among the longest delays are those that go by. The evidence names instances (rows of collective_instances)
/// and tables of the store. `divergence`: of a few of the cases, and `compute`: nullptr where they are not known.
CauseVerdict decide_cause(std::span<const StragglerCase> cases, const Divergence* divergence,
                          const ComputeDifference* compute, LateIn late_in = LateIn::whole_run);

}  // namespace nsys_explain::analysis
