#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "collectives/matching.hpp"
#include "model/hash.hpp"

namespace nsys_explain::collectives {
namespace {

/// Positions per unit: large enough that headers do not matter and that order can be told by them, small enough that
/// one long or large communicator spreads over all tool ranks.
std::int64_t positions_per_unit(std::size_t members) {
  constexpr std::int64_t fewest = 64, most = 1024, arrivals = 1 << 16;
  return std::clamp(arrivals / static_cast<std::int64_t>(members), fewest, most);
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  return splitmix(hash + value);  // order matters
}

/// In these operations members may pass different sizes or peers.
bool members_differ(Operation operation) {
  return operation == Operation::send_recv || operation == Operation::all_to_all || operation == Operation::gather ||
         operation == Operation::scatter || operation == Operation::unknown;
}

/// Rank numbers that no record tells: where all members are seen, those follow the order of the trace ranks, as far as
/// the recorded ones do not contradict.
void number_members(PlannedCommunicator& communicator) {
  if (communicator.trace_ranks.size() != static_cast<std::size_t>(communicator.size)) return;
  for (std::size_t m = 0; m < communicator.ranks.size(); ++m) {
    if (communicator.ranks[m] >= 0 && communicator.ranks[m] != static_cast<std::int32_t>(m)) return;
  }
  std::iota(communicator.ranks.begin(), communicator.ranks.end(), 0);
}

std::uint16_t operation_bit(Operation operation) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(operation));
}

PlannedCommunicator make_communicator(std::uint64_t key, std::span<const SequenceSummary> members, bool is_whole_job) {
  PlannedCommunicator communicator;
  communicator.source_key = key;
  communicator.evidence = Evidence::nccl_payload;
  bool has_pairs = false;
  communicator.unnumbered_operations = 0;
  for (const SequenceSummary& member : members) {
    has_pairs = has_pairs || member.has_pairs;
    communicator.unnumbered_operations |= member.unnumbered_operations;
    communicator.ranks.push_back(member.communicator_rank);
    communicator.trace_ranks.push_back(member.trace_rank);
    communicator.lengths.push_back(member.arrivals);
    communicator.size = std::max(communicator.size, member.communicator_size);
    communicator.evidence = std::max(communicator.evidence, member.evidence);
    communicator.equal_sequences = communicator.equal_sequences && member.arrivals == members.front().arrivals &&
                                   member.symbols_hash == members.front().symbols_hash;
  }
  communicator.may_lack_members = communicator.size <= 0 && !is_whole_job;
  communicator.size = std::max(communicator.size, static_cast<std::int32_t>(members.size()));
  communicator.equal_sequences = communicator.equal_sequences && !has_pairs;
  number_members(communicator);
  return communicator;
}

/// The tool rank that has read all members; -1 where several have.
std::int32_t only_reader(const PlannedCommunicator& communicator, const ReaderOf& reader_of) {
  const std::int32_t reader = reader_of(communicator.trace_ranks.front());
  const bool is_only = std::all_of(communicator.trace_ranks.begin(), communicator.trace_ranks.end(),
                                   [&](std::int32_t trace_rank) { return reader_of(trace_rank) == reader; });
  return is_only ? reader : -1;
}

struct UnitLoad {
  std::int32_t reader = -1;  ///< only_reader
  std::int64_t arrivals = 0;
};

/// What one tool rank has read stays with it, unless it has read far more than its share; the rest goes where there is
/// least to do so far.
void find_owners(std::span<MatchUnit> units, std::span<const UnitLoad> loads, std::int32_t tool_ranks) {
  constexpr std::int64_t slack = 8;  // to move an arrival costs about as much as to match it
  std::int64_t total = 0;
  for (const UnitLoad& load : loads) total += load.arrivals;
  const std::int64_t share = total / tool_ranks;
  std::vector<std::int64_t> owned(static_cast<std::size_t>(tool_ranks), 0);  // arrivals
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (loads[u].reader < 0) continue;
    std::int64_t& of_reader = owned[static_cast<std::size_t>(loads[u].reader)];
    if (of_reader > 0 && of_reader + loads[u].arrivals > share + share / slack) continue;
    units[u].owner = loads[u].reader;
    units[u].at_reader = true;
    of_reader += loads[u].arrivals;
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].at_reader) continue;
    const auto least = std::min_element(owned.begin(), owned.end());
    units[u].owner = static_cast<std::int32_t>(least - owned.begin());
    *least += loads[u].arrivals;
  }
}

}  // namespace

bool is_pair_exchange(const Arrival& arrival) {
  return arrival.operation == Operation::send_recv && arrival.peer_or_root != several_peers;
}

