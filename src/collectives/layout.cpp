#include "collectives/layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "collectives/block_selection.hpp"
#include "collectives/exchange_links.hpp"
#include "collectives/stream_table.hpp"
#include "model/hash.hpp"
#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// Chooses communicators: of collectives table by table, then of sends and receives.
class LayoutChooser {
 public:
  /// `may_share`: a key may stand for several communicators, as a stream does. `is_whole`: all ranks were captured.
  LayoutChooser(std::vector<StreamSequence> streams, std::uint64_t first_new, bool may_share, bool is_whole)
      : next_key_(first_new), may_share_(may_share), is_whole_(is_whole) {
    for (StreamSequence& stream : streams)
      (stream.part.exchanges ? exchanges_ : collectives_).push_back(std::move(stream));
  }

  Layout run() {
    for_each_table(collectives_, [this](const StreamTable& table) {
      const Conflict conflict = conflict_between(collectives_, table);
      return assign(
          collectives_, table,
          must_be_one(table, conflict) ? all_members(table) : select_blocks(synchronising_rows(table), conflict), 2,
          false);
    });
    if (may_share_ && !may_connect_all()) return {};
    for (const auto& [key, parts] : members_of_keys()) choose_all_to_all_within(key, parts);
    const std::vector<StreamSequence> unlinked = link_exchanging();
    for_each_table(unlinked, [&](const StreamTable& table) {
      return assign(unlinked, table, select_blocks(table, conflict_between(unlinked, table)), 3, true);
    });
    if (may_share_) withhold_shared();
    return std::move(layout_);
  }

 private:
  static constexpr std::uint64_t no_key = withheld_key + 1;

  static Conflict conflict_between(const std::vector<StreamSequence>& streams, const StreamTable& table) {
    return [&streams, &table](std::size_t a, std::size_t b) {
      const StreamSequence &x = streams[table.streams[a]], &y = streams[table.streams[b]];
      return x.part.trace_rank == y.part.trace_rank || (!x.name.empty() && !y.name.empty() && x.name != y.name);
    };
  }

  static BlockSelection all_members(const StreamTable& table) {
    std::vector<std::size_t> members(table.members());
    std::iota(members.begin(), members.end(), std::size_t{0});
    return {.blocks = {members}, .undecided = {}};
  }

  /// A communicator has two members at least: two or three that nobody else is like are one.
  bool must_be_one(const StreamTable& table, const Conflict& conflict) const {
    if (!is_whole_ || table.members() < 2 || table.members() > 3) return false;
    for (std::size_t m = 1; m < table.members(); ++m) {
      for (std::size_t n = 0; n < m; ++n)
        if (conflict(m, n)) return false;
    }
    const auto& kinds = collectives_[table.streams.front()].kinds;
    const auto alike = std::count_if(collectives_.begin(), collectives_.end(),
                                     [&](const StreamSequence& stream) { return stream.kinds == kinds; });
    return table.is_equal ? alike == static_cast<std::ptrdiff_t>(table.members()) : trace_ranks() == table.members();
  }

  std::size_t trace_ranks() const {
    std::set<std::int32_t> ranks;
    for (const auto* streams : {&collectives_, &exchanges_})
      for (const StreamSequence& stream : *streams) ranks.insert(stream.part.trace_rank);
    return ranks.size();
  }

  static StreamTable synchronising_rows(const StreamTable& table) {
    std::vector<std::size_t> rows;
    for (std::size_t k = 0; k < table.rows(); ++k) {
      if (end_model(table.operations[k]).may_end_together()) rows.push_back(k);
    }
    return table.with_rows(rows);
  }

  /// Calls `choose(table)`, which returns the streams that it has decided on, until none is left. Who found no place
  /// beside one reference may find one beside another, unless the table holds equal sequences and so all there are.
  /// Where it is not clear who did the same, the true partners of a member may be missing: nothing is chosen.
  template <typename Choose>
  static void for_each_table(const std::vector<StreamSequence>& streams, const Choose& choose) {
    std::vector<std::size_t> waiting = by_length(streams);
    while (!waiting.empty()) {
      const StreamTable table = stream_table(streams, waiting.front(), waiting);
      std::set<std::size_t> done{waiting.front()};
      if (table.unclear.empty()) done.merge(choose(table));
      if (table.is_equal || !table.unclear.empty()) done.insert(table.streams.begin(), table.streams.end());
      done.insert(table.unclear.begin(), table.unclear.end());
      std::erase_if(waiting, [&](std::size_t s) { return done.contains(s); });
    }
  }

