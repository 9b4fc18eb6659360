#include "collectives/stream_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

namespace nsys_explain::collectives {
namespace {

/// Rows of a table: enough to tell communicators apart, few enough for clocks to be lines over them.
constexpr std::size_t most_rows = 512;
/// Exits of what may be one operation lie this close on the coarse clock: less than training steps take.
constexpr Nanoseconds row_reach_ns = 20'000'000;

/// What every kernel shows of an operation (see may_be_one).
std::uint64_t kernel_part(std::uint64_t symbol) {
  return symbol >> 32U;
}

/// By row of the reference: index into the other stream; -1: none.
using Counterparts = std::vector<std::ptrdiff_t>;

Counterparts by_position(const StreamSequence& reference, const StreamSequence& other) {
  Counterparts result(reference.size(), -1);
  for (std::size_t i = 0, j = 0; i < reference.size() && j < other.size();) {
    if (reference.positions[i] == other.positions[j])
      result[i++] = static_cast<std::ptrdiff_t>(j++);
    else if (reference.positions[i] < other.positions[j])
      ++i;
    else
      ++j;
  }
  return result;
}

/// Operations that end nearest to each other, both ways.
Counterparts by_time(const StreamSequence& reference, const StreamSequence& other) {
  clock::PartnerFinder in_other(other.sequence), in_reference(reference.sequence);
  Counterparts result(reference.size(), -1);
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const std::uint64_t symbol = reference.sequence.symbols[i];
    const std::ptrdiff_t j = in_other.nearest(symbol, reference.sequence.exit_ns[i], row_reach_ns);
    if (j < 0) continue;
    const Nanoseconds exit_ns = other.sequence.exit_ns[static_cast<std::size_t>(j)];
    if (in_reference.nearest(symbol, exit_ns, row_reach_ns) == static_cast<std::ptrdiff_t>(i)) result[i] = j;
  }
  return result;
}

/// How many operations of a stream lie where the other was captured.
std::size_t captured_beside(const StreamSequence& own, const StreamSequence& other) {
  const auto& exits = own.sequence.exit_ns;
  const auto first = std::lower_bound(exits.begin(), exits.end(), other.sequence.exit_ns.front());
  return static_cast<std::size_t>(std::upper_bound(first, exits.end(), other.sequence.exit_ns.back()) - first);
}

/// The operations of `other` that are rows of `reference`; none where the two did not do the same.
Counterparts counterparts(const StreamSequence& reference, const StreamSequence& other) {
  constexpr std::size_t fewest_rows = 3;
  if (reference.digest == other.digest) return by_position(reference, other);
  if (reference.component != other.component) return {};
  Counterparts found = by_time(reference, other);
  const auto pairs =
      static_cast<std::size_t>(std::count_if(found.begin(), found.end(), [](std::ptrdiff_t j) { return j >= 0; }));
  // A few records are lost; what others do ends elsewhere, or there is half as much of it.
  constexpr double least_share = 0.9;
  constexpr std::size_t lost = 2;
  const auto most = static_cast<double>(std::max(captured_beside(reference, other), captured_beside(other, reference)));
  if (pairs < fewest_rows || static_cast<double>(pairs + lost) < least_share * most) return {};
  return found;
}

/// The rows of the reference that a table looks at: around the middle.
std::pair<std::size_t, std::size_t> middle_rows(const StreamSequence& reference) {
  const std::size_t rows = std::min(most_rows, reference.size());
  const std::size_t first = (reference.size() - rows) / 2;
  return {first, first + rows};
}

void add_member(StreamTable& table, std::size_t stream, const StreamSequence& reference, const StreamSequence& member,
                const Counterparts& found) {
  const auto [first, end] = middle_rows(reference);
  const Nanoseconds origin_ns = reference.sequence.exit_ns.front();
  table.streams.push_back(stream);
  std::vector<double>& enters = table.enter_ns.emplace_back();
  std::vector<double>& exits = table.exit_ns.emplace_back();
  for (std::size_t i = first; i < end; ++i) {
    const bool is_there = found[i] >= 0;
    const auto j = static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, found[i]));
    enters.push_back(is_there ? static_cast<double>(member.sequence.enter_ns[j] - origin_ns) : std::nan(""));
    exits.push_back(is_there ? static_cast<double>(member.sequence.exit_ns[j] - origin_ns) : std::nan(""));
  }
  table.is_equal = table.is_equal && member.digest == reference.digest;
}

}  // namespace

