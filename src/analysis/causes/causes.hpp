#pragma once

#include <map>

#include "analysis/trace/divergence.hpp"
#include "analysis/verdict/job_delays.hpp"
#include "model/schema/declaration.hpp"
#include "nsys_explain/model/job_report.hpp"

/// Why somebody is late.
namespace nsys_explain::analysis {

// What findings about those who are late tell, so that no other finding tells it again.

/// Ascending.
using LateRanks = std::vector<std::int32_t>;

/// The stragglers and the suspects: each has a finding with its cause and what to do.
std::vector<const Straggler*> attributed_stragglers(const JobReport& report);

/// The trace ranks of those of them who are late by one of these causes.
LateRanks late_by(const JobReport& report, std::initializer_list<Cause> causes);

bool is_among(const LateRanks& late, std::int64_t trace_rank);

/// By trace rank, all of the report.
using TimeOfRank = std::map<std::int64_t, Nanoseconds>;

/// Sums of a column of times over the rows of a table of the report that count. Empty where there is no such table.
TimeOfRank time_of_ranks(const JobReport& report, const schema::Declaration& table, const schema::Integer& time,
                         const std::function<bool(const Table&, std::size_t row)>& counts);

/// By how much the late have more than is usual: than the (lower) median of all other trace ranks. 0 where there are no
/// others.
Nanoseconds surplus_of(const LateRanks& late, const TimeOfRank& time_ns);

// Why a trace rank computes longer than its peers: its GPU is slow, it runs more kernels, or some kernels do more.

/// Kernels of one name, grid and block: on the late trace rank (mean of several) and on its peers (lower medians).
struct KernelFamily {
  std::string name, shape;
  double count = 0, peers_count = 0;
  double total_ns = 0, peers_total_ns = 0;  ///< sums of durations

  bool is_common() const { return count > 0 && peers_count > 0; }
  double ratio() const { return total_ns / count / (peers_total_ns / peers_count); }  ///< of mean durations
  double lost_ns() const { return total_ns - peers_total_ns; }

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, shape, count, peers_count, total_ns, peers_total_ns);
  }
};

/// What a late trace rank computes longer, T - P, in three parts that add up to it:
///
///     slower = T (1 - 1/s)       s: the typical family's ratio, at least 1
///     more   = X/s (1 - D/C)     C kernels beyond the peers' count by name take X; D kernels less of other names stand
///                                for as many of them: a library chooses other kernels for other sizes
///     larger = the rest          the same kernels, of larger grids or longer
///
/// A slow GPU is slower in most families, though not by one factor; uneven work leaves most as they are. So s is the
/// lower median over families, each of which counts once if it holds 1% of what both compute, however much one holds.
/// Measured: GPUs with a smaller share of multiprocessors s = 1.11 to 1.49, and slower holds 0.86 to 1.16 times what
/// they lose; a busy expert s = 0.99; 20 matrix products more in each step s = 0.96, and more holds 1.1 times it.
struct ComputeDifference {
  bool of_run = false;        ///< else of a few collectives
  double speed = 1;           ///< s, which may be below 1
  std::int64_t families = 0;  ///< that s is the median of; below 3 one that depends on data may pass for most
  double own_ns = 0, peers_ns = 0;
  double slower_ns = 0, more_ns = 0, larger_ns = 0;
  std::vector<KernelFamily> largest;  ///< families that lose most, most first; at most 3

  /// slow_kernel, extra_work or uneven_work: the largest part; unknown where it computes no longer than its peers.
  Cause cause() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(of_run, speed, families, own_ns, peers_ns, slower_ns, more_ns, larger_ns, largest);
  }
};

/// Of the analysed window, from the joined `kernels_by_launch`; `late` and `peers`: trace ranks, ascending. Empty where
/// one side ran no compute kernels.
std::optional<ComputeDifference> compare_compute(const Table& kernels_by_launch, std::span<const std::int32_t> late,
                                                 std::span<const std::int32_t> peers);

/// Before a few collectives, against one peer. Likewise.
std::optional<ComputeDifference> compare_compute(const Divergence& divergence);

/// In words: the parts, then the families that lose most.
std::vector<std::string> describe(const ComputeDifference& difference);

// What a straggler did differently, by name.

/// "12 in 3.400 ms", or "none". `count` may be a mean.
std::string executions_text(double count, double total_ns);

/// True of the causes that lie in what its GPU computes.
bool is_on_gpu(Cause cause);

/// The NVTX range that the straggler's host was in for at least half of `more_ns`, alone or longer than its peer, and
/// longer than in all others together; empty: none.
std::string range_of_host(const Divergence& divergence, Nanoseconds more_ns);

/// Straggler::host_was_in. What the program wrote down comes first. `more_ns`: of the part, in all of the divergence's
/// cases.
std::string host_was_in(const Divergence& divergence, Cause cause, WorkPart part, Nanoseconds more_ns);

/// The largest differences that bear on the cause, in words; empty where there are none.
std::string largest_differences(const Divergence& divergence, Cause cause);