  /// Blocks of at least so many members are communicators. Returns the streams that are decided on.
  std::set<std::size_t> assign(const std::vector<StreamSequence>& streams, const StreamTable& table,
                               const BlockSelection& found, std::size_t fewest, bool meets_several) {
    std::set<std::size_t> decided;
    for (const std::vector<std::size_t>& members : found.undecided)
      for (const std::size_t member : members) decided.insert(table.streams[member]);
    for (const std::vector<std::size_t>& block : found.blocks) {
      if (block.size() < fewest) continue;
      std::vector<StreamPart> parts;
      for (const std::size_t member : block) {
        parts.push_back(streams[table.streams[member]].part);
        decided.insert(table.streams[member]);
      }
      const std::uint64_t key = meets_several ? key_of_exchanging(parts) : next_key_++;
      if (key == withheld_key) continue;
      for (const StreamPart& part : parts) layout_[part] = {key, meets_several};
    }
    return decided;
  }

  /// All ranks of a job work together. Where what was found, and all streams that are still open, cannot connect them,
  /// what connects them runs on the streams found: several communicators share them.
  bool may_connect_all() const {
    std::map<std::uint64_t, std::set<std::int32_t>> ranks_of;  // by communicator; all that is open under one key
    std::map<std::int32_t, std::int32_t> group;
    for (const auto* streams : {&collectives_, &exchanges_}) {
      for (const StreamSequence& stream : *streams) {
        const StreamPart part{stream.part.trace_rank, stream.part.key, false};
        const auto found = layout_.find(part);
        ranks_of[found == layout_.end() ? withheld_key : found->second.key].insert(part.trace_rank);
        group[part.trace_rank] = part.trace_rank;
      }
    }
    std::size_t groups = group.size();
    for (const auto& [key, ranks] : ranks_of) {
      for (const std::int32_t rank : ranks) {
        const std::int32_t joined = group.at(*ranks.begin()), joining = group.at(rank);
        if (joined == joining) continue;
        --groups;
        for (auto& [other, of_other] : group) of_other = of_other == joining ? joined : of_other;
      }
    }
    return groups <= 1;
  }

  /// A stream whose exchanges are not of the communicator of its collectives carries several, and so may those of the
  /// other members.
  void withhold_shared() {
    std::set<std::uint64_t> shared;
    for (const StreamSequence& stream : exchanges_) {
      const auto collective = layout_.find({stream.part.trace_rank, stream.part.key, false});
      if (collective == layout_.end()) continue;
      const auto exchange = layout_.find(stream.part);
      if (exchange == layout_.end() || exchange->second.key != collective->second.key)
        shared.insert(collective->second.key);
    }
    std::erase_if(layout_, [&](const auto& entry) { return shared.contains(entry.second.key); });
  }

  /// Of those that exchange among each other: that of their collectives, if they are one communicator in these, or one
  /// of their own where their streams carry no collectives. Else several communicators share the streams.
  std::uint64_t key_of_exchanging(std::span<const StreamPart> parts) {
    std::set<std::uint64_t> keys;
    for (StreamPart part : parts) {
      part.exchanges = false;
      const bool is_alone = std::none_of(collectives_.begin(), collectives_.end(),
                                         [&](const StreamSequence& stream) { return stream.part == part; });
      const auto found = layout_.find(part);
      keys.insert(is_alone ? no_key : found == layout_.end() ? withheld_key : found->second.key);
    }
    if (keys.size() > 1) return withheld_key;
    return *keys.begin() == no_key ? next_key_++ : *keys.begin();
  }