std::vector<StreamSequence> stream_sequences(std::span<const SampledOperation> samples, const SequenceDigests& digests,
                                             const clock::CoarseClocks& clocks, const GivenNames& names,
                                             const KeyRange& range) {
  std::set<std::pair<std::int32_t, std::uint64_t>> named_kinds;
  for (const SampledOperation& operation : samples) {
    if (names_communicator(operation.key)) named_kinds.emplace(operation.trace_rank, kernel_part(operation.symbol));
  }
  std::map<StreamPart, std::vector<const SampledOperation*>> of_part;
  for (const SampledOperation& operation : samples) {
    if (operation.key < range.first || operation.key >= range.end) continue;
    // Calls name the communicators of this kind of operation here, so this is one of those; only which is not known.
    if (operation.is_without_call && named_kinds.contains({operation.trace_rank, kernel_part(operation.symbol)}))
      continue;
    of_part[part_of(operation)].push_back(&operation);
  }
  std::vector<StreamSequence> streams;
  for (auto& [part, operations] : of_part) {
    std::sort(operations.begin(), operations.end(), [](const SampledOperation* a, const SampledOperation* b) {
      return std::tie(a->exit_ns, a->index) < std::tie(b->exit_ns, b->index);
    });
    StreamSequence& stream = streams.emplace_back();
    stream.part = part;
    stream.component = clocks.component_of(operations.front()->session);
    if (const auto digest = digests.find(part); digest != digests.end()) stream.digest = digest->second;
    if (const auto name = names.find({part.trace_rank, part.key}); name != names.end()) stream.name = name->second;
    for (const SampledOperation* operation : operations) {
      stream.positions.push_back(operation->position);
      stream.operations.push_back(operation->operation);
      stream.sequence.symbols.push_back(operation->symbol);
      stream.sequence.enter_ns.push_back(clocks.to_common(operation->session, operation->enter_ns));
      stream.sequence.exit_ns.push_back(clocks.to_common(operation->session, operation->exit_ns));
    }
  }
  return streams;
}

StreamTable StreamTable::with_rows(std::span<const std::size_t> rows) const {
  StreamTable part{
      .streams = streams, .symbols = {}, .operations = {}, .enter_ns = {}, .exit_ns = {}, .is_equal = is_equal};
  for (const std::size_t row : rows) {
    part.symbols.push_back(symbols[row]);
    part.operations.push_back(operations[row]);
  }
  for (std::size_t m = 0; m < members(); ++m) {
    part.enter_ns.emplace_back();
    part.exit_ns.emplace_back();
    for (const std::size_t row : rows) {
      part.enter_ns.back().push_back(enter_ns[m][row]);
      part.exit_ns.back().push_back(exit_ns[m][row]);
    }
  }
  return part;
}

StreamTable stream_table(std::span<const StreamSequence> streams, std::size_t reference,
                         std::span<const std::size_t> waiting) {
  StreamTable table;
  const StreamSequence& sequence = streams[reference];
  const auto [first, end] = middle_rows(sequence);
  for (std::size_t i = first; i < end; ++i) {
    table.symbols.push_back(sequence.sequence.symbols[i]);
    table.operations.push_back(sequence.operations[i]);
  }
  for (const std::size_t s : waiting) {
    const Counterparts found = counterparts(sequence, streams[s]);
    if (!found.empty()) add_member(table, s, sequence, streams[s], found);
  }
  return table;
}

std::vector<std::size_t> by_length(std::span<const StreamSequence> streams) {
  std::vector<std::size_t> order(streams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return streams[a].size() > streams[b].size(); });
  return order;
}

}  // namespace nsys_explain::collectives
