#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

/// Exact keys for collectives from NCCL Inspector's logs. A record tells which collective of which communicator ran,
/// how long, and roughly when it ended; which kernel that was is found by operation, duration and time, and by the
/// order that NCCL's numbers give. Nothing is guessed: where log and trace contradict each other, the trace keeps what
/// it says.
///
///   records of one communicator and operation, in their order
///     -> anchors: records that fit one kernel only, on one stream, whose order agrees with the kernels'
///     -> between two anchors as many kernels as NCCL counted: those are numbered, too, with records or without
namespace nsys_explain::collectives {

/// What the log told of one communicator on one trace rank.
struct InspectorCoverage {
  std::uint64_t communicator = 0;
  std::int64_t records = 0;
  std::int64_t keyed = 0;             ///< collectives that took communicator and sequence number from the log
  std::int64_t contradicting = 0;     ///< records that fit what the trace says in time and duration, but not otherwise
  std::int64_t exchanges = 0;         ///< records of sends and receives
  std::int64_t keyed_exchanges = 0;   ///< of these, those that told communicator and peer of their kernel
  std::int64_t exchange_kernels = 0;  ///< kernels that these records were in
  std::int64_t compared = 0;          ///< collectives of which both log and trace tell how long they took
  std::int64_t disagreeing = 0;       ///< of these, those where log and trace cannot both be right
  Nanoseconds median_difference_ns = 0, largest_difference_ns = 0;  ///< kernel minus log
};

/// Keys for the arrivals of one trace rank, in enter order with positions, as extract_arrivals leaves them. Arrivals
/// that take a key get communicator, sequence and, where unknown, bytes, with the evidence of a payload; others on a
/// stream that the log knows one communicator of get that communicator by order. Positions are numbered anew.
/// `records`: of the same process, times in trace time. Rows by communicator.
std::vector<InspectorCoverage> apply_inspector_log(std::span<TraceArrival> arrivals,
                                                   std::span<const InspectorRecord> records);

/// The table inspector_keys.
Table inspector_keys_table(const std::vector<InspectorCoverage>& coverage);

}  // namespace nsys_explain::collectives
