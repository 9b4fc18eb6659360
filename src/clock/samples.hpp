#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "clock/fit.hpp"

/// The observations as the estimator sees them. Sessions are numbered in order of their paths here, so that the
/// reference of a component is its smallest number.
namespace nsys_explain::clock {

/// Exits are recorded in steps of 32 ns: no class is trusted to agree better than this.
inline constexpr double smallest_scale_ns = 10;

/// Instances that share a noise scale: operation, log2 size, kernel name, tree or not, within one host or across.
struct ScaleClass {
  Operation operation = Operation::unknown;
  bool one_host = false;
  bool by_tree = false;
  std::int64_t from_bytes = -1;  ///< message sizes below twice this; -1: not known
  double prior_ns = 0;
  double scale_ns = 0;
  std::int64_t instances = 0;
  double least_ns = 0;    ///< median of how long an instance takes the member that it takes least: its last one
  std::size_t bias = 0;   ///< column of the members' biases
  double variance = 1;    ///< of the weighted noise, relative to what the weights say (see estimator.cpp)
  bool is_loose = false;  ///< members do not end together, so that it relates nothing
};

/// One member of one instance, as little of it as a step of the estimator needs: steps are as fast as memory.
struct Sample {
  Nanoseconds exit_ns = 0;  ///< level-zero time: session time - level-zero offset
  double residual = 0;      ///< ns
  double weight = 0;        ///< 1 / ns^2
  std::int32_t session = 0;
  float spans = 0;  ///< time since the pivot, in spans
  float scale = 1;  ///< expected size of the residual, ns
};

/// 1 for an exit that agrees with the fit, near 0 for one that is let go.
inline double relative_weight(const Sample& sample) {
  const double scale = sample.scale;
  return sample.weight * scale * scale;
}

struct SampleGroup {
  std::size_t first = 0;
  std::int32_t count = 0;
  std::int32_t scale_class = 0;
  std::int32_t communicator = -1;  ///< of SampleSet::communicators; -1: not known
  std::uint64_t hash = 0;          ///< of the contents: the same wherever the instance lies
  bool usable = true;  ///< relates sessions that nothing better relates, or belongs to a synchronising operation
  /// How many instances this one stands for in the part that is enough to come close; 0: not chosen for it.
  std::int32_t multiplicity = 1;
  bool active = true;  ///< counts in the fit at hand (held-out groups do not)
};

/// Instances that count: the chosen ones, the chosen ones for as many as they stand for, or all.
enum class Part : std::uint8_t { chosen, stand_ins, all };

/// How often an instance counts in a part.
inline double share_in(const SampleGroup& group, Part part) {
  if (!group.active) return 0;
  if (part == Part::stand_ins) return static_cast<double>(group.multiplicity);
  return part == Part::all || group.multiplicity > 0 ? 1 : 0;
}

struct Samples {
  std::vector<Sample> samples;
  std::vector<Nanoseconds> enter_ns;  ///< of the own samples, level-zero time
  std::vector<SampleGroup> groups;

  std::span<Sample> of(const SampleGroup& group) {
    return {&samples[group.first], static_cast<std::size_t>(group.count)};
  }
  std::span<const Sample> of(const SampleGroup& group) const {
    return {&samples[group.first], static_cast<std::size_t>(group.count)};
  }
};

/// Which sessions belong to which communicators. Those of the same sessions are one here, those of one session none.
struct Communicators {
  std::vector<std::size_t> end;       ///< per communicator, of its memberships
  std::vector<std::int32_t> session;  ///< per membership; ascending within a communicator

  std::size_t size() const { return end.size(); }
  std::size_t begin_of(std::size_t communicator) const { return communicator == 0 ? 0 : end[communicator - 1]; }
};

struct SampleSet {
  std::size_t sessions = 0;
  Samples own;  ///< of this tool rank
  std::vector<ScaleClass> classes;
  Communicators communicators;          ///< the same on every tool rank
  std::int64_t total_samples = 0;       ///< of all tool ranks
  bool thinned = false;                 ///< some instances are not chosen
  std::vector<std::int32_t> component;  ///< smallest session reachable by usable groups
  std::vector<std::int32_t> bridged;    ///< the same by synchronising operations only
  std::vector<std::int64_t> observed;   ///< usable samples per session, all tool ranks
  std::size_t biases = 0;               ///< columns of biases
  /// Biases are as the scales say. Until then they may be large, so that scales tell what varies from instance to
  /// instance, and not how classes disagree.
  bool scales_are_known = false;
  std::vector<double> bias_ns;     ///< [session * biases + column]: standard deviation (update_biases)
  std::vector<double> last_share;  ///< [session * classes + class]: how often it is the last to enter, beyond one in
                                   ///< its members and beyond chance
};

/// Sets which groups are usable, and what they relate.
void relate_sessions(SampleSet& set, const Reduction& reduction);

/// After a fit: operations that need not synchronise, and whose members leave further apart than the last one takes, as
/// after sends that are done before they are received. False where there are none.
bool find_loose_classes(SampleSet& set);

/// How much members leave earlier or later than others for good (docs/method.md, "How members leave").
void update_biases(SampleSet& set);

/// Instances of one session only relate nothing and are left out. `number[i]` is the path-order number of session i.
SampleSet make_samples(std::span<const Session> sessions, std::span<const std::int32_t> number, const LevelZero& level,
                       const Observations& observations, const Reduction& reduction);

}  // namespace nsys_explain::clock
