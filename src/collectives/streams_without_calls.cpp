#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "clock/clock_map.hpp"
#include "collectives/layout.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {

namespace {

/// What coarse clocks are good for.
constexpr Nanoseconds coarse_ns = 20'000;

/// The collectives of one stream, or of one member of a communicator, on the coarse clock; in enter order.
struct Stream {
  std::int32_t session = -1;
  std::vector<const SampledOperation*> operations;
};

class StreamNamer {
 public:
  StreamNamer(std::span<const SampledOperation> samples, std::span<const SequenceSummary> summaries,
              std::span<const Session> sessions, const clock::CoarseClocks& clocks)
      : sessions_(sessions), clocks_(clocks) {
    std::set<std::int32_t> ranks_with_names;
    for (const SampledOperation& operation : samples)
      if (names_communicator(operation.key)) ranks_with_names.insert(operation.trace_rank);
    for (const SampledOperation& operation : samples) {
      if (operation.operation == Operation::send_recv) continue;
      if (names_communicator(operation.key)) {
        add(named_[operation.key][operation.trace_rank], operation);
      } else if (operation.key < withheld_key && !ranks_with_names.contains(operation.trace_rank)) {
        add(unnamed_[part_of(operation)], operation);
      }
    }
    for (const SequenceSummary& summary : summaries)
      size_[summary.communicator] = std::max(size_[summary.communicator], summary.communicator_size);
  }

  std::map<StreamPart, std::uint64_t> run() const {
    std::map<StreamPart, std::uint64_t> names;
    std::map<std::uint64_t, std::int32_t> found;
    for (const auto& [part, stream] : unnamed_) {
      if (const std::uint64_t key = only_communicator(stream); key != 0) {
        names[part] = key;
        ++found[key];
      }
    }
    std::erase_if(names, [&](const auto& name) { return found[name.second] > lacking(name.second); });
    return names;
  }

 private:
  static void add(Stream& stream, const SampledOperation& operation) {
    stream.session = operation.session;
    stream.operations.push_back(&operation);
  }

  /// Members that NCCL counts, and no call names.
  std::int32_t lacking(std::uint64_t key) const {
    const auto size = size_.find(key);
    return size == size_.end() ? 0 : size->second - static_cast<std::int32_t>(named_.at(key).size());
  }

  /// The communicator that the stream may be of; 0: none, or several.
  std::uint64_t only_communicator(const Stream& stream) const {
    std::uint64_t only = 0;
    for (const auto& [key, members] : named_) {
      if (lacking(key) <= 0 || !std::all_of(members.begin(), members.end(),
                                            [&](const auto& member) { return were_together(stream, member.second); }))
        continue;
      if (only != 0) return 0;
      only = key;
    }
    return only;
  }

  /// By the coarse clock, where it relates them; else sessions of one host have its UTC. That is not taken on trust:
  /// the operations confirm it, or are left alone.
  enum class Clock : std::uint8_t { none, coarse, utc };
  Clock clock_of(std::int32_t a, std::int32_t b) const {
    if (clocks_.component_of(a) == clocks_.component_of(b)) return Clock::coarse;
    const std::string& host = sessions_[static_cast<std::size_t>(a)].host;
    return !host.empty() && host == sessions_[static_cast<std::size_t>(b)].host ? Clock::utc : Clock::none;
  }

  /// Nobody leaves a collective before all have entered it. So in each of them both were there at one time, as far as
  /// both were captured.
  bool were_together(const Stream& stream, const Stream& member) const {
    constexpr std::size_t fewest = 8;  // by chance streams that do the same may overlap a few times
    const Clock clock = clock_of(stream.session, member.session);
    if (clock == Clock::none) return false;
    const auto common = [&](const SampledOperation& operation, SessionTime time) {
      return clock == Clock::coarse ? clocks_.to_common(operation.session, time) : time.ns;
    };
    std::size_t i = 0, j = 0, together = 0;
    while (i < stream.operations.size() && j < member.operations.size()) {
      const SampledOperation &a = *stream.operations[i], &b = *member.operations[j];
      const bool a_is_over = common(a, a.exit) + coarse_ns < common(b, b.enter);
      const bool b_is_over = common(b, b.exit) + coarse_ns < common(a, a.enter);
      if (a_is_over || b_is_over) {
        if (i > 0 && j > 0) return false;  // one of them has nothing there
        ++(a_is_over ? i : j);
        continue;
      }
      if (!clock::may_be_one(a.symbol, b.symbol)) return false;
      ++together;
      ++i;
      ++j;
    }
    return together >= fewest;
  }

