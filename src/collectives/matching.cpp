#include "nsys_explain/collectives/matching.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace nsys_explain::collectives {
namespace {

/// Positions per unit: large enough that headers do not matter, small enough that one long communicator spreads over
/// all tool ranks.
constexpr std::int64_t positions_per_unit = 1024;

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  // splitmix64's finaliser over the running hash: order matters, all bits spread.
  std::uint64_t z = hash + 0x9e3779b97f4a7c15ULL + value;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// In these operations members may pass different sizes or peers.
bool members_differ(Operation operation) {
  return operation == Operation::send_recv || operation == Operation::all_to_all || operation == Operation::gather ||
         operation == Operation::scatter || operation == Operation::unknown;
}

Nanoseconds lower_median(std::vector<Nanoseconds>& values) {
  const auto middle = values.begin() + (static_cast<std::ptrdiff_t>(values.size()) - 1) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

PlannedCommunicator make_communicator(std::uint64_t key, std::span<const SequenceSummary> members) {
  PlannedCommunicator communicator;
  communicator.source_key = key;
  communicator.evidence = Evidence::nccl_payload;
  for (const SequenceSummary& member : members) {
    communicator.trace_ranks.push_back(member.trace_rank);
    communicator.lengths.push_back(member.arrivals);
    communicator.size = std::max(communicator.size, member.communicator_size);
    communicator.evidence = std::max(communicator.evidence, member.evidence);
    communicator.equal_sequences = communicator.equal_sequences && member.arrivals == members.front().arrivals &&
                                   member.symbols_hash == members.front().symbols_hash;
  }
  communicator.size = std::max(communicator.size, static_cast<std::int32_t>(members.size()));
  return communicator;
}

/// Sequence number of every arrival of a unit whose members hold different sequences.
std::vector<std::int64_t> aligned_sequence(const PlannedCommunicator& communicator, std::span<const Arrival> arrivals,
                                           const AlignmentOptions& alignment) {
  std::vector<MemberSequence> members(communicator.trace_ranks.size());
  std::vector<std::pair<std::size_t, std::size_t>> place(arrivals.size());
  for (std::size_t a = 0; a < arrivals.size(); ++a) {
    const auto rank =
        std::lower_bound(communicator.trace_ranks.begin(), communicator.trace_ranks.end(), arrivals[a].trace_rank);
    const auto m = static_cast<std::size_t>(rank - communicator.trace_ranks.begin());
    place[a] = {m, members[m].symbols.size()};
    members[m].symbols.push_back(arrival_symbol(arrivals[a]));
    members[m].enter_ns.push_back(arrivals[a].enter_ns);
    members[m].exit_ns.push_back(arrivals[a].exit_ns);
  }
  const auto numbers = align_sequences(members, alignment);
  std::vector<std::int64_t> sequence(arrivals.size());
  for (std::size_t a = 0; a < arrivals.size(); ++a) sequence[a] = numbers[place[a].first][place[a].second];
  return sequence;
}

Instance make_instance(const PlannedCommunicator& communicator, std::int64_t sequence,
                       std::span<const Arrival> members) {
  Instance instance;
  instance.sequence = sequence;
  instance.members = communicator.size;
  instance.arrivals = static_cast<std::int32_t>(members.size());
  instance.complete = instance.arrivals == communicator.size;
  instance.operation = members.front().operation;
  instance.kernel_name_hash = members.front().kernel_name_hash;
  std::vector<Nanoseconds> call_bytes;
  for (const Arrival& member : members) {
    if (member.call_bytes >= 0) call_bytes.push_back(member.call_bytes);
    if (instance.operation == Operation::unknown) instance.operation = member.operation;
  }
  if (!call_bytes.empty()) {
    instance.message_bytes = message_size_bytes(instance.operation, lower_median(call_bytes), communicator.size);
  }
  return instance;
}

}  // namespace

std::uint64_t arrival_symbol(const Arrival& arrival) {
  std::uint64_t symbol = mix(0, static_cast<std::uint64_t>(arrival.operation));
  if (arrival.operation == Operation::unknown) symbol = mix(symbol, arrival.kernel_name_hash);
  if (members_differ(arrival.operation)) return symbol;
  symbol = mix(symbol, static_cast<std::uint64_t>(arrival.call_bytes));
  return mix(symbol, static_cast<std::uint64_t>(static_cast<std::int64_t>(arrival.peer_or_root)));
}

std::vector<SequenceSummary> summarise_sequences(std::span<const Arrival> arrivals,
                                                 std::span<const CommunicatorMembership> memberships) {
  std::map<std::uint64_t, SequenceSummary> summaries;
  for (const Arrival& arrival : arrivals) {
    SequenceSummary& summary = summaries[arrival.communicator];
    if (summary.arrivals == 0) {
      summary.communicator = arrival.communicator;
      summary.trace_rank = arrival.trace_rank;
      summary.evidence = arrival.evidence;
    }
    ++summary.arrivals;
    summary.evidence = std::max(summary.evidence, arrival.evidence);
    summary.symbols_hash = mix(summary.symbols_hash, arrival_symbol(arrival));
  }
  for (const CommunicatorMembership& membership : memberships) {
    const auto found = summaries.find(membership.communicator);
    if (found != summaries.end()) found->second.communicator_size = membership.rank_count;
  }
  std::vector<SequenceSummary> result;
  result.reserve(summaries.size());
  for (const auto& [key, summary] : summaries) result.push_back(summary);
  return result;
}

std::vector<PlannedCommunicator> plan_communicators(std::vector<SequenceSummary> summaries) {
  std::sort(summaries.begin(), summaries.end(), [](const SequenceSummary& a, const SequenceSummary& b) {
    return std::tuple(a.communicator, a.trace_rank) < std::tuple(b.communicator, b.trace_rank);
  });
  std::vector<PlannedCommunicator> communicators;
  for (std::size_t first = 0; first < summaries.size();) {
    std::size_t end = first;
    while (end < summaries.size() && summaries[end].communicator == summaries[first].communicator) ++end;
    communicators.push_back(
        make_communicator(summaries[first].communicator, std::span(summaries).subspan(first, end - first)));
    first = end;
  }
  std::sort(communicators.begin(), communicators.end(), [](const PlannedCommunicator& a, const PlannedCommunicator& b) {
    const auto larger_first = [](const PlannedCommunicator& c) {
      return -static_cast<std::int64_t>(c.trace_ranks.size());
    };
    return std::tuple(a.trace_ranks.front(), larger_first(a), a.source_key) <
           std::tuple(b.trace_ranks.front(), larger_first(b), b.source_key);
  });
  int inferred = 0;
  for (PlannedCommunicator& communicator : communicators) {
    communicator.name = communicator.source_key >= first_nccl_key ? fmt::format("{:#018x}", communicator.source_key)
                                                                  : fmt::format("inferred-{}", inferred++);
  }
  return communicators;
}

std::vector<MatchUnit> plan_units(std::span<const PlannedCommunicator> communicators, std::int32_t tool_ranks) {
  std::vector<MatchUnit> units;
  std::vector<std::int64_t> weights;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    const PlannedCommunicator& communicator = communicators[c];
    const std::int64_t longest = *std::max_element(communicator.lengths.begin(), communicator.lengths.end());
    const std::int64_t step = communicator.equal_sequences ? positions_per_unit : longest;
    for (std::int64_t first = 0; first < longest; first += step) {
      const std::int64_t end = std::min(first + step, longest);
      units.push_back({static_cast<std::int32_t>(c), first, end, 0});
      weights.push_back((end - first) * static_cast<std::int64_t>(communicator.trace_ranks.size()));
    }
  }
  // Consecutive units to one owner as far as weights allow: owner = share of the total weight before the unit's middle.
  const std::int64_t total = std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
  std::int64_t before = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const double middle =
        (static_cast<double>(before) + static_cast<double>(weights[u]) / 2) / static_cast<double>(total);
    units[u].owner = std::min(static_cast<std::int32_t>(middle * tool_ranks), tool_ranks - 1);
    before += weights[u];
  }
  return units;
}

