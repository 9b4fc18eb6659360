#include "collectives/inspector_keys.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "collectives/extraction.hpp"
#include "collectives/inspector_exchanges.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::collectives {
namespace {

class LogMatcher {
 public:
  LogMatcher(std::span<TraceArrival> arrivals, std::span<const InspectorRecord> records,
             std::span<const InspectorRecord> exchanges)
      : arrivals_(arrivals),
        records_(records),
        exchanges_(exchanges),
        log_tells_ends_(std::all_of(records.begin(), records.end(),
                                    [](const InspectorRecord& record) { return record.end_ns != no_time; })),
        key_of_(arrivals.size(), no_key) {
    group_records();
    for (std::size_t a = 0; a < arrivals.size(); ++a) {
      const Nanoseconds time_ns = log_tells_ends_ ? arrivals[a].exit.ns : arrivals[a].exit - arrivals[a].enter;
      ordered_arrivals_.add(arrivals[a].operation, time_ns, a);
    }
    for (const auto& [key, group] : groups_) {
      for (const std::size_t r : group.records)
        ordered_records_.add(records[r].operation, log_tells_ends_ ? records[r].end_ns : records[r].duration_ns, r);
    }
    ordered_arrivals_.finish();
    ordered_records_.finish();
  }

  std::vector<InspectorCoverage> run() {
    for (auto& [key, group] : groups_) find_anchors(group);
    find_delay();
    communicators_of_stream_ = apply_exchange_records(arrivals_, exchanges_, delay_, coverage_);
    for (auto& [key, group] : groups_) {
      find_anchors(group);
      count_contradictions(group);
      settle(group);
      if (!group.anchors.empty()) communicators_of_stream_[group.stream_key].insert(key.first);
    }
    for (const auto& [key, group] : groups_) number(group);
    compare_durations();
    write_keys();
    std::vector<InspectorCoverage> rows;
    for (const auto& [communicator, row] : coverage_) rows.push_back(row);
    return rows;
  }

 private:
  struct Group {
    std::vector<std::size_t> records;  ///< by sequence, each once
    std::vector<Anchor> anchors;
    StreamKey stream_key = 0;
  };
  static constexpr std::size_t no_key = static_cast<std::size_t>(-1);

  InspectorCoverage& coverage(std::uint64_t communicator) { return coverage_[communicator]; }

  void group_records() {
    for (std::size_t r = 0; r < records_.size(); ++r) {
      groups_[{records_[r].communicator, records_[r].operation}].records.push_back(r);
      InspectorCoverage& row = coverage(records_[r].communicator);
      row.communicator = records_[r].communicator;
      ++row.records;
    }
    for (auto& [key, group] : groups_) {
      const auto sequence = [&](std::size_t r) { return records_[r].sequence; };
      std::stable_sort(group.records.begin(), group.records.end(),
                       [&](std::size_t a, std::size_t b) { return sequence(a) < sequence(b); });
      // Plugins that dump the latest collective only repeat it until the next one ends.
      group.records.erase(std::unique(group.records.begin(), group.records.end(),
                                      [&](std::size_t a, std::size_t b) { return sequence(a) == sequence(b); }),
                          group.records.end());
    }
  }

  /// The only arrival that fits a record, of those that `accept` accepts.
  template <class Accept>
  std::optional<std::size_t> only_arrival(const InspectorRecord& record, const Accept& accept) const {
    Interval range{record.duration_ns + least_overhead_ns, record.duration_ns + most_overhead_ns};
    if (log_tells_ends_) {
      const Nanoseconds end_ns = record.end_ns - delay_.typical_ns;
      range = {end_ns - delay_.reach_ns, end_ns + delay_.reach_ns};
    }
    return ordered_arrivals_.only(record.operation, range.start_ns, range.end_ns, [&](std::size_t a) {
      return fits_duration(arrivals_[a], record) && fits_time(arrivals_[a], record, delay_) && accept(arrivals_[a]);
    });
  }

