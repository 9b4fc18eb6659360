#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collectives/robust.hpp"
#include "collectives/turn_sets.hpp"

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

Residuals by_operation(const std::vector<double>& values_ns, const LaneSet& set, const Instances& instances) {
  Residuals residuals;
  for (std::size_t i = 0; i < instances.size(); ++i) {
    for (std::size_t m = 0; m < set.size(); ++m) residuals[{set[m], instances[i][m]}] = values_ns[i * set.size() + m];
  }
  return residuals;
}

/// What the communicators of a kind did.
struct SetReductions {
  const LaneSet* set = nullptr;
  Instances instances;
  double deviation_ns = 0;  ///< as long as nobody waits
};

/// By how much operations are explained worse than usual if the members at one position of each set are the roots.
double misfit_of(const Reductions& reductions, std::span<const SetReductions> sets, std::optional<std::size_t> root) {
  return std::accumulate(sets.begin(), sets.end(), 0.0, [&](double sum, const SetReductions& of) {
    return sum + misfit(too_long(reductions, *of.set, of.instances, root), of.deviation_ns);
  });
}

/// The positions whose members are explained worst as long as nobody waits, at most a few.
std::vector<std::size_t> possible_roots(const Reductions& reductions, std::span<const SetReductions> sets) {
  constexpr std::size_t most = 8;
  const std::size_t members = sets.front().set->size();
  std::vector<std::pair<double, std::size_t>> misfits;
  for (std::size_t m = 0; m < members; ++m) misfits.emplace_back(0.0, m);
  for (const auto& [set, instances, deviation_ns] : sets) {
    const std::vector<double> values_ns = too_long(reductions, *set, instances, std::nullopt);
    for (std::size_t m = 0; m < members; ++m) {
      std::vector<double> own;
      for (std::size_t v = m; v < values_ns.size(); v += members) own.push_back(values_ns[v]);
      misfits[m].first -= misfit(own, deviation_ns);
    }
  }
  std::sort(misfits.begin(), misfits.end());
  misfits.resize(std::min(most, misfits.size()));
  std::vector<std::size_t> roots;
  for (const auto& [negative, m] : misfits) roots.push_back(m);
  return roots;
}

/// Of the communicators of a kind, with the root that fits best: what a program does in all of them, it does with a
/// root at the same position in each.
Residuals best_residuals(const Reductions& reductions, const SetOfLane& family) {
  std::vector<SetReductions> sets;
  for (const auto& [l, set] : family) {
    if (set->front() != l) continue;
    Instances instances = instances_of(reductions, *set);
    if (instances.empty()) continue;
    const double deviation_ns = deviation_of(too_long(reductions, *set, instances, std::nullopt), least_deviation_ns);
    sets.push_back({set, std::move(instances), deviation_ns});
  }
  if (sets.empty()) return {};
  std::size_t best = 0;
  double least = std::numeric_limits<double>::max();
  for (const std::size_t root : possible_roots(reductions, sets)) {
    const double found = misfit_of(reductions, sets, root);
    if (found >= least) continue;
    least = found;
    best = root;
  }
  Residuals residuals;
  for (const auto& [set, instances, deviation_ns] : sets)
    residuals.merge(by_operation(too_long(reductions, *set, instances, best), *set, instances));
  return residuals;
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
  for (const auto& [kind, family] : families) hypotheses.push_back({&family, best_residuals(reductions, family)});
  Hypothesis& nobody = hypotheses.emplace_back();
  for (const auto& [l, operations] : reductions) {
    const Instances own = instances_of(reductions, {l});
    nobody.residuals.merge(by_operation(too_long(reductions, {l}, own, std::nullopt), {l}, own));
  }
  return hypotheses;
}

/// Whether one explains so much better what both explain that chance does not. That nobody waits is what communicators
/// look like whose root comes last, or that are not known: there are few, so that less tells.
bool is_far_better(const Hypothesis& one, const Hypothesis& other) {
  constexpr double sure = 15, likely = 5;
  return evidence(one.residuals, other.residuals) >= (other.kind == nullptr ? likely : sure) &&
         evidence(other.residuals, one.residuals) <= 0;
}

/// Whether communicators explain most of all reductions, as well as those of one size can be.
bool explains_most(const Hypothesis& hypothesis, std::size_t all) {
  return hypothesis.kind != nullptr && 2 * hypothesis.residuals.size() > all &&
         deviation(hypothesis.residuals) <= static_cast<double>(exit_tolerance(Operation::reduce));
}

/// The one that explains most reductions, if none explains them far better, and each of the others far worse than some.
/// Of communicators that contain each other the smallest: parts of what belongs together are better than what does not.
/// nullptr: none.
const Hypothesis* explaining(const std::vector<Hypothesis>& hypotheses) {
  std::vector<const Hypothesis*> left;
  for (const Hypothesis& hypothesis : hypotheses) {
    const bool is_refuted = std::any_of(hypotheses.begin(), hypotheses.end(),
                                        [&](const Hypothesis& other) { return is_far_better(other, hypothesis); });
    if (!is_refuted && !hypothesis.residuals.empty()) left.push_back(&hypothesis);
  }
  const std::size_t all = hypotheses.back().residuals.size();
  const bool contain_each_other = std::all_of(left.begin(), left.end(), [&](const Hypothesis* hypothesis) {
    return explains_most(*hypothesis, all) && are_parts(*left.front()->kind, *hypothesis->kind);
  });
  return left.empty() || !contain_each_other ? nullptr : left.front();
}

}  // namespace

void claim_reductions(std::vector<TurnLane>& lanes, const std::vector<std::vector<LaneSet>>& sets_of_lane) {
  const Families all = families_of(sets_of_lane);
  for (const std::uint64_t symbol : symbols_of(lanes, Operation::reduce)) {
    const Families families = held_by_many(all, lanes, symbol);
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