  std::span<const Session> sessions_;
  const clock::CoarseClocks& clocks_;
  std::map<std::uint64_t, std::map<std::int32_t, Stream>> named_;  ///< by communicator and trace rank
  std::map<StreamPart, Stream> unnamed_;
  std::map<std::uint64_t, std::int32_t> size_;  ///< by NCCL's count
};

}  // namespace

std::map<StreamPart, std::uint64_t> name_streams_without_calls(std::span<const SampledOperation> samples,
                                                               std::span<const SequenceSummary> summaries,
                                                               std::span<const Session> sessions,
                                                               const clock::CoarseClocks& clocks) {
  return StreamNamer(samples, summaries, sessions, clocks).run();
}

void apply_stream_names(std::span<TraceArrival> arrivals, const std::map<StreamPart, std::uint64_t>& names) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (TraceArrival& arrival : arrivals) {
    const auto named =
        names.find({arrival.trace_rank, arrival.communicator, arrival.operation == Operation::send_recv});
    if (named != names.end()) {
      arrival.communicator = named->second;
      arrival.evidence = Evidence::order;
    }
    arrival.position = next_position[arrival.communicator]++;
  }
}

namespace {

/// Who ends how closely together on the coarse clock: what coarse clocks are good for, and what ends differ by.
Nanoseconds together_ns(const SampledOperation& operation) {
  constexpr Nanoseconds coarse_ns = 20'000;
  const auto takes_ns = static_cast<double>(operation.exit - operation.enter);
  return coarse_ns + static_cast<Nanoseconds>(end_model(operation.operation).always * takes_ns);
}

class KernelNamer {
 public:
  KernelNamer(std::span<const SampledOperation> samples, const clock::CoarseClocks& clocks)
      : samples_(samples), clocks_(clocks) {
    std::vector<const SampledOperation*> by_exit;
    for (const SampledOperation& operation : samples) by_exit.push_back(&operation);
    std::sort(by_exit.begin(), by_exit.end(), [&](const SampledOperation* a, const SampledOperation* b) {
      return std::tuple(exit_of(*a), a->trace_rank, a->index) < std::tuple(exit_of(*b), b->trace_rank, b->index);
    });
    for (const SampledOperation* operation : by_exit) {
      if (!names_communicator(operation->key)) continue;
      MemberSequence& named = named_[operation->key][operation->trace_rank];
      named.symbols.push_back(operation->symbol);
      named.enter_ns.push_back(clocks.to_common(operation->session, operation->enter));
      named.exit_ns.push_back(exit_of(*operation));
      session_[operation->trace_rank] = operation->session;
      keys_of_rank_[operation->trace_rank].insert(operation->key);
    }
  }

  std::vector<OperationKey> run() const {
    std::vector<OperationKey> keys;
    for (const SampledOperation& operation : samples_) {
      if (names_communicator(operation.key) || !operation.is_without_call) continue;
      if (const std::uint64_t key = only_communicator(operation); key != 0)
        keys.push_back({operation.trace_rank, operation.index, key});
    }
    std::sort(keys.begin(), keys.end(), [](const OperationKey& a, const OperationKey& b) {
      return std::tie(a.trace_rank, a.index) < std::tie(b.trace_rank, b.index);
    });
    return keys;
  }

 private:
  Nanoseconds exit_of(const SampledOperation& operation) const {
    return clocks_.to_common(operation.session, operation.exit);
  }