  bool fits_no_other_record(std::size_t arrival) const {
    const TraceArrival& a = arrivals_[arrival];
    const Nanoseconds end_ns = a.exit.ns + delay_.typical_ns, length_ns = a.exit - a.enter;
    const Interval range = log_tells_ends_ ? Interval{end_ns - delay_.reach_ns, end_ns + delay_.reach_ns}
                                           : Interval{length_ns - most_overhead_ns, length_ns - least_overhead_ns};
    return ordered_records_
        .only(a.operation, range.start_ns, range.end_ns, [&](std::size_t r) { return fits(arrival, r); })
        .has_value();
  }

  void find_anchors(Group& group) const {
    group.anchors.clear();
    for (const std::size_t r : group.records) {
      const auto fit =
          only_arrival(records_[r], [&](const TraceArrival& a) { return agrees_with_payload(a, records_[r]); });
      if (fit && fits_no_other_record(*fit)) group.anchors.push_back({r, *fit});
    }
  }

  void find_delay() {
    std::vector<Nanoseconds> delays;
    for (const auto& [key, group] : groups_) {
      for (const Anchor& anchor : group.anchors) {
        const InspectorRecord& record = records_[anchor.record];
        if (record.end_ns != no_time) delays.push_back(record.end_ns - arrivals_[anchor.arrival].exit.ns);
      }
    }
    delay_ = learn_delay(std::move(delays), delay_);
  }

  /// A record and the one kernel that ended when the log says: how long each of them says that it took.
  void compare_durations() {
    if (!log_tells_ends_ || !delay_.is_known()) return;
    std::map<std::uint64_t, std::vector<Nanoseconds>> differences;
    for (const auto& [key, group] : groups_) {
      for (const std::size_t r : group.records) {
        const InspectorRecord& record = records_[r];
        const Nanoseconds end_ns = record.end_ns - delay_.typical_ns, reach_ns = delay_.reach_ns;
        const auto arrival =
            ordered_arrivals_.only(record.operation, end_ns - reach_ns, end_ns + reach_ns,
                                   [&](std::size_t a) { return agrees_with_payload(arrivals_[a], record); });
        if (!arrival) continue;
        const TraceArrival& a = arrivals_[*arrival];
        const Nanoseconds seen_ns = a.exit.ns + delay_.typical_ns;
        const auto only = ordered_records_.only(record.operation, seen_ns - reach_ns, seen_ns + reach_ns,
                                                [](std::size_t) { return true; });
        if (only) differences[record.communicator].push_back(a.exit - a.enter - record.duration_ns);
      }
    }
    for (auto& [communicator, of] : differences) note_differences(std::move(of), coverage(communicator));
  }

  static void note_differences(std::vector<Nanoseconds> differences, InspectorCoverage& row) {
    row.compared = static_cast<std::int64_t>(differences.size());
    for (const Nanoseconds difference_ns : differences) {
      if (difference_ns < least_overhead_ns || difference_ns > most_overhead_ns) ++row.disagreeing;
      if (std::abs(difference_ns) > std::abs(row.largest_difference_ns)) row.largest_difference_ns = difference_ns;
    }
    row.median_difference_ns = lower_median(differences);
  }

  /// Records that fit a kernel in all but what the trace's payload says of it.
  void count_contradictions(const Group& group) {
    for (const std::size_t r : group.records) {
      const auto any = only_arrival(records_[r], [](const TraceArrival&) { return true; });
      if (any && !agrees_with_payload(arrivals_[*any], records_[r])) ++coverage(records_[r].communicator).contradicting;
    }
  }

  /// Anchors of one stream, in order; none where they are too few or disagree too much to be believed.
  void settle(Group& group) {
    std::map<StreamKey, std::size_t> votes;
    for (const Anchor& anchor : group.anchors) ++votes[arrivals_[anchor.arrival].communicator];
    std::size_t most = 0;
    for (const auto& [stream_key, count] : votes) {
      if (count <= most) continue;
      group.stream_key = stream_key;
      most = count;
    }
    const std::size_t all = group.anchors.size();
    std::erase_if(group.anchors,
                  [&](const Anchor& a) { return arrivals_[a.arrival].communicator != group.stream_key; });
    group.anchors = in_order(group.anchors);
    const bool is_enough = all >= std::min(fewest_anchors, group.records.size());
    if (!is_enough || 10 * group.anchors.size() < 9 * all) group.anchors.clear();
    if (is_enough) {
      coverage(records_[group.records.front()].communicator).contradicting +=
          static_cast<std::int64_t>(all - group.anchors.size());
    }
  }