  /// Streams whose sends and receives are linked two by two are one communicator, as the stages of a pipeline are.
  /// Returns those that are linked to none.
  std::vector<StreamSequence> link_exchanging() {
    std::map<std::int32_t, std::vector<const StreamSequence*>> of_component;
    for (const StreamSequence& stream : exchanges_)
      if (!layout_.contains(stream.part)) of_component[stream.component].push_back(&stream);
    std::vector<StreamSequence> unlinked;
    for (const auto& [component, streams] : of_component) {
      std::vector<MemberExchanges> members;
      for (const StreamSequence* stream : streams)
        members.push_back({stream->sequence.enter_ns, stream->sequence.exit_ns});
      const auto [links, pairs] = link_exchanges(members);
      std::vector<std::size_t> explained(members.size(), 0);
      for (const LinkedPair& pair : pairs) {
        ++explained[pair.a];
        ++explained[pair.b];
      }
      std::vector<std::size_t> group(members.size());
      std::iota(group.begin(), group.end(), std::size_t{0});
      for (const ExchangeLink& link : links) {
        const auto [lower, upper] = std::minmax(group[link.a], group[link.b]);
        std::replace(group.begin(), group.end(), std::size_t{upper}, std::size_t{lower});
      }
      std::map<std::size_t, std::size_t> links_of_group;
      std::set<std::size_t> may_be_in_step;
      for (const ExchangeLink& link : links) {
        ++links_of_group[group[link.a]];
        if (!link.waited) may_be_in_step.insert(group[link.a]);
      }
      std::map<std::size_t, std::vector<StreamPart>> groups;
      for (std::size_t m = 0; m < group.size(); ++m) groups[group[m]].push_back(streams[m]->part);
      for (const auto& [first, linked] : groups) {
        if (linked.size() < 2) {
          unlinked.push_back(*streams[first]);
          continue;
        }
        // The stages of a pipeline are a chain; where links close a ring, several communicators share the streams.
        if (links_of_group[first] >= linked.size() || may_be_in_step.contains(first)) continue;
        // So do they where the links explain only part of what members do.
        constexpr double least_explained = 0.7;  // captures are ragged, and some records are lost
        bool is_explained = true;
        for (std::size_t m = 0; m < group.size(); ++m) {
          is_explained = is_explained &&
                         (group[m] != first || static_cast<double>(explained[m]) >=
                                                   least_explained * static_cast<double>(members[m].exit_ns.size()));
        }
        if (!is_explained) continue;
        const std::uint64_t key = key_of_exchanging(linked);
        if (key == withheld_key) continue;
        for (const StreamPart& part : linked) layout_[part] = {key, false};
      }
    }
    return unlinked;
  }

  std::map<std::uint64_t, std::set<StreamPart>> members_of_keys() const {
    std::map<std::uint64_t, std::set<StreamPart>> members;
    for (const auto& [key, role] : layout_) members[role.key].insert({key.trace_rank, key.key, true});
    return members;
  }

  /// Sends and receives of three members and more of one communicator that all leave as one are theirs; two that do may
  /// each have met somebody else.
  void choose_all_to_all_within(std::uint64_t key, const std::set<StreamPart>& parts) {
    std::vector<StreamSequence> of_parts;
    std::copy_if(exchanges_.begin(), exchanges_.end(), std::back_inserter(of_parts),
                 [&](const StreamSequence& stream) { return parts.contains(stream.part); });
    if (is_whole_ && of_parts.size() == 2 && trace_ranks() == 2) {
      for (const StreamSequence& stream : of_parts) layout_[stream.part] = {key, false};
    }
    if (of_parts.size() < 3 || of_parts.size() < parts.size()) return;
    const std::vector<std::size_t> order = by_length(of_parts);
    const StreamTable table = stream_table(of_parts, order.front(), order);
    if (table.members() < of_parts.size()) return;
    const BlockSelection found = select_blocks(table, conflict_between(of_parts, table));
    if (found.blocks.size() != 1 || !found.undecided.empty()) return;
    for (const StreamSequence& stream : of_parts) layout_[stream.part] = {key, true};
  }

  std::vector<StreamSequence> collectives_, exchanges_;
  std::uint64_t next_key_ = 0;
  bool may_share_ = false, is_whole_ = false;
  Layout layout_;
};

void number_positions(std::span<TraceArrival> arrivals) {
  std::map<std::uint64_t, std::int32_t> next_position;
  for (TraceArrival& arrival : arrivals) arrival.position = next_position[arrival.communicator]++;
}

}  // namespace

StreamPart part_of(const SampledOperation& operation) {
  return {operation.trace_rank, operation.key, operation.operation == Operation::send_recv};
}

std::vector<SampledOperation> sample_streams(std::span<const TraceArrival> arrivals, const clock::TraceClock& clock,
                                             std::int32_t session, SessionTime centre_time, std::size_t per_key) {
  struct Counted {
    const TraceArrival* arrival;
    std::int32_t position;
  };
  std::map<std::uint64_t, std::vector<Counted>> keys;
  std::map<std::pair<std::uint64_t, bool>, std::int32_t> next_position;
  for (const TraceArrival& arrival : arrivals)
    keys[arrival.communicator].push_back(
        {&arrival, next_position[{arrival.communicator, arrival.operation == Operation::send_recv}]++});
  std::vector<SampledOperation> samples;
  for (const auto& [key, all] : keys) {
    const auto later = std::partition_point(all.begin(), all.end(), [&](const Counted& one) {
      return clock.session_time(one.arrival->enter) < centre_time;
    });
    const auto centre = static_cast<std::size_t>(later - all.begin());
    const std::size_t wanted = std::min(per_key, all.size());
    const std::size_t first = std::min(centre - std::min(centre, wanted / 2), all.size() - wanted);
    for (const auto& [arrival, position] : std::span(all).subspan(first, wanted)) {
      samples.push_back({.enter = clock.session_time(arrival->enter),
                         .exit = clock.session_time(arrival->exit),
                         .symbol = arrival_symbol(*arrival),
                         .key = key,
                         .trace_rank = arrival->trace_rank,
                         .session = session,
                         .index = arrival->index,
                         .position = position,
                         .operation = arrival->operation,
                         // The calls of what a graph replays were due when the graph was made.
                         .is_without_call = arrival->evidence == Evidence::kernel_name &&
                                            arrival->timing_source != TimingSource::graph_node});
    }
  }
  return samples;
}