  /// The communicator whose other members end one like it together with this operation, if it is clear which; else 0.
  std::uint64_t only_communicator(const SampledOperation& operation) const {
    constexpr Nanoseconds times = 4, least_ns = 2'000;  // the next best ends so much further away
    const auto of_rank = keys_of_rank_.find(operation.trace_rank);
    if (of_rank == keys_of_rank_.end()) return 0;
    // Members of all-gathers and exchanges leave by habits that hide whom they waited for.
    if (end_model(operation.operation).always > 0 && communicators_with(operation) > 1) return 0;
    std::uint64_t best = 0;
    Nanoseconds best_ns = no_counterpart, second_ns = no_counterpart;
    for (const std::uint64_t key : of_rank->second) {
      const Nanoseconds distance_ns = distance_of_others(operation, key);
      if (distance_ns < best_ns) {
        second_ns = std::exchange(best_ns, distance_ns);
        best = key;
      } else {
        second_ns = std::min(second_ns, distance_ns);
      }
    }
    return best_ns != no_counterpart && second_ns >= times * std::max(best_ns, least_ns) ? best : 0;
  }

  /// In how many communicators of its trace rank there are operations like this.
  std::ptrdiff_t communicators_with(const SampledOperation& operation) const {
    const std::set<std::uint64_t>& keys = keys_of_rank_.at(operation.trace_rank);
    return std::count_if(keys.begin(), keys.end(), [&](std::uint64_t key) {
      return std::any_of(named_.at(key).begin(), named_.at(key).end(), [&](const auto& member) {
        const auto& symbols = member.second.symbols;
        return std::any_of(symbols.begin(), symbols.end(),
                           [&](std::uint64_t symbol) { return clock::may_be_one(symbol, operation.symbol); });
      });
    });
  }

  static constexpr Nanoseconds no_counterpart = std::numeric_limits<Nanoseconds>::max() / 8;

  /// How far the exits of others in the communicator are, in the middle; no_counterpart where most of those captured
  /// have none, or this trace rank has another operation there that is nearer.
  Nanoseconds distance_of_others(const SampledOperation& operation, std::uint64_t key) const {
    const Nanoseconds exit_ns = exit_of(operation), reach_ns = together_ns(operation);
    const auto& members = named_.at(key);
    std::size_t captured = 0;
    std::vector<Nanoseconds> distances;
    for (const auto& [trace_rank, sequence] : members) {
      if (trace_rank == operation.trace_rank) continue;
      if (clocks_.component_of(session_.at(trace_rank)) != clocks_.component_of(operation.session)) continue;
      if (exit_ns < sequence.exit_ns.front() - reach_ns || exit_ns > sequence.exit_ns.back() + reach_ns) continue;
      ++captured;
      const std::ptrdiff_t found = clock::PartnerFinder(sequence).nearest(operation.symbol, exit_ns, reach_ns);
      if (found < 0) continue;
      const Nanoseconds other_ns = sequence.exit_ns[static_cast<std::size_t>(found)];
      const auto own = members.find(operation.trace_rank);
      const bool is_taken =
          own != members.end() &&
          clock::PartnerFinder(own->second).nearest(operation.symbol, other_ns, std::abs(other_ns - exit_ns)) >= 0;
      if (!is_taken) distances.push_back(std::abs(other_ns - exit_ns));
    }
    if (distances.empty()) return no_counterpart;
    if (operation.operation != Operation::send_recv && 2 * distances.size() < captured) return no_counterpart;
    return lower_median(distances);
  }

  std::span<const SampledOperation> samples_;
  const clock::CoarseClocks& clocks_;
  std::map<std::uint64_t, std::map<std::int32_t, MemberSequence>> named_;  ///< by communicator and trace rank, by exit
  std::map<std::int32_t, std::int32_t> session_;                           ///< of trace ranks
  std::map<std::int32_t, std::set<std::uint64_t>> keys_of_rank_;
};

}  // namespace

std::vector<OperationKey> name_kernels_without_call(std::span<const SampledOperation> samples,
                                                    const clock::CoarseClocks& clocks) {
  return KernelNamer(samples, clocks).run();
}

}  // namespace nsys_explain::collectives
