#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "collectives/extraction.hpp"
#include "collectives/inspector_keys.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/trace.hpp"

namespace nsys_explain::collectives {

// What tells that a record of NCCL Inspector and a kernel are one.

/// A kernel takes longer than the part of it that NCCL's plugin times, by launching and draining its blocks. What the
/// plugin tells is cut to microseconds.
inline constexpr Nanoseconds least_overhead_ns = -2'000, most_overhead_ns = 30'000;
/// Fewer say nothing: three durations agree by chance.
inline constexpr std::size_t fewest_anchors = 4;

inline bool fits_duration(const TraceArrival& arrival, const InspectorRecord& record) {
  const Nanoseconds overhead_ns = arrival.exit - arrival.enter - record.duration_ns;
  return overhead_ns >= least_overhead_ns && overhead_ns <= most_overhead_ns;
}

/// The log's time of an end minus the trace's. Both are of one host, but the plugin polls, and CUPTI converts GPU time.
struct Delay {
  Nanoseconds typical_ns = 0;
  Nanoseconds reach_ns = 5'000'000;  ///< as long as the typical delay is not known
  bool is_known() const { return reach_ns < 5'000'000; }
};

inline bool fits_time(const TraceArrival& arrival, const InspectorRecord& record, const Delay& delay) {
  if (record.end_ns != no_time) return std::abs(record.end_ns - arrival.exit.ns - delay.typical_ns) <= delay.reach_ns;
  return record.dumped_ns == no_time || arrival.exit.ns <= record.dumped_ns + delay.reach_ns;
}

/// False where a payload of the trace tells another communicator or size.
inline bool agrees_with_payload(const TraceArrival& arrival, const InspectorRecord& record) {
  if (arrival.communicator >= first_nccl_key && arrival.communicator != record.communicator) return false;
  return arrival.call_bytes < 0 || record.bytes < 0 || arrival.call_bytes == record.bytes;
}

/// Once the typical delay is known, times tell much better what belongs together. As before where few delays are known.
inline Delay learn_delay(std::vector<Nanoseconds> delays, const Delay& before) {
  if (delays.size() < fewest_anchors) return before;
  constexpr Nanoseconds polling_ns = 200'000;
  return {upper_median(delays), polling_ns};
}

/// A record and the one arrival that it fits. Indices.
struct Anchor {
  std::size_t record = 0;
  std::size_t arrival = 0;
};

/// The longest part of `anchors` (by sequence) whose arrivals never descend.
inline std::vector<Anchor> in_order(const std::vector<Anchor>& anchors) {
  constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last_of_length, before(anchors.size(), none);
  for (std::size_t i = 0; i < anchors.size(); ++i) {
    const auto place =
        std::upper_bound(last_of_length.begin(), last_of_length.end(), anchors[i].arrival,
                         [&](std::size_t arrival, std::size_t last) { return arrival < anchors[last].arrival; });
    if (place != last_of_length.begin()) before[i] = *std::prev(place);
    if (place == last_of_length.end()) {
      last_of_length.push_back(i);
    } else {
      *place = i;
    }
  }
  std::vector<Anchor> chain;
  for (std::size_t i = last_of_length.empty() ? none : last_of_length.back(); i != none; i = before[i])
    chain.push_back(anchors[i]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

/// Things of each operation in the order of a time, so that what may be one another is found without looking at all.
class OrderedByTime {
 public:
  void add(Operation operation, Nanoseconds time_ns, std::size_t index) {
    of_operation_[operation].emplace_back(time_ns, index);
  }
  void finish() {
    for (auto& [operation, entries] : of_operation_) std::sort(entries.begin(), entries.end());
  }
  /// The only accepted one of a time in [from_ns, to_ns]; nothing where there is none or another one.
  template <class Accept>
  std::optional<std::size_t> only(Operation operation, Nanoseconds from_ns, Nanoseconds to_ns,
                                  const Accept& accept) const {
    const auto entries = of_operation_.find(operation);
    if (entries == of_operation_.end()) return std::nullopt;
    std::optional<std::size_t> found;
    for (auto entry = std::lower_bound(entries->second.begin(), entries->second.end(), Entry{from_ns, 0});
         entry != entries->second.end() && entry->first <= to_ns; ++entry) {
      if (!accept(entry->second)) continue;
      if (found) return std::nullopt;
      found = entry->second;
    }
    return found;
  }

 private:
  using Entry = std::pair<Nanoseconds, std::size_t>;
  std::map<Operation, std::vector<Entry>> of_operation_;
};

using StreamKey = std::uint64_t;  ///< Arrival::communicator as extracted
using CommunicatorsOfStream = std::map<StreamKey, std::set<std::uint64_t>>;
using CoverageByCommunicator = std::map<std::uint64_t, InspectorCoverage>;

/// Communicator, peer and size for kernels of sends and receives, from NCCL Inspector's records of them (`p2p_sn`
/// counts on each process by itself, and says in which order); from logs without holes also a sequence that both ends
/// share. A kernel holds one record or, where calls were grouped, several. Where one of them is missing, was lost or
/// fits nothing, the kernels beside it keep what they are: half a kernel would name the wrong peer. Needs the times of
/// verbose logs. Which communicators the records name on each stream.
CommunicatorsOfStream apply_exchange_records(std::span<TraceArrival> arrivals, std::span<const InspectorRecord> records,
                                             Delay delay, CoverageByCommunicator& coverage);

}  // namespace nsys_explain::collectives