SequenceDigests digests_of(std::span<const SequenceSummary> summaries) {
  SequenceDigests digests;
  for (const SequenceSummary& summary : summaries) {
    digests[{summary.trace_rank, summary.communicator, false}] =
        summary.collectives_hash ^ (static_cast<std::uint64_t>(summary.collectives) * golden_ratio);
    digests[{summary.trace_rank, summary.communicator, true}] =
        summary.symbols_hash ^ (static_cast<std::uint64_t>(summary.arrivals) * golden_ratio);
  }
  return digests;
}

std::vector<clock::RecordedSequence> recorded_sequences(std::span<const SampledOperation> samples,
                                                        const SequenceDigests& digests) {
  std::map<StreamPart, std::vector<const SampledOperation*>> of_part;
  for (const SampledOperation& operation : samples) of_part[part_of(operation)].push_back(&operation);
  std::vector<clock::RecordedSequence> sequences;
  for (auto& [part, operations] : of_part) {
    clock::RecordedSequence& sequence = sequences.emplace_back();
    sequence.trace_rank = part.trace_rank;
    sequence.session = operations.front()->session;
    sequence.communicator = names_communicator(part.key) ? part.key : 0;
    if (const auto digest = digests.find(part); digest != digests.end()) sequence.digest = digest->second;
    std::sort(operations.begin(), operations.end(), [](const SampledOperation* a, const SampledOperation* b) {
      return std::tie(a->exit, a->index) < std::tie(b->exit, b->index);
    });
    for (const SampledOperation* operation : operations) {
      sequence.positions.push_back(operation->position);
      sequence.operations.symbols.push_back(operation->symbol);
      sequence.operations.enter_ns.push_back(operation->enter.ns);
      sequence.operations.exit_ns.push_back(operation->exit.ns);
    }
  }
  return sequences;
}

Layout choose_layout(std::span<const SampledOperation> samples, const SequenceDigests& digests,
                     const clock::CoarseClocks& clocks, const GivenNames& names, const KeyRange& range, bool is_whole) {
  const bool is_named =
      std::any_of(samples.begin(), samples.end(), [&](const SampledOperation& o) { return o.key >= range.end; });
  const bool may_share = range.first < first_category_key && !is_named;
  return LayoutChooser(stream_sequences(samples, digests, clocks, names, range), range.first_new, may_share, is_whole)
      .run();
}

void apply_layout(std::span<TraceArrival> arrivals, const Layout& layout, const KeyRange& range) {
  for (TraceArrival& arrival : arrivals) {
    if (arrival.communicator < range.first || arrival.communicator >= range.end) continue;
    const StreamPart part{arrival.trace_rank, arrival.communicator, arrival.operation == Operation::send_recv};
    const auto found = layout.find(part);
    arrival.communicator = found == layout.end() ? withheld_key : found->second.key;
    if (found != layout.end() && found->second.meets_several && is_pair_exchange(arrival))
      arrival.peer_or_root = several_peers;
  }
  number_positions(arrivals);
}

GivenNames apply_layout(const GivenNames& names, const Layout& layout) {
  GivenNames result;
  for (const auto& [named, name] : names) {
    auto found = layout.find({named.first, named.second, false});
    if (found == layout.end()) found = layout.find({named.first, named.second, true});
    result[{named.first, found == layout.end() ? named.second : found->second.key}] = name;
  }
  return result;
}

void apply_operation_keys(std::span<TraceArrival> arrivals, std::span<const OperationKey> keys) {
  for (TraceArrival& arrival : arrivals) {
    const std::tuple wanted(arrival.trace_rank, arrival.index);
    const auto found = std::lower_bound(keys.begin(), keys.end(), wanted, [](const OperationKey& k, const auto& w) {
      return std::tie(k.trace_rank, k.index) < w;
    });
    if (found == keys.end() || std::tie(found->trace_rank, found->index) != wanted) continue;
    arrival.communicator = found->key;
    if (names_communicator(found->key)) arrival.evidence = Evidence::order;
  }
  number_positions(arrivals);
}

}  // namespace nsys_explain::collectives
