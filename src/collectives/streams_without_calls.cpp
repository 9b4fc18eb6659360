#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "collectives/layout.hpp"

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
    const auto common = [&](const SampledOperation& operation, Nanoseconds t_ns) {
      return clock == Clock::coarse ? clocks_.to_common(operation.session, t_ns) : t_ns;
    };
    std::size_t i = 0, j = 0, together = 0;
    while (i < stream.operations.size() && j < member.operations.size()) {
      const SampledOperation &a = *stream.operations[i], &b = *member.operations[j];
      const bool a_is_over = common(a, a.exit_ns) + coarse_ns < common(b, b.enter_ns);
      const bool b_is_over = common(b, b.exit_ns) + coarse_ns < common(a, a.enter_ns);
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

void apply_stream_names(std::span<Arrival> arrivals, const std::map<StreamPart, std::uint64_t>& names) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (Arrival& arrival : arrivals) {
    const auto named =
        names.find({arrival.trace_rank, arrival.communicator, arrival.operation == Operation::send_recv});
    if (named != names.end()) {
      arrival.communicator = named->second;
      arrival.evidence = Evidence::order;
    }
    arrival.position = next_position[arrival.communicator]++;
  }
}

}  // namespace nsys_explain::collectives
