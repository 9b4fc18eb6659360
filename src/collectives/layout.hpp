#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "clock/coarse_clocks.hpp"
#include "clock/job_clock.hpp"
#include "collectives/extraction.hpp"
#include "collectives/matching.hpp"
#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/time.hpp"

/// Communicators of a job whose export does not name them: which stream keys (one stream of one device, or a category
/// of the nccl trace) of different trace ranks are one communicator. Where the data do not say, nothing is invented:
/// such operations are withheld.
///
///   samples of all stream keys --CoarseClocks--> which operations may be one --choose_layout--> stream key ->
///   communicator
///
/// Samples are small and the same on every tool rank.
namespace nsys_explain::collectives {

/// One operation of a stream key. Trivially copyable.
struct SampledOperation {
  SessionTime enter;
  SessionTime exit;
  std::uint64_t symbol = 0;  ///< arrival_symbol
  std::uint64_t key = 0;     ///< Arrival::communicator: where payload tells it, its hash
  std::int32_t trace_rank = -1;
  std::int32_t session = -1;
  std::int32_t index = -1;     ///< Arrival::index
  std::int32_t position = -1;  ///< 0, 1, 2 ... among the collectives, or the exchanges, of the key
  Operation operation = Operation::unknown;
  bool is_without_call =
      false;  ///< its call, which might have named its communicator, was not recorded when it was due
  std::array<std::uint8_t, 6> reserved = {};  ///< no padding bytes travel uninitialised
};

/// The operations of each key of one trace rank nearest to `centre`, at most `per_key` of each, in enter order.
std::vector<SampledOperation> sample_streams(std::span<const TraceArrival> arrivals, const clock::TraceClock& clock,
                                             std::int32_t session, SessionTime centre, std::size_t per_key);

/// What is compared of a stream key: its collectives, or its sends and receives, which other members may have more of.
struct StreamPart {
  std::int32_t trace_rank = -1;
  std::uint64_t key = 0;  ///< Arrival::communicator
  bool exchanges = false;
  auto operator<=>(const StreamPart&) const = default;  // NOLINT(modernize-use-nullptr): clang-tidy 14 sees a 0 in it
};

StreamPart part_of(const SampledOperation& operation);

/// Digests of whole sequences, which tell what is equal.
using SequenceDigests = std::map<StreamPart, std::uint64_t>;

SequenceDigests digests_of(std::span<const SequenceSummary> summaries);

/// The samples as the clock wants to see them.
std::vector<clock::RecordedSequence> recorded_sequences(std::span<const SampledOperation> samples,
                                                        const SequenceDigests& digests);

/// What a part of a stream key turned out to be.
struct StreamRole {
  std::uint64_t key = 0;       ///< of the inferred communicator
  bool meets_several = false;  ///< its sends and receives are an all-to-all
};

/// What is not in it is withheld.
using Layout = std::map<StreamPart, StreamRole>;

/// Keys of streams, or categories: which of them a layout is about.
struct KeyRange {
  std::uint64_t first = 0;      ///< first key that takes part ...
  std::uint64_t end = 0;        ///< ... and the first that does not
  std::uint64_t first_new = 0;  ///< inferred communicators get keys from here on
};
inline constexpr KeyRange stream_keys{0, withheld_key, 0};
inline constexpr KeyRange category_keys{first_category_key, first_named_key, first_named_key};

/// Chooses the layout of communicators. Streams that did the same (equal sequences of operations, or where captures are
/// ragged operations that end at about the same times) form a class; which of a class are one communicator, see
/// block_selection.hpp. Two or three that nobody else is like must be one if the job is whole. Names tell keys of
/// different trace ranks apart, as far as both use them. `is_whole`: no rank of the job is known to lack a trace. A
/// pure function of the set of samples.
Layout choose_layout(std::span<const SampledOperation> samples, const SequenceDigests& digests,
                     const clock::CoarseClocks& clocks, const GivenNames& names, const KeyRange& range,
                     bool is_whole = true);

/// Gives the arrivals of one trace rank the keys of the layout, those that it withholds withheld_key, and numbers their
/// positions anew.
void apply_layout(std::span<TraceArrival> arrivals, const Layout& layout, const KeyRange& range);

/// Names by the keys of the layout.
GivenNames apply_layout(const GivenNames& names, const Layout& layout);

/// The communicator of one operation.
struct OperationKey {
  std::int32_t trace_rank = -1;
  std::int32_t index = -1;  ///< Arrival::index
  std::uint64_t key = 0;
};

/// Operations whose own calls were not recorded, on trace ranks where other calls name communicators: such an operation
/// is of the communicator whose other members end one like it at the same time, if there is only one. Sorted by (trace
/// rank, index).
std::vector<OperationKey> name_kernels_without_call(std::span<const SampledOperation> samples,
                                                    const clock::CoarseClocks& clocks);

/// Streams of trace ranks on which no call names a communicator, while calls of other trace ranks do, as where nsys
/// lost a process's NVTX. Such a stream is of the communicator that has more members by NCCL's count than named it, if
/// in each collective both were there at one time. Only where one communicator fits, and no more streams than it lacks.
std::map<StreamPart, std::uint64_t> name_streams_without_calls(std::span<const SampledOperation> samples,
                                                               std::span<const SequenceSummary> summaries,
                                                               std::span<const Session> sessions,
                                                               const clock::CoarseClocks& clocks);

/// Gives the arrivals of one trace rank the communicators of their streams, and numbers their positions anew.
void apply_stream_names(std::span<TraceArrival> arrivals, const std::map<StreamPart, std::uint64_t>& names);

/// Gives the arrivals of one trace rank the keys of their operations, and numbers their positions anew.
void apply_operation_keys(std::span<TraceArrival> arrivals, std::span<const OperationKey> keys);

}  // namespace nsys_explain::collectives
