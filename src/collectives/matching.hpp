#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/alignment.hpp"
#include "collectives/extraction.hpp"
#include "nsys_explain/model/collective.hpp"

/// Which arrivals of different trace ranks belong to one collective. Small summaries decide which trace ranks share a
/// communicator and whether their sequences are equal; only then do arrivals travel to the rank that owns their block.
namespace nsys_explain::collectives {

/// The sequence of one trace rank on one communicator, as a digest. Trivially copyable.
struct SequenceSummary {
  std::uint64_t communicator = 0;      ///< Arrival::communicator
  std::uint64_t symbols_hash = 0;      ///< of the symbols in order: equal hashes and lengths mean equal sequences
  std::uint64_t collectives_hash = 0;  ///< likewise, of all but sends and receives
  std::int64_t arrivals = 0;
  std::int64_t collectives = 0;  ///< how many these are
  std::int32_t trace_rank = -1;
  std::int32_t communicator_size = -1;        ///< NCCL's rank count where recorded
  std::int32_t communicator_rank = -1;        ///< NCCL's rank number where recorded
  Evidence evidence = Evidence::kernel_name;  ///< the weakest of its arrivals
  bool has_pairs = false;                     ///< some arrivals are exchanges with one peer
  /// Of all others, by operation (bit 1 << Operation): some lack NCCL's sequence number.
  std::uint16_t unnumbered_operations = 0;
};

/// True for a kernel of sends and receives that meets one other member only, known or not.
bool is_pair_exchange(const Arrival& arrival);

/// What two arrivals must share to be one instance: operation, and, as far as calls tell and all members pass the same,
/// bytes and root (see may_be_one).
std::uint64_t arrival_symbol(const Arrival& arrival);

/// Digests of the arrivals of one trace rank, sorted by communicator. Memberships of other devices do not count.
std::vector<SequenceSummary> summarise_sequences(std::span<const TraceArrival> arrivals, std::int32_t device_id,
                                                 std::span<const CommunicatorMembership> memberships);

/// A communicator of the run.
struct PlannedCommunicator {
  std::string name;                       ///< NCCL's hash as "0x..." or "inferred-N"
  std::string given_name;                 ///< what most members call it, where the trace tells (GivenNames)
  std::uint64_t source_key = 0;           ///< Arrival::communicator of its members
  std::vector<std::int32_t> trace_ranks;  ///< ascending
  std::vector<std::int32_t> ranks;        ///< NCCL's rank number of each trace rank; -1 unknown
  std::vector<std::int64_t> lengths;      ///< arrivals of each trace rank
  std::int32_t size = 0;                  ///< members that exist; at least those seen
  bool may_lack_members = false;          ///< no record tells the size, and not all ranks of the job were captured
  Evidence evidence = Evidence::kernel_name;
  bool equal_sequences = true;  ///< position by position; never with pair exchanges among more than two members
  /// Operations (bit 1 << Operation) of which not all members recorded all of NCCL's sequence numbers; the numbers of
  /// the others tell what belongs together.
  std::uint16_t unnumbered_operations = 0xFFFF;

  bool is_numbered(Operation operation) const {
    return (unnumbered_operations >> static_cast<unsigned>(operation) & 1U) == 0;
  }
};

/// Communicators of the run from the summaries of all trace ranks. A pure function of the set of summaries, sorted by
/// first trace rank, then size, then key; communicators with fewer than two trace ranks stay listed (nothing can be
/// matched in them). What is withheld is in none. `is_whole_job`: no rank of the job is known to lack a trace.
std::vector<PlannedCommunicator> plan_communicators(std::vector<SequenceSummary> summaries, bool is_whole_job = true);

/// Gives communicators the name that most members have for it.
void name_communicators(std::span<PlannedCommunicator> communicators, const GivenNames& names);

/// A piece of work of the cross-rank phase: the arrivals of one communicator at positions [first_position,
/// end_position). Communicators with unequal sequences are one piece, because matching needs them whole.
struct MatchUnit {
  std::int32_t communicator = 0;
  std::int64_t first_position = 0;
  std::int64_t end_position = 0;
  std::int32_t owner = 0;  ///< tool rank
  bool at_reader = false;  ///< the owner has read all members: their arrivals are there already
};

/// Which tool rank has read a trace rank.
using ReaderOf = std::function<std::int32_t(std::int32_t trace_rank)>;

/// Units in (communicator, position) order, spread evenly over the tool ranks, at home where they can be. Only the
/// owners depend on the tool ranks and on what they have read.
std::vector<MatchUnit> plan_units(std::span<const PlannedCommunicator> communicators, std::int32_t tool_ranks,
                                  const ReaderOf& reader_of);

/// Roughly common time of an uncorrected time of a trace rank, where the clock is not known yet (clock::CoarseClocks).
using RoughTime = std::function<JobTime(std::int32_t trace_rank, JobTime uncorrected)>;

/// Matches the arrivals of one unit (any order, but by trace rank and position is quickest; uncorrected as long as the
/// clock is not known), by the best evidence there is: equal sequences, NCCL's sequence numbers, else alignment; sends
/// and receives in pairs. Instances of fewer than two arrivals are not instances: their arrivals count as unmatched.
/// Sequences of uneven units follow the latest enter.
///
/// Equal sequences are matched k-th with k-th, see match_members. Where the clock is not known, `rough_time`, if there
/// is one, tells which sends and receives without recorded peers meet.
MatchedBlock match_unit(const MatchUnit& unit, const PlannedCommunicator& communicator,
                        std::span<const JobArrival> arrivals, const AlignmentOptions& alignment = {},
                        const RoughTime& rough_time = {});

}  // namespace nsys_explain::collectives
