#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "robust.hpp"
#include "turn_sets.hpp"

namespace nsys_explain::collectives {
namespace {

/// Of one symbol: of each lane, its operations by exit.
using Reductions = std::map<std::size_t, const std::vector<TurnOperation>*>;

/// By how much operations took longer than usual, by lane and position: by what they should take if they are of certain
/// communicators, or of none.
using Residuals = std::map<std::pair<std::size_t, std::size_t>, double>;

/// Positions of the operations of each member of a set, of each reduction that all did.
using Instances = std::vector<std::vector<std::size_t>>;

constexpr double least_deviation_ns = 300, far_deviations = 3;

double deviation(const Residuals& residuals) {
  std::vector<double> values;
  for (const auto& [operation, value] : residuals) values.push_back(value);
  return deviation_of(std::move(values), least_deviation_ns);
}

/// The position of the operation whose exit is nearest to a time.
std::size_t nearest(const std::vector<TurnOperation>& operations, Nanoseconds exit_ns) {
  return static_cast<std::size_t>(&nearest_exit(operations, exit_ns) - operations.data());
}

/// What members did at one time, each as near to the first's as its nearest is to it: where one lost a record, its next
/// one is nearer to another.
Instances instances_of(const Reductions& reductions, const LaneSet& set) {
  if (std::any_of(set.begin(), set.end(), [&](std::size_t l) { return !reductions.contains(l); })) return {};
  const std::vector<TurnOperation>& first = *reductions.at(set.front());
  Instances instances;
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<std::size_t> instance{i};
    for (std::size_t m = 1; m < set.size(); ++m) {
      const std::vector<TurnOperation>& own = *reductions.at(set[m]);
      const std::size_t j = nearest(own, first[i].exit_ns);
      if (nearest(first, own[j].exit_ns) == i) instance.push_back(j);
    }
    if (instance.size() == set.size()) instances.push_back(std::move(instance));
  }
  return instances;
}

/// A value of each member of a set in each instance. If this member is the root, which leaves when what the last one
/// sends has come; every other member leaves when its own is sent. No root: nobody waits.
std::vector<double> too_long(const Reductions& reductions, const LaneSet& set, const Instances& instances,
                             std::optional<std::size_t> root) {
  std::vector<double> took_ns;
  for (const std::vector<std::size_t>& instance : instances) {
    Nanoseconds last_enter_ns = std::numeric_limits<Nanoseconds>::min();
    for (std::size_t m = 0; m < set.size(); ++m)
      last_enter_ns = std::max(last_enter_ns, (*reductions.at(set[m]))[instance[m]].enter_ns);
    for (std::size_t m = 0; m < set.size(); ++m) {
      const TurnOperation& operation = (*reductions.at(set[m]))[instance[m]];
      took_ns.push_back(static_cast<double>(operation.exit_ns - (m == root ? last_enter_ns : operation.enter_ns)));
    }
  }
  return centred(std::move(took_ns));
}

/// The members that are explained worst as long as nobody waits, at most a few.
std::vector<std::size_t> possible_roots(const std::vector<double>& values_ns, std::size_t members,
                                        double deviation_ns) {
  constexpr std::size_t most = 8;
  std::vector<std::pair<double, std::size_t>> misfits;
  for (std::size_t m = 0; m < members; ++m) {
    std::vector<double> own;
    for (std::size_t v = m; v < values_ns.size(); v += members) own.push_back(values_ns[v]);
    misfits.emplace_back(-misfit(own, deviation_ns), m);
  }
  std::sort(misfits.begin(), misfits.end());
  misfits.resize(std::min(most, misfits.size()));
  std::vector<std::size_t> roots;
  for (const auto& [negative, m] : misfits) roots.push_back(m);
  return roots;
}

Residuals by_operation(const std::vector<double>& values_ns, const LaneSet& set, const Instances& instances) {
  Residuals residuals;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    for (std::size_t m = 0; m < set.size(); ++m) residuals[{set[m], instances[i][m]}] = values_ns[i * set.size() + m];
  }
  return residuals;
}

