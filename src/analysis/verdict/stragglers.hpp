#pragma once

#include <map>

#include "analysis/verdict/job_delays.hpp"
#include "analysis/waits/waits.hpp"

/// Who makes others wait, beyond chance.
namespace nsys_explain::analysis {

// Which places chance does not explain, and which of them a list of culprits needs.

/// Places that chance would treat alike: of one level, with trace ranks of the same roles. GPUs whose role nobody
/// shares were compared with themselves over time, and that makes them alike.
std::vector<std::vector<std::size_t>> classes_of_likes(std::span<const Place> places, const JobDelays& delays);

/// What chance has to say about each place; by index of the place.
struct Probabilities {
  std::vector<double> proven;  ///< up to the limit of verdicts; 1 above
  std::vector<double> likely;  ///< above that, up to the limit of a mention; 1 elsewhere
  std::vector<double> limit;   ///< of verdicts
  std::vector<double> part;    ///< of what the place takes longer: what this is said of; 1 where kernels say it
};

/// Takes one culprit after the other out of a class, whose work is longer, by sums or by order, down to the first that
/// is not proven.
void test_class(std::vector<std::size_t> members, std::span<const Place> places, const JobDelays& delays, double limit,
                double mention_limit, Probabilities& probabilities);

/// Probability that chance makes all GPUs of a place as slow as their kernels are; 1 where one of them is not slow.
double slow_by_kernels(const Place& place, const JobDelays& delays);

/// Probability that chance gives a pipeline stage so much more than its part of the layers; 1 where it has no more.
double overfull_by_chance(const Place& place, const JobDelays& delays);

/// The places of those with a p-value below 1 that a fit of the ranks' excess work needs. A place two of whose culprits
/// are late at other times than each other is not taken for one, nor one whose others are not late with its culprits.
std::vector<std::size_t> explaining_places(std::span<const Place> places, std::span<const double> p_values,
                                           const JobDelays& delays);

// Trace ranks and nodes whose transfers are slow make their partners late as well: one culprit, many who are late.

/// The slow place whose transfers are most of what `place` takes longer than its likes, if there is one: some of it is
/// slow, or it exchanges with all of it.
const SlowPlace* slow_place_behind(const Place& place, const JobDelays& delays);

/// The trace ranks of the slow place, first, and all that are late by its transfers.
std::vector<std::size_t> late_with(const SlowPlace& slow, const JobDelays& delays);

/// Likewise, with the probability that chance makes them as late.
struct LateTogether {
  std::vector<std::size_t> late;
  double p_value = 1;
};

/// In the order of JobDelays::slow_places.
using SlowPlaces = std::map<const SlowPlace*, LateTogether>;

/// Those that are late by transfers, beyond chance. Who shares slow transfers is last now here, now there, so they are
/// tested together.
SlowPlaces proven_slow_places(const JobDelays& delays, double limit);

/// Takes the slow transfers off those who are late by them, but for the slow places themselves: what is left is
/// their own.
void take_off_slow_transfers(const SlowPlaces& slow_places, JobDelays& delays);

/// Leaves out places with a trace rank of a slow one: they neither hide another culprit nor are one.
void leave_out_slow_places(const SlowPlaces& slow_places, std::span<const Place> places,
                           std::vector<std::size_t>& likes);

/// A cost as a share of all trace ranks' window time; 0 where they have none.
double share_of_windows(Nanoseconds cost, std::span<const RankSummary> ranks);

/// A place that is late: all but evidence of its being no chance, pattern and cause.
Straggler describe(const Place& place, double p_value, std::span<const RankSummary> ranks, const Totals& totals);

/// Adds what rules chance out.
void add_proof(const Place& place, const JobDelays& delays, Straggler& straggler);

/// The share of the elapsed time that is saved if the work of these trace ranks (indices, ascending) were as is usual;
/// empty where no replay tells.
using SavedShare = std::function<std::optional<double>(std::span<const std::size_t>)>;

struct StragglerCriteria {
  double false_alarm_rate = 1e-3;  ///< of naming anybody in a job whose ranks are alike (Bonferroni, step-down)
  /// Of the elapsed time, as far as what it takes longer is beyond chance. Recordings of one job without a fault, in
  /// one hour on one machine, differ by 1% in the length of their steps: less than that is nobody's fault.
  double smallest_cost_share = 0.01;
  // Suspects: worth a longer capture, or a second look once the stragglers are mended.
  double unproven_rate = 0.05;       ///< of suspecting anybody in a job whose ranks are alike (Bonferroni)
  double suspect_cost_share = 0.01;  ///< what it costs, or would cost
};

struct Named {
  std::vector<Straggler> stragglers;         ///< those that cost by themselves first, each by cost
  std::vector<SuspectedStraggler> suspects;  ///< as in JobReport; for too few steps only where steps are known
  std::vector<LateWithoutCost> late_without_cost;
};

/// Names the trace ranks, or places, that take longer themselves than chance among their likes (ranks of one role,
/// places of the same roles) allows, or whose GPUs are known to be slow by their kernels, or that are a pipeline stage
/// with more than its part of the layers, which need no likes; and without whose surplus the job would be done earlier,
/// by enough to matter, be it once the others are mended; of places that share lateness the smallest that explains it
/// (levels.hpp). One culprit is taken out before the next is looked for, so the smaller of two stays visible. Those who
/// are late by transfers through one slow trace rank are named as that rank. A place two of whose culprits are late at
/// other times than each other is not taken for one. `ranks`, `totals` and `delays` are parallel. Patterns and causes
/// are left to judge_pattern and decide_cause.
///
/// The rate of false alarms is shared by the classes of likes, and in each by its members, so that two nodes need no
/// more steps because each of them has many GPUs. `saved` is asked in the same order on every tool rank.
Named find_stragglers(std::span<const RankSummary> ranks, const Totals& totals, const JobDelays& delays,
                      std::span<const Grouping> groupings, const SavedShare& saved,
                      const StragglerCriteria& criteria = {});

}  // namespace nsys_explain::analysis