std::uint64_t arrival_symbol(const Arrival& arrival) {
  constexpr std::uint64_t told = 0xffffffffU;
  std::uint64_t kind = mix(0, static_cast<std::uint64_t>(arrival.operation));
  if (arrival.operation == Operation::unknown) kind = mix(kind, arrival.kernel_name_hash);
  kind &= ~told;
  const bool is_told = arrival.call_bytes >= 0 || arrival.peer_or_root >= 0;
  if (members_differ(arrival.operation) || !is_told) return kind;
  const std::uint64_t bytes = mix(0, static_cast<std::uint64_t>(arrival.call_bytes));
  const auto root = static_cast<std::uint64_t>(static_cast<std::int64_t>(arrival.peer_or_root));
  return kind | (mix(bytes, root) & told) | 1U;
}

std::vector<SequenceSummary> summarise_sequences(std::span<const TraceArrival> arrivals, std::int32_t device_id,
                                                 std::span<const CommunicatorMembership> memberships) {
  std::map<std::uint64_t, SequenceSummary> summaries;
  for (const TraceArrival& arrival : arrivals) {
    SequenceSummary& summary = summaries[arrival.communicator];
    if (summary.arrivals == 0) {
      summary.communicator = arrival.communicator;
      summary.trace_rank = arrival.trace_rank;
      summary.evidence = arrival.evidence;
    }
    ++summary.arrivals;
    summary.evidence = std::max(summary.evidence, arrival.evidence);
    const bool is_pair = is_pair_exchange(arrival);
    summary.has_pairs = summary.has_pairs || is_pair;
    if (!is_pair && arrival.sequence < 0) summary.unnumbered_operations |= operation_bit(arrival.operation);
    if (arrival.operation != Operation::send_recv) {
      ++summary.collectives;
      summary.collectives_hash = mix(summary.collectives_hash, arrival_symbol(arrival));
    }
    summary.symbols_hash =
        mix(mix(summary.symbols_hash, arrival_symbol(arrival)), static_cast<std::uint64_t>(arrival.sequence));
  }
  for (const CommunicatorMembership& membership : memberships) {
    const auto found = summaries.find(membership.communicator);
    if (found == summaries.end()) continue;
    found->second.communicator_size = membership.rank_count;
    if (membership.device == device_id || membership.device < 0) found->second.communicator_rank = membership.rank;
  }
  std::vector<SequenceSummary> result;
  result.reserve(summaries.size());
  for (const auto& [key, summary] : summaries) result.push_back(summary);
  return result;
}

std::vector<PlannedCommunicator> plan_communicators(std::vector<SequenceSummary> summaries, bool is_whole_job) {
  std::erase_if(summaries, [](const SequenceSummary& summary) { return summary.communicator == withheld_key; });
  std::sort(summaries.begin(), summaries.end(), [](const SequenceSummary& a, const SequenceSummary& b) {
    return std::tuple(a.communicator, a.trace_rank) < std::tuple(b.communicator, b.trace_rank);
  });
  std::vector<PlannedCommunicator> communicators;
  for (std::size_t first = 0; first < summaries.size();) {
    std::size_t end = first;
    while (end < summaries.size() && summaries[end].communicator == summaries[first].communicator) ++end;
    communicators.push_back(make_communicator(summaries[first].communicator,
                                              std::span(summaries).subspan(first, end - first), is_whole_job));
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

void name_communicators(std::span<PlannedCommunicator> communicators, const GivenNames& names) {
  for (PlannedCommunicator& communicator : communicators) {
    std::map<std::string_view, int> members_with;
    for (const std::int32_t trace_rank : communicator.trace_ranks) {
      const auto named = names.find({trace_rank, communicator.source_key});
      if (named != names.end()) ++members_with[named->second];
    }
    const auto most = std::max_element(members_with.begin(), members_with.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != members_with.end()) communicator.given_name = most->first;
  }
}

std::vector<MatchUnit> plan_units(std::span<const PlannedCommunicator> communicators, std::int32_t tool_ranks,
                                  const ReaderOf& reader_of) {
  std::vector<MatchUnit> units;
  std::vector<UnitLoad> loads;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    const PlannedCommunicator& communicator = communicators[c];
    const std::int32_t reader = only_reader(communicator, reader_of);
    const std::int64_t longest = *std::max_element(communicator.lengths.begin(), communicator.lengths.end());
    const std::int64_t step =
        communicator.equal_sequences ? positions_per_unit(communicator.trace_ranks.size()) : longest;
    for (std::int64_t first = 0; first < longest; first += step) {
      const std::int64_t end = std::min(first + step, longest);
      units.push_back({static_cast<std::int32_t>(c), first, end});
      loads.push_back({reader, (end - first) * static_cast<std::int64_t>(communicator.trace_ranks.size())});
    }
  }
  find_owners(units, loads, tool_ranks);
  return units;
}

}  // namespace nsys_explain::collectives
