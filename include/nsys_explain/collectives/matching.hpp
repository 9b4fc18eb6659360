#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nsys_explain/collectives/alignment.hpp"
#include "nsys_explain/collectives/extraction.hpp"
#include "nsys_explain/model/collective.hpp"

/// Which arrivals of different trace ranks belong to one collective. Small summaries decide which trace ranks share a
/// communicator and whether their sequences are equal; only then do arrivals travel to the rank that owns their block.
namespace nsys_explain::collectives {

/// The sequence of one trace rank on one communicator, as a digest. Trivially copyable.
struct SequenceSummary {
  std::uint64_t communicator = 0;  ///< Arrival::communicator
  std::uint64_t symbols_hash = 0;  ///< of the symbols in order: equal hashes and lengths mean equal sequences
  std::int64_t arrivals = 0;
  std::int32_t trace_rank = -1;
  std::int32_t communicator_size = -1;        ///< NCCL's rank count where recorded
  Evidence evidence = Evidence::kernel_name;  ///< the weakest of its arrivals
  std::uint8_t reserved[7] = {};
};

/// What two arrivals must share to be one instance: operation, root and, where all members pass the same, bytes.
std::uint64_t arrival_symbol(const Arrival& arrival);

/// Digests of the arrivals of one trace rank, sorted by communicator.
std::vector<SequenceSummary> summarise_sequences(std::span<const Arrival> arrivals,
                                                 std::span<const CommunicatorMembership> memberships);

/// A communicator of the run.
struct PlannedCommunicator {
  std::string name;                       ///< NCCL's hash as "0x..." or "inferred-N"
  std::uint64_t source_key = 0;           ///< Arrival::communicator of its members
  std::vector<std::int32_t> trace_ranks;  ///< ascending
  std::vector<std::int64_t> lengths;      ///< arrivals of each trace rank
  std::int32_t size = 0;                  ///< members that exist; at least those seen
  Evidence evidence = Evidence::kernel_name;
  bool equal_sequences = true;
};

/// Communicators of the run from the summaries of all trace ranks. A pure function of the set of summaries, sorted by
/// first trace rank, then size, then key; communicators with fewer than two trace ranks stay listed (nothing can be
/// matched in them).
std::vector<PlannedCommunicator> plan_communicators(std::vector<SequenceSummary> summaries);

/// A piece of work of the cross-rank phase: the arrivals of one communicator at positions [first_position,
/// end_position). Communicators with unequal sequences are one piece, because alignment needs them whole.
struct MatchUnit {
  std::int32_t communicator = 0;
  std::int64_t first_position = 0;
  std::int64_t end_position = 0;
  std::int32_t owner = 0;  ///< tool rank
};

/// Units in (communicator, position) order, spread over the tool ranks by weight. Only `owner` depends on tool_ranks.
std::vector<MatchUnit> plan_units(std::span<const PlannedCommunicator> communicators, std::int32_t tool_ranks);

/// Matches the arrivals of one unit (any order; times on one clock). Instances of fewer than two arrivals are
/// not instances: their arrivals count as unmatched.
MatchedBlock match_unit(const MatchUnit& unit, const PlannedCommunicator& communicator, std::vector<Arrival> arrivals,
                        const AlignmentOptions& alignment = {});

}  // namespace nsys_explain::collectives
