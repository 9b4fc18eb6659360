#include "clock/sequence_relation.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "clock/offset_search.hpp"
#include "model/median.hpp"

namespace nsys_explain::clock {
namespace {

/// Indices of operations that are one: member, reference.
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;

Pairs pairs_by_position(const RecordedSequence& member, const RecordedSequence& reference) {
  Pairs pairs;
  for (std::size_t i = 0, j = 0; i < member.positions.size() && j < reference.positions.size();) {
    if (member.positions[i] == reference.positions[j])
      pairs.emplace_back(i++, j++);
    else if (member.positions[i] < reference.positions[j])
      ++i;
    else
      ++j;
  }
  return pairs;
}

Pairs pairs_by_time(const RecordedSequence& member, const RecordedSequence& reference, const ClockEstimate& estimate) {
  Pairs pairs;
  PartnerFinder partners(reference.operations);
  for (std::size_t i = 0; i < member.positions.size(); ++i) {
    const Nanoseconds exit_ns = estimate.map.to_reference(member.operations.exit_ns[i]);
    const std::ptrdiff_t j = partners.nearest(member.operations.symbols[i], exit_ns, estimate.reach_ns);
    if (j >= 0) pairs.emplace_back(i, static_cast<std::size_t>(j));
  }
  return pairs;
}

/// Members differ at the end of each kind of operation by a bias of their own.
double sharpest_residual(const std::map<std::uint64_t, std::vector<double>>& residuals_of_symbol, std::size_t pairs) {
  constexpr std::size_t fewest = 6;
  double sharpest = std::numeric_limits<double>::infinity();
  for (auto [symbol, residuals] : residuals_of_symbol) {
    if (4 * residuals.size() < pairs || residuals.size() < fewest) continue;  // of a few, some agree by chance
    const double usual = upper_median(residuals);
    double sum = 0;
    for (const double residual : residuals) sum += std::log(std::abs(residual - usual) + residual_floor_ns / 2);
    sharpest = std::min(sharpest, std::exp(sum / static_cast<double>(residuals.size())));
  }
  return sharpest;
}

std::optional<SequenceRelation> fit_relation(const RecordedSequence& member, const RecordedSequence& reference,
                                             const Pairs& pairs, Nanoseconds centre_ns) {
  constexpr std::size_t fewest_for_slope = 12;
  if (pairs.empty()) return std::nullopt;
  const auto difference = [&](const std::pair<std::size_t, std::size_t>& pair) {
    return reference.operations.exit_ns[pair.second] - member.operations.exit_ns[pair.first];
  };
  const Nanoseconds base_ns = difference(pairs.front());  // keeps the doubles of the fit small
  std::vector<double> x, y;
  for (const auto& pair : pairs) {
    x.push_back(static_cast<double>(member.operations.exit_ns[pair.first] - centre_ns));
    y.push_back(static_cast<double>(difference(pair) - base_ns));
  }
  SequenceRelation relation;
  relation.line = fit_line(x, y, centre_ns, x.size() >= fewest_for_slope);
  std::map<std::uint64_t, std::vector<double>> residuals;
  for (std::size_t p = 0; p < pairs.size(); ++p)
    residuals[member.operations.symbols[pairs[p].first]].push_back(y[p] - relation.line.offset_ns -
                                                                   relation.line.slope * x[p]);
  relation.line.offset_ns += static_cast<double>(base_ns);
  relation.residual_ns = sharpest_residual(residuals, pairs.size());
  return relation;
}

}  // namespace

std::optional<SequenceRelation> relate_sequences(const RecordedSequence& member, const RecordedSequence& reference,
                                                 Nanoseconds centre_ns) {
  constexpr double far_better = 4, sharp_ns = 2'000;
  std::optional<SequenceRelation> in_order;
  if (member.digest == reference.digest)
    in_order = fit_relation(member, reference, pairs_by_position(member, reference), centre_ns);
  if (in_order && in_order->residual_ns <= sharp_ns) return in_order;
  const bool is_one = member.communicator != 0 && member.communicator == reference.communicator;
  // Ends of one communicator's operations agree. Where these do not, each member may have lost a record, not the same.
  if (is_one) in_order.reset();
  const auto estimate = estimate_clock(member.operations, reference.operations);
  if (!estimate) return in_order;
  const auto found = fit_relation(member, reference, pairs_by_time(member, reference, *estimate), centre_ns);
  if (!in_order || (found && far_better * found->residual_ns < in_order->residual_ns)) return found;
  return in_order;
}

}  // namespace nsys_explain::clock