  std::optional<std::size_t> record_of(const Group& group, std::int64_t sequence) const {
    const auto found = std::lower_bound(group.records.begin(), group.records.end(), sequence,
                                        [&](std::size_t r, std::int64_t s) { return records_[r].sequence < s; });
    if (found == group.records.end() || records_[*found].sequence != sequence) return std::nullopt;
    return *found;
  }

  void key(std::size_t arrival, std::uint64_t communicator, std::int64_t sequence, std::optional<std::size_t> record) {
    keys_.push_back({communicator, sequence, record ? records_[*record].bytes : -1});
    key_of_[arrival] = keys_.size() - 1;
  }

  bool fits(std::size_t arrival, std::size_t record) const {
    return fits_duration(arrivals_[arrival], records_[record]) &&
           fits_time(arrivals_[arrival], records_[record], delay_) &&
           agrees_with_payload(arrivals_[arrival], records_[record]);
  }

  /// Anchors, and what lies between them in the number that NCCL counted; beyond them what still fits its record.
  void number(const Group& group) {
    if (group.anchors.empty()) return;
    const InspectorRecord& any = records_[group.records.front()];
    const std::uint64_t communicator = any.communicator;
    for (const Anchor& anchor : group.anchors)
      key(anchor.arrival, communicator, records_[anchor.record].sequence, anchor.record);
    // Where communicators share a stream, what lies between is not all of this one.
    if (communicators_of_stream_.at(group.stream_key).size() > 1) return;
    std::vector<std::size_t> stream_key;
    for (std::size_t a = 0; a < arrivals_.size(); ++a) {
      if (arrivals_[a].communicator == group.stream_key && arrivals_[a].operation == any.operation)
        stream_key.push_back(a);
    }
    const auto place = [&](const Anchor& anchor) {
      return std::lower_bound(stream_key.begin(), stream_key.end(), anchor.arrival) - stream_key.begin();
    };
    for (std::size_t i = 1; i < group.anchors.size(); ++i) {
      fill(group, stream_key, place(group.anchors[i - 1]), place(group.anchors[i]),
           records_[group.anchors[i - 1].record].sequence, records_[group.anchors[i].record].sequence);
    }
    extend(group, stream_key, place(group.anchors.front()), records_[group.anchors.front().record].sequence, -1);
    extend(group, stream_key, place(group.anchors.back()), records_[group.anchors.back().record].sequence, 1);
  }

  void fill(const Group& group, const std::vector<std::size_t>& stream_key, std::ptrdiff_t first, std::ptrdiff_t last,
            std::int64_t first_sequence, std::int64_t last_sequence) {
    if (last - first != last_sequence - first_sequence) return;  // a kernel was lost
    const std::uint64_t communicator = records_[group.records.front()].communicator;
    const auto between = [&](const auto& use) {
      for (std::ptrdiff_t at = first + 1; at < last; ++at) {
        const std::int64_t sequence = first_sequence + (at - first);
        use(stream_key[static_cast<std::size_t>(at)], sequence, record_of(group, sequence));
      }
    };
    std::int64_t contradicting = 0;
    between([&](std::size_t arrival, std::int64_t, std::optional<std::size_t> record) {
      if (record && !fits(arrival, *record)) ++contradicting;
    });
    coverage(communicator).contradicting += contradicting;
    if (contradicting > 0) return;
    between([&](std::size_t arrival, std::int64_t sequence, std::optional<std::size_t> record) {
      key(arrival, communicator, sequence, record);
    });
  }

  void extend(const Group& group, const std::vector<std::size_t>& stream_key, std::ptrdiff_t at, std::int64_t sequence,
              int direction) {
    while (true) {
      at += direction;
      sequence += direction;
      if (at < 0 || at >= static_cast<std::ptrdiff_t>(stream_key.size())) return;
      const auto record = record_of(group, sequence);
      const std::size_t arrival = stream_key[static_cast<std::size_t>(at)];
      if (!record || !fits(arrival, *record)) return;
      key(arrival, records_[*record].communicator, sequence, record);
    }
  }

