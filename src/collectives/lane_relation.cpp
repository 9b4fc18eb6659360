#include "collectives/lane_relation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "collectives/exit_agreement.hpp"
#include "collectives/shift_search.hpp"

namespace nsys_explain::collectives {

void append_operation(MemberSequence& sequence, std::uint64_t symbol, Nanoseconds enter_ns, Nanoseconds exit_ns) {
  if (!sequence.enter_ns.empty()) enter_ns = std::max(enter_ns, sequence.enter_ns.back());
  sequence.symbols.push_back(symbol);
  sequence.enter_ns.push_back(enter_ns);
  sequence.exit_ns.push_back(exit_ns);
}

LaneRelation measure_relation(const MemberSequence& member, const MemberSequence& reference, const ClockMap& map,
                              Nanoseconds centre_ns) {
  const Nanoseconds middle_ns = member.exit_ns[member.exit_ns.size() / 2];
  const Nanoseconds base_ns = map.to_reference(middle_ns) - middle_ns;  // keeps the doubles small
  PartnerFinder partners(reference);
  std::vector<double> x, y;
  LaneRelation relation;
  for (std::size_t i = 0; i < member.symbols.size(); ++i) {
    const Nanoseconds exit_ns = map.to_reference(member.exit_ns[i]);
    if (exit_ns < reference.exit_ns.front() - sharp_ns || exit_ns > reference.exit_ns.back() + sharp_ns) continue;
    ++relation.covered;
    // A few operations over a long time do not tell the estimate their drift.
    const std::ptrdiff_t partner = partners.nearest(member.symbols[i], exit_ns, agreement_reach_ns / 2);
    if (partner < 0) continue;
    x.push_back(static_cast<double>(member.exit_ns[i] - middle_ns));
    y.push_back(
        static_cast<double>(reference.exit_ns[static_cast<std::size_t>(partner)] - member.exit_ns[i] - base_ns));
  }
  relation.paired = x.size();
  const ClockLine line = fit_line(x, y, middle_ns, x.size() >= fewest_sharp);
  std::vector<double> residuals;
  for (std::size_t i = 0; i < x.size(); ++i) residuals.push_back(std::abs(y[i] - line.offset_ns - line.slope * x[i]));
  std::sort(residuals.begin(), residuals.end());
  const auto within = [&](Nanoseconds distance_ns) {
    return static_cast<std::size_t>(
        std::upper_bound(residuals.begin(), residuals.end(), static_cast<double>(distance_ns)) - residuals.begin());
  };
  const std::size_t sharp = within(sharp_ns), beside = within(2 * sharp_ns) - sharp;
  const std::size_t most = (4 * relation.covered + 4) / 5;
  relation.spread_ns =
      most > 0 && most <= residuals.size() ? residuals[most - 1] : std::numeric_limits<double>::infinity();
  relation.line = {
      static_cast<double>(base_ns) + line.offset_ns + line.slope * static_cast<double>(centre_ns - middle_ns),
      line.slope};
  if (sharp >= fewest_sharp) {
    relation.sharp_share = static_cast<double>(sharp) / static_cast<double>(relation.covered);
    relation.beside_share = static_cast<double>(beside) / static_cast<double>(relation.covered);
  }
  return relation;
}

std::optional<LaneRelation> relate_lanes(const MemberSequence& member, const MemberSequence& reference, Kinship kinship,
                                         Nanoseconds centre_ns) {
  if (member.symbols.size() > reference.symbols.size()) {
    // A pipeline stage shares all of its operations with a neighbour that shares only half: the shorter one is asked.
    std::optional<LaneRelation> relation = relate_lanes(reference, member, kinship, centre_ns);
    if (relation) {
      RoughLine& line = relation->line;
      line = {line.slope * line.offset_ns - line.offset_ns, -line.slope};
    }
    return relation;
  }
  const std::optional<ClockEstimate> estimate = estimate_clock(member, reference, kinship);
  if (!estimate) return std::nullopt;
  return measure_relation(member, reference, estimate->map, centre_ns);
}

}  // namespace nsys_explain::collectives