// Why a straggler is late: from what it did before the collectives that it delayed, against what a peer did before
// the same collectives.
//
// The evidence table. "More" is the straggler's part less the peer's in one case; "behind" means that a part is longer
// only because the peer had got it done while it waited for the straggler in an earlier collective.
//
// More of what -> cause:
// - compute, though its kernels took no longer -> none: behind
// - compute: most families of kernels took longer -> slow_kernel; more kernels -> extra_work; the same kernels, some
//   larger or longer -> uneven_work (compare_compute)
// - copies and sets that nobody waited for -> extra_work
// - GPU idle: the profiler held the host up -> profiler_overhead
// - GPU idle: the host was allocating or freeing -> allocation
// - blocking copies, and GPU idle in one -> blocking_copy
// - GPU idle: the host was synchronising -> sync_stall
// - GPU idle: launching or nothing seen, and allocations that the peer lacks -> allocation
// - GPU idle: launching or nothing seen, and synchronisations that the peer lacks -> sync_stall
// - GPU idle: module loading, files, an NVTX range, a system wait, no core, launching, nothing seen -> launch_starved
// - other collectives, opaque graphs, work that was launched in time -> unknown
//
// The verdict is what most cases say, weighted by the waiting they caused (but none by more than the median one: one
// long hiccup does not speak for a whole run; of who is late in some steps only, by more than the second: in most
// spans it may be last by chance); below half of the weight it is unknown. Records that a trace lost look like other
// kernels: where the straggler ran the same kernels as its peers in most of what counts, other kernels elsewhere are
// no more work, and none beyond what peers themselves differ by in such cases. Against members of another role, such
// as the neighbouring stage, only parts in which the GPU is idle count, and only where they are at least half of the
// straggler's own lateness: what runs there differs by design. slow_link is not decided here: a slow link shows in
// transfers, not in the work before a collective (complete_cause).

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

// What is known about a straggler beside its work before the collectives that it delayed.

/// True where transfers over slow links are most of what a straggler took longer than its peers: its work is not what
/// makes it late, and no comparison of work can tell why it is.
bool late_by_transfers(const JobReport& report, const JobDelays& delays, const Straggler& straggler);

/// Completes the cause of a straggler (after decide_cause, whose verdict only gives way where it is `unknown`, where
/// late_by_transfers, or as told here):
/// - late by transfers: slow_link;
/// - a pipeline stage with more than its part of the layers (JobDelays::stages): extra_work;
/// - GPUs that are known to be slow by kernels that run elsewhere, too (table gpu_speed): slow_kernel; likewise instead
///   of any other cause, where at least half of what they took longer over the run, beyond what is usual for the
///   others, is lost by that speed;
/// And gives the evidence that bears on the cause: what it computes longer (`compute`, nullptr where that is not
/// known), for slow_kernel the clocks, power and temperature of its GPUs beside those of the other GPUs (table
/// gpu_samples), for slow_link the link (JobReport::slow_links). Tables and links are those of the report: on the tool
/// rank that holds none, nothing is added. Where its trace ranks are several places at once, the cause decides which of
/// them names it.
void complete_cause(const JobReport& report, const JobDelays& delays, const ComputeDifference* compute,
                    Straggler& straggler);

// Waiting that comes from a few delays and not from one rank: a single delay of milliseconds convicts nobody, but
// what happened before it can be told.

/// The share of the elapsed time that is saved besides, if the work of this trace rank were as is usual once the
/// stragglers and slow links are mended; empty where no replay tells.
using SavedByRank = std::function<std::optional<double>(std::int32_t)>;

/// How many of the longest waits deserve an explanation of their own: as many as hold 80% of all waiting, where those
/// whose trace rank no finding tells as late hold at least 30% of all waiting, and 0.5% of all GPU time, or nearly all
/// is for one trace rank whose mending saves 1% of the elapsed time; else 0. `longest`: the cases with the most caused
/// wait of the run, most first. `saved` is asked alike on every tool rank.
std::size_t waits_to_explain(const JobReport& report, std::span<const StragglerCase> longest, const SavedByRank& saved);

/// The trace rank for which nearly all of these waits are (90% of the time), if there is one.
std::optional<std::int32_t> waited_for_alone(std::span<const LongWait> waits);

/// `divergence` and `compute`: of this case alone; nullptr where the traces were not read again.
LongWait explain_wait(const StragglerCase& one, const Divergence* divergence, const ComputeDifference* compute);

/// Why now one trace rank is late, now another.
struct RotatingCause {
  Cause cause = Cause::unknown;
  double share = 0;  ///< of all caused waits, that this cause holds
};

/// By rank and bin of steps, what a rank computes more than the (lower) median of its role in that bin, over what it
/// took longer there, 0 to 1, weighed by the waits that it caused. uneven_work where at least half of the waiting comes
/// with more work (each kernel taken as long as those of its name, grid and block are on average); else slow_kernel
/// where half of it comes with longer kernels of any kind; else unknown.
RotatingCause rotating_cause(const JobDelays& delays);

}  // namespace nsys_explain::analysis
