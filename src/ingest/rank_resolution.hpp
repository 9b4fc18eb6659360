#pragma once

#include <optional>

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/trace.hpp"

/// Which rank of the profiled job each trace rank is. Two steps: identify_trace_ranks collects claims from one trace,
/// resolve_trace_ranks weighs the claims of all traces of the run against each other.
namespace nsys_explain::ingest {

/// What the user says about ranks. Empty: nothing.
struct RankOverrides {
  /// The pattern (shell wildcards, or a literal name) matches the file name or the path; no id: any process or device.
  struct Entry {
    std::string pattern;
    std::optional<std::int32_t> process_id, device_id;
    std::int32_t rank = 0;
  };
  std::vector<Entry> entries;  ///< the first one that matches a trace rank counts
  std::string regex;           ///< model/regex.hpp; the first capture group is the rank; searched in the path
};

/// Parses a rank map: lines "PATTERN RANK" or "PATTERN PID DEVICE RANK", where PID or DEVICE may be `*` and a pattern
/// with blanks or '#' stands in double quotes (\" and \\ inside). '#' starts a comment. Throws std::invalid_argument
/// with the line number.
RankOverrides parse_rank_map(const std::string& text);

/// Throws std::invalid_argument (problem, why, what to do) unless `regex` is empty, or valid with a capture group.
void check_rank_regex(const std::string& regex);

/// The trace ranks of one trace with every claim about their numbers that this trace and the user make.
/// trace_rank stays -1 until resolve_trace_ranks, which also adds what file names say.
///
/// A device that its process only touches is no trace rank: one with less than 1 % of the GPU time of the process'
/// busiest device that no communicator names (typically a stray context on device 0); see side_device_warnings.
/// What holds for a process as a whole (MPI_RANKS, environment) is no claim where the process works on several devices.
/// NCCL tells rank and device of every member when a communicator is made or destroyed; the largest one counts.
std::vector<TraceRankIdentity> identify_trace_ranks(const Trace& trace, const RankOverrides& overrides);

/// The processes of one trace without GPU work that are told of all the same, though they are no trace ranks: those
/// that called NCCL, whose GPU work was not recorded, and where no process of the trace has GPU work, every one. Their
/// `device_id` is -1; claims are as those of a process with one device.
std::vector<TraceRankIdentity> identify_host_processes(const Trace& trace, const RankOverrides& overrides);

/// Says which devices with GPU activity identify_trace_ranks leaves out.
std::vector<Warning> side_device_warnings(const Trace& trace);

/// One warning for the entries of the rank map that match no trace rank of the run: most often a typing error.
std::vector<Warning> unused_entry_warnings(const RankOverrides& overrides,
                                           const std::vector<TraceRankIdentity>& identities);

struct Resolution {
  std::vector<TraceRankIdentity> trace_ranks;  ///< unique numbers, sorted by trace_rank
  std::vector<Warning> warnings;               ///< conflicts between sources, ranks claimed twice, missing ranks
};

/// Gives every trace rank of the run its number. The first of these that works:
///  1. each by its best claim (RankSource order), where all have one and no number is claimed twice;
///  2. the best single source that has a number for every trace rank and none twice (the user's claims stay);
///  3. best claims where more than half of the trace ranks can keep theirs: of several that claim one number the one
///     with the better source keeps it, then the first in file order; the others are numbered after the largest;
///  4. file order: by path, digits compared as numbers; within a file by device, or by process where processes share
///     device numbers (the user's claims stay).
/// A communicator's rank never exceeds the rank in the job, so NCCL's numbers are set aside as those of a
/// sub-communicator where they are nowhere above, but somewhere below those of MPI or the environment.
/// Everything that is not plain agreement is said in a warning. `world_size`: of the profiled job, where known; ranks
/// below it without a trace are reported as missing.
/// A function of the set of identities: their order does not matter.
Resolution resolve_trace_ranks(std::vector<TraceRankIdentity> identities,
                               std::optional<std::int32_t> world_size = std::nullopt);

/// Numbers for processes without GPU work: as resolve_trace_ranks tells those that make any claim (all where none does)
/// apart from file order, unless a trace rank has the number; the others come after the largest. Sorted by number.
std::vector<TraceRankIdentity> number_host_processes(std::vector<TraceRankIdentity> processes,
                                                     const std::vector<TraceRankIdentity>& trace_ranks);

/// The whole of `text` as a number from 0 on that fits 32 bits.
std::optional<std::int32_t> parse_rank_number(std::string_view text);

/// True if an entry of the rank map speaks about this trace rank.
bool entry_matches(const RankOverrides::Entry& entry, const std::string& path, std::int32_t process_id,
                   std::int32_t device_id);

// What resolve_trace_ranks says about its decisions. `identities` are in file order and `choices`, the claims their
// numbers come from, are parallel to them.

/// NCCL's payloads were set aside: `below` of their numbers are smaller than those of `reference`.
Warning subgroup_warning(std::int64_t below, RankSource reference);

/// Numbers that several trace ranks claim, communicators of different sizes, and trace ranks without a claim, as long
/// as there are claims at all.
std::vector<Warning> conflict_warnings(const std::vector<TraceRankIdentity>& identities,
                                       const std::vector<std::optional<RankClaim>>& best_claims);

/// One source numbered the run in place of the best claims.
Warning fallback_warning(const std::vector<std::optional<RankClaim>>& choices);

/// Most kept their claims, the rest was numbered after them.
Warning rest_warning(const std::vector<TraceRankIdentity>& identities,
                     const std::vector<std::optional<RankClaim>>& choices);

/// The run was numbered in file order.
Warning file_order_warning(const std::vector<TraceRankIdentity>& identities,
                           const std::vector<std::optional<RankClaim>>& choices);

/// Claims that say something else than the choice, one warning per pair of sources.
std::vector<Warning> disagreement_warnings(const std::vector<TraceRankIdentity>& identities,
                                           const std::vector<std::optional<RankClaim>>& choices);

/// Numbers that come from several sources.
std::vector<Warning> mixture_warnings(const std::vector<std::optional<RankClaim>>& choices);

/// Ranks of the job without a trace.
std::vector<Warning> coverage_warnings(const std::vector<std::optional<RankClaim>>& choices,
                                       std::optional<std::int32_t> world_size);

struct RanksAndHelpers {
  std::vector<TraceRankIdentity> ranks;
  std::vector<HelperProcess> helpers;
  std::vector<Warning> warnings;  ///< whoever may be either
};

/// Who of one export is a rank: `identities` as identify_trace_ranks has them, `takes_part` by process of the trace: it
/// communicates (kernels, calls of NCCL or MPI). Who stands beside such processes and does not, nor is numbered by MPI,
/// NCCL or the user, is a helper: a server's engine, a data loader, a display server. Who does the same work as one of
/// them (each runs mostly kernels of names that the other runs), or graphs recorded as one interval, stays a rank, with
/// a warning: its collectives may not have been recorded. The environment is that of the process nsys launched: it
/// tells the rank where one is left.
///
///     kernels      gemm 400, norm 200, nccl 100   fill 700    gemm 40, norm 20
///     takes part   yes                            no          no
///     is           a rank                         a helper    a rank, unsure
RanksAndHelpers tell_helpers(const Trace& trace, std::vector<TraceRankIdentity> identities,
                             const std::vector<bool>& takes_part);

/// Of the whole job: who was left out, and what it uses of its GPU.
std::vector<Warning> helper_warnings(const std::vector<HelperProcess>& helpers);

}  // namespace nsys_explain::ingest
