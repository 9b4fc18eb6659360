#include "collectives/inspector_exchanges.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "collectives/extraction.hpp"

namespace nsys_explain::collectives {
namespace {

/// What the records of one kernel say together.
struct ExchangeKey {
  std::set<std::int32_t> peers;
  std::int64_t records = 0, sends = 0, sent_bytes = 0;
  std::int64_t number = -1;  ///< of the first message to the member of higher rank, else of the first to the lower
};

class ExchangeMatcher {
 public:
  ExchangeMatcher(std::span<TraceArrival> arrivals, std::span<const InspectorRecord> records, Delay delay,
                  CoverageByCommunicator& coverage)
      : arrivals_(arrivals),
        records_(records),
        delay_(delay),
        coverage_(coverage),
        is_unsure_(arrivals.size(), false),
        number_of_(records.size(), -1) {
    for (std::size_t a = 0; a < arrivals.size(); ++a) {
      if (arrivals[a].operation == Operation::send_recv) on_stream_[arrivals[a].communicator].push_back(a);
    }
    for (std::size_t r = 0; r < records.size(); ++r) {
      of_communicator_[records[r].communicator].push_back(r);
      InspectorCoverage& row = coverage_[records[r].communicator];
      row.communicator = records[r].communicator;
      ++row.exchanges;
    }
    for (auto& [communicator, of] : of_communicator_) {
      std::stable_sort(of.begin(), of.end(),
                       [&](std::size_t a, std::size_t b) { return records[a].sequence < records[b].sequence; });
      of.erase(std::unique(of.begin(), of.end(),
                           [&](std::size_t a, std::size_t b) { return records[a].sequence == records[b].sequence; }),
               of.end());
      number_messages(of);
    }
  }

  CommunicatorsOfStream run() {
    if (!delay_.is_known()) find_delay();
    for (const auto& [communicator, of] : of_communicator_) {
      const std::vector<Anchor> anchors = find_anchors(of);
      mark_unsure(of, anchors);
      write(communicator, anchors);
    }
    return std::move(communicators_of_stream_);
  }

 private:
  /// The k-th message of one member to another is the k-th that the other receives, so that both ends know its number:
  /// twice k, and one more for those to the lower rank. Where the log lacks a record no number is known from there on.
  void number_messages(const std::vector<std::size_t>& of) {
    std::map<std::pair<std::int32_t, bool>, std::int64_t> next;  // by peer and whether it is to the higher rank
    std::int64_t expected = 1;                                   // NCCL counts from 1
    for (const std::size_t r : of) {
      const InspectorRecord& record = records_[r];
      if (record.sequence != expected++) return;
      const bool is_up = (record.directions == Directions::sends) == (record.rank < record.peer);
      number_of_[r] = 2 * next[{record.peer, is_up}]++ + (is_up ? 0 : 1);
    }
  }

  /// The kernels of a stream that may hold a record; on a stream they do not overlap.
  template <class Visit>
  void for_each_near(const InspectorRecord& record, const Visit& visit) const {
    const Nanoseconds end_ns = record.end_ns - delay_.typical_ns;
    for (const auto& [stream_key, on_stream] : on_stream_) {
      auto near = std::partition_point(on_stream.begin(), on_stream.end(),
                                       [&](std::size_t a) { return arrivals_[a].exit.ns < end_ns - delay_.reach_ns; });
      for (; near != on_stream.end() && arrivals_[*near].enter.ns <= end_ns + delay_.reach_ns; ++near) visit(*near);
    }
  }

  /// True where the record may be a part of the kernel: of calls in a group some are done before the others.
  bool holds(const TraceArrival& arrival, const InspectorRecord& record) const {
    const Nanoseconds end_ns = record.end_ns - delay_.typical_ns;
    return arrival.exit - arrival.enter - record.duration_ns >= least_overhead_ns &&
           end_ns - record.duration_ns >= arrival.enter.ns - delay_.reach_ns;
  }

  /// The only kernel that is as long as the record and ends with it; else the only one that may hold it.
  std::optional<std::size_t> only_arrival(const InspectorRecord& record) const {
    std::vector<std::size_t> alike, holding;
    for_each_near(record, [&](std::size_t a) {
      if (!holds(arrivals_[a], record)) return;
      holding.push_back(a);
      if (fits_duration(arrivals_[a], record) && fits_time(arrivals_[a], record, delay_)) alike.push_back(a);
    });
    const std::vector<std::size_t>& found = alike.empty() ? holding : alike;
    return found.size() == 1 ? std::optional(found.front()) : std::nullopt;
  }

  void find_delay() {
    std::vector<Nanoseconds> delays;
    for (const InspectorRecord& record : records_) {
      if (record.end_ns == no_time) continue;
      const auto fit = only_arrival(record);
      if (fit && fits_duration(arrivals_[*fit], record)) delays.push_back(record.end_ns - arrivals_[*fit].exit.ns);
    }
    delay_ = learn_delay(std::move(delays), delay_);
  }

