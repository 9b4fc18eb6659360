#include "collectives/stream_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "nsys_explain/model/end_model.hpp"

namespace nsys_explain::collectives {
namespace {

/// Rows of a table: enough to tell communicators apart, few enough for clocks to be lines over them.
constexpr std::size_t most_rows = 512;
/// Exits of what may be one operation lie this close on the coarse clock: less than training steps take.
constexpr Nanoseconds row_reach_ns = 20'000'000;

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
Counterparts counterparts_by_time(const StreamSequence& reference, const StreamSequence& other) {
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

/// How unevenly exits follow each other: the mean log of the change of their difference from one operation of a kind to
/// the next, over what the noise of ends makes of it.
double unevenness_of(const StreamSequence& reference, const StreamSequence& other, const Counterparts& found) {
  const auto takes_ns = [](const StreamSequence& stream, std::size_t k) {
    return static_cast<double>(stream.sequence.exit_ns[k] - stream.sequence.enter_ns[k]);
  };
  std::map<Operation, double> before;
  double sum = 0, count = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] < 0) continue;
    const auto j = static_cast<std::size_t>(found[i]);
    const auto difference = static_cast<double>(other.sequence.exit_ns[j] - reference.sequence.exit_ns[i]);
    const auto [place, is_first] = before.try_emplace(reference.operations[i], difference);
    if (is_first) continue;
    const double noise_ns = EndModel::spread_ns(std::min(takes_ns(reference, i), takes_ns(other, j)));
    sum += std::log(std::abs(difference - std::exchange(place->second, difference)) / noise_ns + 1);
    count += 1;
  }
  return count == 0 ? std::numeric_limits<double>::infinity() : sum / count;
}

/// How many operations of a stream lie where the other was captured.
std::size_t captured_beside(const StreamSequence& own, const StreamSequence& other) {
  const auto& exits = own.sequence.exit_ns;
  const auto first = std::lower_bound(exits.begin(), exits.end(), other.sequence.exit_ns.front());
  return static_cast<std::size_t>(std::upper_bound(first, exits.end(), other.sequence.exit_ns.back()) - first);
}

/// How a stream compares with a reference.
struct Comparison {
  enum class Verdict : std::uint8_t { did_the_same, did_other_things, unclear };
  Verdict verdict = Verdict::did_other_things;
  bool is_in_order = false;  ///< equal sequences, k-th with k-th
  Counterparts found;        ///< the operations of the stream that are rows of the reference
};

Comparison compare(const StreamSequence& reference, const StreamSequence& other) {
  using Verdict = Comparison::Verdict;
  constexpr std::size_t fewest_rows = 8;
  // Short sequences of which records are lost are equal by chance.
  const bool are_equal =
      reference.digest == other.digest && (!reference.has_unequal_kin || reference.size() >= fewest_rows);
  if (reference.component != other.component)
    return are_equal ? Comparison{Verdict::did_the_same, true, by_position(reference, other)} : Comparison();
  Comparison by_times{Verdict::did_the_same, false, counterparts_by_time(reference, other)};
  const auto pairs = static_cast<std::size_t>(
      std::count_if(by_times.found.begin(), by_times.found.end(), [](std::ptrdiff_t j) { return j >= 0; }));
  // A few records are lost; what others do ends elsewhere, or there is half as much of it.
  constexpr double least_share = 0.9, least_unclear = 0.6;
  constexpr double most_in_step = 2.8;  // sixteen times the noise: what ends as evenly may be of one communicator
  constexpr std::size_t lost = 2;
  const auto most = static_cast<double>(std::max(captured_beside(reference, other), captured_beside(other, reference)));
  const auto share = static_cast<double>(pairs + lost) / most;
  if (pairs < fewest_rows || share < least_unclear)
    by_times.verdict = Verdict::did_other_things;
  else if (share < least_share)
    by_times.verdict =
        unevenness_of(reference, other, by_times.found) <= most_in_step ? Verdict::unclear : Verdict::did_other_things;
  if (are_equal) {
    // Where either lost another record, sequences may be equal and shifted all the same.
    constexpr double far_more_even = 1.4;  // four times
    Counterparts in_order = by_position(reference, other);
    const bool is_shifted = share >= least_share && unevenness_of(reference, other, by_times.found) + far_more_even <
                                                        unevenness_of(reference, other, in_order);
    if (!is_shifted) return {Verdict::did_the_same, true, std::move(in_order)};
  }
  return by_times;
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
}

}  // namespace

std::vector<StreamSequence> stream_sequences(std::span<const SampledOperation> samples, const SequenceDigests& digests,
                                             const clock::CoarseClocks& clocks, const GivenNames& names,
                                             const KeyRange& range) {
  std::set<std::int32_t> named;  // trace ranks whose calls name communicators: the rest lacks its calls
  for (const SampledOperation& operation : samples) {
    if (operation.key >= range.end) named.insert(operation.trace_rank);
  }
  std::map<StreamPart, std::vector<const SampledOperation*>> of_part;
  for (const SampledOperation& operation : samples) {
    if (operation.key < range.first || operation.key >= range.end || named.contains(operation.trace_rank)) continue;
    of_part[part_of(operation)].push_back(&operation);
  }
  std::vector<StreamSequence> streams;
  for (auto& [part, operations] : of_part) {
    std::sort(operations.begin(), operations.end(), [](const SampledOperation* a, const SampledOperation* b) {
      return std::tie(a->exit, a->index) < std::tie(b->exit, b->index);
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
      stream.sequence.enter_ns.push_back(clocks.to_common(operation->session, operation->enter));
      stream.sequence.exit_ns.push_back(clocks.to_common(operation->session, operation->exit));
    }
  }
  std::map<std::set<std::uint64_t>, std::set<std::uint64_t>> digests_of_kinds;
  for (StreamSequence& stream : streams) {
    stream.kinds = {stream.sequence.symbols.begin(), stream.sequence.symbols.end()};
    digests_of_kinds[stream.kinds].insert(stream.digest);
  }
  for (StreamSequence& stream : streams) stream.has_unequal_kin = digests_of_kinds[stream.kinds].size() > 1;
  return streams;
}

StreamTable StreamTable::with_rows(std::span<const std::size_t> rows) const {
  StreamTable part{.streams = streams,
                   .unclear = {},
                   .symbols = {},
                   .operations = {},
                   .enter_ns = {},
                   .exit_ns = {},
                   .is_equal = is_equal};
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
    const Comparison compared = compare(sequence, streams[s]);
    if (compared.verdict == Comparison::Verdict::unclear) table.unclear.push_back(s);
    if (compared.verdict != Comparison::Verdict::did_the_same) continue;
    add_member(table, s, sequence, streams[s], compared.found);
    // Ragged captures of short sequences have equal lengths by chance, of long ones hardly ever.
    constexpr std::size_t rarely_equal = 64;
    const bool is_credible = !streams[s].has_unequal_kin || streams[s].size() >= rarely_equal;
    table.is_equal = table.is_equal && compared.is_in_order && is_credible;
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