  void write_keys() {
    std::map<std::uint64_t, std::int32_t> next_position;
    for (std::size_t a = 0; a < arrivals_.size(); ++a) {
      TraceArrival& arrival = arrivals_[a];
      const auto stream_key = communicators_of_stream_.find(arrival.communicator);
      if (key_of_[a] != no_key) {
        const Key& found = keys_[key_of_[a]];
        arrival.communicator = found.communicator;
        arrival.sequence = found.sequence;
        if (arrival.call_bytes < 0) arrival.call_bytes = found.bytes;
        arrival.evidence = Evidence::nccl_payload;
        ++coverage(found.communicator).keyed;
      } else if (arrival.communicator < first_nccl_key && stream_key != communicators_of_stream_.end() &&
                 stream_key->second.size() == 1) {
        arrival.communicator = *stream_key->second.begin();
        arrival.evidence = Evidence::order;
      }
      arrival.position = next_position[arrival.communicator]++;
    }
  }

  struct Key {
    std::uint64_t communicator = 0;
    std::int64_t sequence = -1;
    std::int64_t bytes = -1;
  };

  std::span<TraceArrival> arrivals_;
  std::span<const InspectorRecord> records_, exchanges_;
  bool log_tells_ends_;
  Delay delay_;
  OrderedByTime ordered_arrivals_, ordered_records_;  ///< by end where the log tells it, else by duration
  std::map<std::pair<std::uint64_t, Operation>, Group> groups_;
  CommunicatorsOfStream communicators_of_stream_;
  std::vector<Key> keys_;
  std::vector<std::size_t> key_of_;  ///< by arrival: index into keys_
  CoverageByCommunicator coverage_;
};

}  // namespace

std::vector<InspectorCoverage> apply_inspector_log(std::span<TraceArrival> arrivals,
                                                   std::span<const InspectorRecord> records) {
  if (records.empty()) return {};
  std::vector<InspectorRecord> sorted(records.begin(), records.end());
  const auto exchanges = std::stable_partition(sorted.begin(), sorted.end(), [](const InspectorRecord& record) {
    return record.operation != Operation::send_recv;
  });
  const std::span all(sorted);
  const auto collectives = static_cast<std::size_t>(exchanges - sorted.begin());
  return LogMatcher(arrivals, all.first(collectives), all.subspan(collectives)).run();
}

Table inspector_keys_table(const std::vector<InspectorCoverage>& coverage) {
  Table table = make_table(
      {"inspector_keys",
       "what NCCL Inspector's logs told of the collectives of each communicator",
       {{"communicator", ColumnKind::text, "", "NCCL's hash of the communicator"},
        {"records", ColumnKind::integer, "", "collectives that the log of this trace rank holds"},
        {"keyed", ColumnKind::integer, "", "collectives that took communicator and sequence number from the log"},
        {"contradicting", ColumnKind::integer, "", "records that contradict the trace: no key was taken from them"},
        {"exchanges", ColumnKind::integer, "", "sends and receives that the log of this trace rank holds"},
        {"keyed_exchanges", ColumnKind::integer, "",
         "sends and receives that told communicator and peer of their kernel"},
        {"compared", ColumnKind::integer, "", "collectives of which log and trace both tell how long they took"},
        {"disagreeing", ColumnKind::integer, "",
         "of these, those where the kernel is more than 2 us shorter, or 30 us longer, than the log says"},
        {"median_difference_ns", ColumnKind::integer, "ns", "duration of the kernel minus that of the log, median"},
        {"largest_difference_ns", ColumnKind::integer, "ns", "the largest such difference, of either sign"}}});
  RowWriter row(table);
  for (const InspectorCoverage& c : coverage)
    row << std::string_view(fmt::format("{:#018x}", c.communicator)) << c.records << c.keyed << c.contradicting
        << c.exchanges << c.keyed_exchanges << c.compared << c.disagreeing << c.median_difference_ns
        << c.largest_difference_ns;
  return table;
}

}  // namespace nsys_explain::collectives