  /// Records in kernels whose order is theirs; none where those that are not in order, or fit none, are too many.
  std::vector<Anchor> find_anchors(const std::vector<std::size_t>& of) {
    std::vector<Anchor> all;
    for (const std::size_t r : of) {
      if (records_[r].end_ns == no_time) continue;
      if (const auto fit = only_arrival(records_[r])) all.push_back({r, *fit});
    }
    std::vector<Anchor> anchors = in_order(all);
    if (all.size() < std::min(fewest_anchors, of.size())) return {};
    coverage_[records_[of.front()].communicator].contradicting +=
        static_cast<std::int64_t>(all.size() - anchors.size());
    if (10 * anchors.size() < 9 * all.size()) anchors.clear();
    return anchors;
  }

  /// Kernels that may hold a record more: one that is in no kernel, or, beside a hole of the log, one that is not
  /// there.
  void mark_unsure(const std::vector<std::size_t>& of, const std::vector<Anchor>& anchors) {
    std::map<std::size_t, std::size_t> kernel_of;  // by record
    for (const Anchor& anchor : anchors) kernel_of[anchor.record] = anchor.arrival;
    const auto mark = [&](std::size_t r) {
      if (const auto found = kernel_of.find(r); found != kernel_of.end()) is_unsure_[found->second] = true;
    };
    for (std::size_t i = 0; i < of.size(); ++i) {
      const InspectorRecord& record = records_[of[i]];
      const std::int64_t before = i == 0 ? 0 : records_[of[i - 1]].sequence;  // NCCL counts from 1
      if (record.sequence > before + 1) {
        mark(of[i]);
        if (i > 0) mark(of[i - 1]);
      }
      if (kernel_of.contains(of[i])) continue;
      if (record.end_ns == no_time) {
        if (i > 0) mark(of[i - 1]);
        if (i + 1 < of.size()) mark(of[i + 1]);
        continue;
      }
      for_each_near(record, [&](std::size_t a) { is_unsure_[a] = is_unsure_[a] || holds(arrivals_[a], record); });
    }
  }

  void write(std::uint64_t communicator, const std::vector<Anchor>& anchors) {
    std::map<std::size_t, ExchangeKey> keys;
    for (const Anchor& anchor : anchors) {
      const InspectorRecord& record = records_[anchor.record];
      communicators_of_stream_[arrivals_[anchor.arrival].communicator].insert(communicator);
      if (is_unsure_[anchor.arrival]) continue;
      ExchangeKey& key = keys[anchor.arrival];
      key.peers.insert(record.peer);
      ++key.records;
      const std::int64_t number = number_of_[anchor.record];
      const bool is_better = key.number < 0 || std::pair(number % 2, number) < std::pair(key.number % 2, key.number);
      if (number >= 0 && is_better) key.number = number;
      if (record.directions != Directions::sends) continue;
      ++key.sends;
      key.sent_bytes += record.bytes;
    }
    InspectorCoverage& row = coverage_[communicator];
    for (const auto& [a, key] : keys) {
      const bool is_taken = take(arrivals_[a], communicator, key);
      row.exchange_kernels += is_taken ? 1 : 0;
      (is_taken ? row.keyed_exchanges : row.contradicting) += key.records;
    }
  }

  /// False where a payload of the trace says otherwise.
  static bool take(TraceArrival& arrival, std::uint64_t communicator, const ExchangeKey& key) {
    const std::int32_t peer = key.peers.size() == 1 ? *key.peers.begin() : several_peers;
    if (arrival.communicator >= first_nccl_key && arrival.communicator != communicator) return false;
    if (arrival.peer_or_root != -1 && arrival.peer_or_root != peer) return false;
    arrival.communicator = communicator;
    arrival.peer_or_root = peer;
    arrival.evidence = Evidence::nccl_payload;
    if (peer != several_peers) arrival.sequence = key.number;
    if (arrival.directions == Directions::unknown) {
      arrival.directions = key.sends == 0             ? Directions::receives
                           : key.sends == key.records ? Directions::sends
                                                      : Directions::both;
    }
    if (arrival.call_bytes < 0 && key.sends > 0) arrival.call_bytes = key.sent_bytes;
    return true;
  }

  std::span<TraceArrival> arrivals_;
  std::span<const InspectorRecord> records_;
  Delay delay_;
  CoverageByCommunicator& coverage_;
  std::vector<bool> is_unsure_;                                        ///< by arrival
  std::vector<std::int64_t> number_of_;                                ///< by record; -1: not known
  std::map<StreamKey, std::vector<std::size_t>> on_stream_;            ///< kernels of sends and receives
  std::map<std::uint64_t, std::vector<std::size_t>> of_communicator_;  ///< records, in NCCL's order
  CommunicatorsOfStream communicators_of_stream_;
};

}  // namespace

CommunicatorsOfStream apply_exchange_records(std::span<TraceArrival> arrivals, std::span<const InspectorRecord> records,
                                             Delay delay, CoverageByCommunicator& coverage) {
  if (records.empty()) return {};
  return ExchangeMatcher(arrivals, records, delay, coverage).run();
}

}  // namespace nsys_explain::collectives
