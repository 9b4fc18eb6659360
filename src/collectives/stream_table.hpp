#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "collectives/layout.hpp"

namespace nsys_explain::collectives {

/// The sampled operations of a part of a stream key, on the coarse clock.
struct StreamSequence {
  StreamPart part;
  std::uint64_t digest = 0;
  std::string name;  ///< what the program calls its communicator; empty: not known
  std::int32_t component = 0;
  std::set<std::uint64_t> kinds;        ///< symbols of its operations
  bool has_unequal_kin = false;         ///< other streams have the same kinds, and other sequences: records may be lost
  std::vector<std::int64_t> positions;  ///< in the whole part
  std::vector<Operation> operations;    ///< by position, as all below
  MemberSequence sequence;              ///< exits ascend

  std::size_t size() const { return positions.size(); }
};

/// All parts of keys in range, sorted. What lacks its call on trace ranks whose other calls name communicators is left
/// out.
std::vector<StreamSequence> stream_sequences(std::span<const SampledOperation> samples, const SequenceDigests& digests,
                                             const clock::CoarseClocks& clocks, const GivenNames& names,
                                             const KeyRange& range);

/// Streams that did the same, brought together operation by operation: row k is the k-th operation of the reference,
/// the first member. In nanoseconds after the reference's first exit; NaN where a member lacks it.
struct StreamTable {
  std::vector<std::size_t> streams;           ///< the members, as indices of the sequences
  std::vector<std::size_t> unclear;           ///< streams of which it is not clear whether they are members
  std::vector<std::uint64_t> symbols;         ///< by row
  std::vector<Operation> operations;          ///< by row
  std::vector<std::vector<double>> enter_ns;  ///< by member and row
  std::vector<std::vector<double>> exit_ns;   ///< by member and row
  bool is_equal = true;                       ///< all members hold equal sequences, and nobody else nearly the same

  std::size_t members() const { return streams.size(); }
  std::size_t rows() const { return symbols.size(); }
  /// With these rows only.
  StreamTable with_rows(std::span<const std::size_t> rows) const;
};

/// The table of one reference, and of those among `waiting`, the reference too, that have most of its operations: the
/// k-th with the k-th where sequences are equal, else those of one kind that end nearest to each other.
StreamTable stream_table(std::span<const StreamSequence> streams, std::size_t reference,
                         std::span<const std::size_t> waiting);

/// Indices of streams, the longest first: the best references.
std::vector<std::size_t> by_length(std::span<const StreamSequence> streams);

}  // namespace nsys_explain::collectives