/// With the root that fits best.
Residuals best_residuals(const Reductions& reductions, const LaneSet& set) {
  const Instances instances = instances_of(reductions, set);
  if (instances.empty()) return {};
  const std::vector<double> if_nobody = too_long(reductions, set, instances, std::nullopt);
  const double deviation_ns = deviation_of(if_nobody, least_deviation_ns);
  std::vector<double> best;
  double least = std::numeric_limits<double>::max();
  for (const std::size_t root : possible_roots(if_nobody, set.size(), deviation_ns)) {
    std::vector<double> values_ns = too_long(reductions, set, instances, root);
    const double found = misfit(values_ns, deviation_ns);
    if (found >= least) continue;
    least = found;
    best = std::move(values_ns);
  }
  return by_operation(best, set, instances);
}

/// Twice the log of how much better one explains what both explain.
double evidence(const Residuals& residuals, const Residuals& others) {
  std::vector<double> own, its;
  for (const auto& [operation, value] : residuals) {
    const auto found = others.find(operation);
    if (found == others.end()) continue;
    own.push_back(value);
    its.push_back(found->second);
  }
  if (own.empty()) return 0;
  const double deviation_ns = deviation_of(own, least_deviation_ns);
  return misfit(its, deviation_ns) - misfit(own, deviation_ns);
}

/// If reductions are of communicators of one kind.
struct Hypothesis {
  const SetOfLane* kind = nullptr;  ///< nullptr: nobody waits for anybody
  Residuals residuals;
};

/// The last one is that nobody waits.
std::vector<Hypothesis> hypotheses_of(const Reductions& reductions, const Families& families) {
  std::vector<Hypothesis> hypotheses;
  for (const auto& [kind, family] : families) {
    Hypothesis& hypothesis = hypotheses.emplace_back();
    hypothesis.kind = &family;
    for (const auto& [l, set] : family) {
      if (set->front() == l) hypothesis.residuals.merge(best_residuals(reductions, *set));
    }
  }
  Hypothesis& nobody = hypotheses.emplace_back();
  for (const auto& [l, operations] : reductions) {
    const Instances own = instances_of(reductions, {l});
    nobody.residuals.merge(by_operation(too_long(reductions, {l}, own, std::nullopt), {l}, own));
  }
  return hypotheses;
}

/// The one that explains most reductions, better than every other one does by so much that chance does not; nullptr:
/// none.
const Hypothesis* explaining(const std::vector<Hypothesis>& hypotheses) {
  constexpr double least_evidence = 15;
  const std::size_t all = hypotheses.back().residuals.size();
  const auto explains = [&](const Hypothesis& hypothesis) {
    return hypothesis.kind != nullptr && 2 * hypothesis.residuals.size() > all &&
           std::all_of(hypotheses.begin(), hypotheses.end(), [&](const Hypothesis& other) {
             return &other == &hypothesis || other.residuals.empty() ||
                    (evidence(hypothesis.residuals, other.residuals) >= least_evidence &&
                     evidence(other.residuals, hypothesis.residuals) <= 0);
           });
  };
  const auto found = std::find_if(hypotheses.begin(), hypotheses.end(), explains);
  return found == hypotheses.end() ? nullptr : &*found;
}

}  // namespace

void claim_reductions(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  const Families families = families_of(sets_of_lane);
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::reduce)) {
    Reductions reductions;
    for (std::size_t l = 0; l < lanes.size(); ++l) {
      const auto found = lanes[l].operations.find(symbol);
      if (found != lanes[l].operations.end()) reductions[l] = &found->second;
    }
    const std::vector<Hypothesis> hypotheses = hypotheses_of(reductions, families);
    const Hypothesis* right = explaining(hypotheses);
    if (right == nullptr) continue;
    const double most_ns = far_deviations * deviation(right->residuals);
    for (const auto& [operation, alone_ns] : hypotheses.back().residuals) {
      const auto set = right->kind->find(operation.first);
      const auto own = right->residuals.find(operation);  // of those whose members lost no record
      const double off_ns = own == right->residuals.end() ? alone_ns : own->second;
      if (set != right->kind->end() && std::abs(off_ns) <= most_ns)
        lanes[operation.first].operations.at(symbol)[operation.second].claimed = set->second;
    }
  }
}

}  // namespace nsys_explain::collectives