MatchedBlock match_unit(const MatchUnit& unit, const PlannedCommunicator& communicator, std::vector<Arrival> arrivals,
                        const AlignmentOptions& alignment) {
  MatchedBlock block;
  block.communicator = unit.communicator;
  std::sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) {
    return std::tuple(a.trace_rank, a.position) < std::tuple(b.trace_rank, b.position);
  });
  std::vector<std::int64_t> sequence(arrivals.size());
  if (communicator.equal_sequences) {
    for (std::size_t a = 0; a < arrivals.size(); ++a) sequence[a] = arrivals[a].position;
  } else {
    sequence = aligned_sequence(communicator, arrivals, alignment);
  }
  std::vector<std::size_t> order(arrivals.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return sequence[a] < sequence[b]; });

  std::int64_t next_sequence = unit.first_position;
  std::vector<Arrival> members;
  for (std::size_t first = 0; first < order.size();) {
    members.clear();
    std::size_t end = first;
    for (; end < order.size() && sequence[order[end]] == sequence[order[first]]; ++end)
      members.push_back(arrivals[order[end]]);
    first = end;
    if (members.size() < 2) {
      block.unmatched_arrivals += static_cast<std::int64_t>(members.size());
      continue;
    }
    Instance instance = make_instance(communicator, next_sequence++, members);
    instance.first_arrival = static_cast<std::int64_t>(block.arrivals.size());
    for (const Arrival& member : members) {
      block.arrivals.push_back({.enter_ns = member.enter_ns,
                                .exit_ns = member.exit_ns,
                                .trace_rank = member.trace_rank,
                                .index = member.index,
                                .timing_source = member.timing_source,
                                .blocking = member.blocking});
    }
    block.instances.push_back(instance);
  }
  return block;
}

}  // namespace nsys_explain::collectives
