#include "clock/estimator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include "clock/fixed_point.hpp"
#include "clock/normal_equations.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::clock {
namespace {

constexpr double drift_deviation = 1e-4;  // oscillators differ by less than 100 ppm; matters for a handful of instances
constexpr double wander = 3e-7;           // of a clock off its straight line, per span: drifts change by below 1 ppm
constexpr double frozen_precision = 1e6;  // 1 / ns^2: no data come near it
constexpr double solve_tolerance = 1e-3;  // the next iteration solves for what is left
/// Of the root of the sum of all squared standard uncertainties: what is left is spread over all unknowns, each of
/// which the draws tell to 9 %.
constexpr double spread_tolerance = 1e-4;
/// Squared standard uncertainties that the average unknown moves in a step that ends the search: 3 % of one.
constexpr double still_energy = 1e-3;
constexpr double near_ns = 10;      // what the next stage would change anyway
constexpr double rough_ns = 1'000;  // far below what drifts, not yet fitted, leave
constexpr double close_ns = 1'000;  // nearer than this, weights change as their slopes tell

/// What a step falls short by on normal noise: the mean of w over that of psi', as weights know nothing of how they
/// will change. Beyond 2 steps would grow.
double stretch_of(Loss loss) {
  switch (loss) {
    case Loss::huber:
      return 1.16;
    case Loss::tukey:
      return 1.2;
    case Loss::squares:
      break;
  }
  return 1;
}

/// Of any clock within the run, ns.
double largest_change(const Block& step, const Unknowns& unknowns) {
  double largest = 0;
  for (std::size_t i = 0; i < step.values.size(); ++i) {
    if (unknowns.is_clock(i % unknowns.columns())) largest = std::max(largest, std::abs(step.values[i]));
  }
  return largest;
}

/// Where the weighted members of an instance agree; their median where they have no weights yet.
double common_exit(std::span<const Sample> members, Estimator::Centre by, std::vector<double>& scratch) {
  if (by == Estimator::Centre::weighted) {
    double total = 0, sum = 0;
    for (const Sample& sample : members) {
      total += sample.weight;
      sum += sample.weight * sample.residual;
    }
    if (total > 0) return sum / total;
  }
  scratch.clear();
  for (const Sample& sample : members) scratch.push_back(sample.residual);
  return mean_median(scratch);
}

}  // namespace

Estimator::Estimator(SampleSet& set, const Reduction& reduction)
    : set_(set),
      reduction_(reduction),
      unknowns_{set.component.size(), set.biases, 2},
      frozen_(set.component.size(), true),
      noise_(set) {
  const std::size_t sessions = set.component.size();
  state.base_ns.assign(sessions, 0);
  state.offset_ns.assign(sessions, 0.0);
  state.drift.assign(sessions, 0.0);
  state.bias_ns.assign(sessions * set.biases, 0.0);
}

void Estimator::estimate() {
  for (SampleGroup& group : set_.own.groups) group.active = group.usable;
  hear(Part::chosen);
  set_.scales_are_known = false;
  update_biases(set_);
  iterate(Loss::squares, Centre::median);
  iterate_until_still(Loss::huber, Centre::median, 6, rough_ns);
  find_pivot();
  frozen_.assign(frozen_.size(), false);
  approach_from_near();
  set_.scales_are_known = true;
  update_biases(set_);
  refine(most_steps, still_ns);
}

/// By stages of growing trust in what has been found so far.
void Estimator::approach_from_near() {
  // The median of an instance stands a wrong match from the start, but of few members it is one of them: its residual
  // of 0 would make the scale too small.
  iterate_until_still(Loss::huber, Centre::median, 10, near_ns);
  iterate_until_still(Loss::huber, Centre::weighted, most_steps, near_ns);
  if (set_.thinned) {
    iterate_until_still(Loss::tukey, Centre::weighted, most_steps, near_ns);
    hear(Part::all);
  }
  refine(most_steps, still_ns);
}

void Estimator::refine(int most, double enough_ns) {
  iterate_until_still(Loss::tukey, Centre::weighted, most, enough_ns);
}

/// The chosen part says almost as well as the whole which way to go, and the gradient of the whole how far: that
/// converges at once.
Part Estimator::matrix_part() const {
  return heard_ == Part::chosen ? Part::chosen : Part::stand_ins;
}

void Estimator::update_residuals() {
  for (const SampleGroup& group : set_.own.groups)
    if (group.multiplicity > 0) compute_residuals(group, set_.own.of(group), Centre::median);
}

void Estimator::freeze_drift(const std::vector<bool>& frozen) {
  frozen_ = frozen;
  for (std::size_t s = 0; s < frozen.size(); ++s) {
    if (frozen[s]) state.drift[s] = 0;
  }
}

void Estimator::bend(std::size_t intervals) {
  unknowns_.knots = intervals + 1;
  state.bend_ns.assign(unknowns_.sessions * unknowns_.bends(), 0.0);
  // Exits that a straight line could not follow have no weight now: all of them must be heard again.
  hear(Part::chosen);
  iterate(Loss::squares, Centre::median);
  approach_from_near();
}

Estimator::Fitted Estimator::fitted() const {
  Fitted result{state, unknowns_, noise_, set_.classes, {}};
  result.weights.reserve(set_.own.samples.size());
  for (const Sample& sample : set_.own.samples) result.weights.emplace_back(sample.weight, sample.scale);
  return result;
}

void Estimator::return_to(const Fitted& fitted) {
  state = fitted.state;
  unknowns_ = fitted.unknowns;
  noise_ = fitted.noise;
  set_.classes = fitted.classes;
  for (std::size_t i = 0; i < fitted.weights.size(); ++i) {
    std::tie(set_.own.samples[i].weight, set_.own.samples[i].scale) = fitted.weights[i];
  }
}

std::vector<double> Estimator::knots() const {
  std::vector<double> result;
  const auto intervals = static_cast<double>(unknowns_.knots - 1);
  for (std::size_t k = 0; k < unknowns_.knots; ++k) result.push_back(static_cast<double>(k) / intervals - 0.5);
  return result;
}

/// Where steps grow, the matrix promises too much: half of a step is enough until they shrink again. Where they shrink
/// no more, weights and clocks go round each other, and no further step is nearer.
void Estimator::iterate_until_still(Loss loss, Centre centre, int most, double enough_ns) {
  constexpr int patience = 3;
  double before = std::numeric_limits<double>::max(), least = before, trust = 1;
  int least_at = 0;
  for (int i = 0; i < most && i - least_at <= patience; ++i) {
    const Step step = iterate(loss, centre, trust);
    if (step.moved_ns < enough_ns || step.energy < still_energy * static_cast<double>(unknowns_.size())) break;
    trust = step.energy > before ? trust / 2 : std::min(2 * trust, 1.0);
    before = step.energy;
    if (before < least) least_at = i;
    least = std::min(least, before);
  }
}

/// One step for all clocks, of which so much is taken.
Estimator::Step Estimator::iterate(Loss loss, Centre centre, double trust) {
  const bool with_scales = loss != Loss::squares;
  ResidualCounts seen(with_scales ? set_.classes.size() : 0);
  double largest = 0;
  for_each_heard([&](const SampleGroup& group, std::span<Sample> members, double) {
    compute_residuals(group, members, centre);
    for (const Sample& sample : members) largest = std::max(largest, std::abs(sample.residual));
    if (with_scales) noise_.see(group, members, seen);
  });
  if (with_scales) noise_.estimate(seen, parameters(), heard_, reduction_);
  const std::vector<std::int64_t> exponent = {FixedPoint::exponent_above(largest)};
  const double bound = std::ldexp(1.0, static_cast<int>(reduction_.maximum(exponent).front()));

  Gradient gradient(set_, unknowns_, bound);
  for_each_heard([&](const SampleGroup& group, std::span<Sample> members, double share) {
    noise_.weigh(group, members, loss);
    gradient.add(group, members, share);
  });
  Block rhs = gradient.total(reduction_);
  const std::vector<double> known = precision();
  pull_to_expected(known, rhs);
  const NormalEquations equations(set_, unknowns_, known, matrix_part(), reduction_);
  Block step = equations.solve(rhs, solve_tolerance);
  const double energy = dot(step, rhs).front();
  if (largest_change(step, unknowns_) < close_ns) trust *= stretch_of(loss);
  for (double& value : step.values) value *= trust;
  advance(step);
  return {largest_change(step, unknowns_), energy};
}

/// Adds the gradient of what is known beforehand.
void Estimator::pull_to_expected(const std::vector<double>& known, Block& gradient) const {
  const std::size_t biases = set_.biases;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const std::size_t first = s * unknowns_.columns();
    const auto pull = [&](std::size_t column, double value) {
      gradient.values[first + column] -= known[first + column] * value;
    };
    if (!frozen_[s]) pull(unknowns_.drift_column(), state.drift[s] * span_ns);
    for (std::size_t b = 0; b < biases; ++b) pull(unknowns_.bias_column(b), state.bias_ns[s * biases + b]);
    for (std::size_t b = 0; b < bends(); ++b) pull(1 + b, state.bend_ns[s * bends() + b]);
  }
}

/// That the exits determine.
double Estimator::parameters() const {
  double result = 0;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const bool fitted = set_.observed[s] > 0 && set_.component[s] != static_cast<std::int32_t>(s);
    result += fitted ? (frozen_[s] ? 1 : 2) + static_cast<double>(bends()) : 0;
  }
  return result;
}

template <class Visit>
void Estimator::for_each_heard(const Visit& visit) {
  for (const SampleGroup& group : set_.own.groups) {
    const double share = share_in(group, heard_);
    if (share > 0) visit(group, set_.own.of(group), share);
  }
}

void Estimator::compute_residuals(const SampleGroup& group, std::span<Sample> members, Centre centre) {
  const std::size_t biases = set_.biases;
  const std::size_t bias = set_.classes[group.scale_class].bias;
  const Nanoseconds reference = members.front().exit_ns - state.base_ns[members.front().session];
  for (Sample& sample : members) {
    const auto s = static_cast<std::size_t>(sample.session);
    const Nanoseconds x = sample.exit_ns - state.base_ns[s];
    const double since_pivot = static_cast<double>(x - pivot_ns) - state.offset_ns[s];
    sample.residual = static_cast<double>(x - reference) - state.offset_ns[s] - state.drift[s] * since_pivot -
                      state.bias_ns[s * biases + bias];
    sample.spans = static_cast<float>(std::clamp(since_pivot / span_ns, -largest_spans, largest_spans));
    if (bends() > 0) sample.residual -= bend_at(s, static_cast<double>(sample.spans));
  }
  const double common = common_exit(members, centre, scratch_);
  for (Sample& sample : members) sample.residual -= common;
}

/// How far the clock is off its straight line.
double Estimator::bend_at(std::size_t session, double spans) const {
  const Dependence on = unknowns_.dependence(spans);
  const double* const bend = &state.bend_ns[session * bends()];
  const auto at = [&](std::size_t knot) { return knot == 0 || knot + 1 == unknowns_.knots ? 0 : bend[knot - 1]; };
  return on.before * at(on.knot) + on.behind * at(on.knot + 1);
}

/// Middle and length of the run on the clocks known so far.
void Estimator::find_pivot() {
  Nanoseconds earliest = std::numeric_limits<Nanoseconds>::max();
  Nanoseconds latest = std::numeric_limits<Nanoseconds>::lowest() + 1;
  for (const SampleGroup& group : set_.own.groups) {
    if (!group.usable) continue;
    for (const Sample& sample : set_.own.of(group)) {
      const Nanoseconds x = sample.exit_ns - state.base_ns[sample.session];
      earliest = std::min(earliest, x);
      latest = std::max(latest, x);
    }
  }
  const std::vector<std::int64_t> mine = {-earliest, latest};
  const std::vector<std::int64_t> ends = reduction_.maximum(mine);
  span_ns = std::max(1.0, static_cast<double>(ends[1] + ends[0]));
  pivot_ns = -ends[0] + (ends[1] + ends[0]) / 2;
}

std::vector<double> Estimator::precision() const {
  std::vector<double> result(unknowns_.size(), 0.0);
  const double drift = 1 / std::pow(drift_deviation * span_ns, 2);
  const double bend = 1 / std::pow(wander * span_ns, 2);
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    double* const known = &result[s * unknowns_.columns()];
    std::fill_n(known + 1, bends(), bend);
    known[unknowns_.drift_column()] = frozen_[s] ? frozen_precision : drift;
    for (std::size_t b = 0; b < set_.biases; ++b) {
      const double bias_ns = set_.bias_ns[s * set_.biases + b];
      known[unknowns_.bias_column(b)] = 1 / (bias_ns * bias_ns);
    }
  }
  return result;
}

void Estimator::advance(const Block& step) {
  const std::size_t biases = set_.biases;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const double* const mine = &step.values[s * unknowns_.columns()];
    state.offset_ns[s] += mine[0];
    const Nanoseconds whole = std::llround(state.offset_ns[s]);
    state.base_ns[s] += whole;
    state.offset_ns[s] -= static_cast<double>(whole);
    if (!frozen_[s]) state.drift[s] += mine[unknowns_.drift_column()] / span_ns;
    for (std::size_t b = 0; b < biases; ++b) state.bias_ns[s * biases + b] += mine[unknowns_.bias_column(b)];
    for (std::size_t b = 0; b < bends(); ++b) state.bend_ns[s * bends() + b] += mine[1 + b];
  }
}

Spread Estimator::spread() {
  noise_.measure_efficiency(reduction_);
  // One bit of a hash per side: 64 sides know a standard deviation to 9 %, 16 to 18 %: enough where solving is long.
  const std::size_t sides = set_.total_samples <= (1 << 17) ? 64 : 16;
  const NormalEquations equations(set_, unknowns_, precision(), matrix_part(), reduction_);
  return spread_of(equations.solve(equations.draw_noise(sides), spread_tolerance));
}

/// Uncertainties from drawn errors of the unknowns.
Spread Estimator::spread_of(Block drawn) const {
  const std::size_t sides = drawn.width, knots = unknowns_.knots;
  Spread result;
  result.draws = sides;
  const auto deviation = [&](const double* values) {
    double squares = 0;
    for (std::size_t p = 0; p < sides; ++p) squares += values[p] * values[p];
    return std::sqrt(squares / static_cast<double>(sides));
  };
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const double* const mine = &drawn.values[s * unknowns_.columns() * sides];
    result.drift.push_back(deviation(mine + unknowns_.drift_column() * sides) / span_ns);
  }
  to_knots(unknowns_, drawn);
  std::vector<double> at_pivot(sides), kink(sides);
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const double* const errors = &drawn.values[s * unknowns_.columns() * sides];
    result.error_ns.insert(result.error_ns.end(), errors, errors + knots * sides);
    const double* const before_pivot = errors + (knots - 1) / 2 * sides;
    const double* const behind_pivot = errors + knots / 2 * sides;
    for (std::size_t p = 0; p < sides; ++p) at_pivot[p] = (before_pivot[p] + behind_pivot[p]) / 2;
    result.offset_ns.push_back(deviation(at_pivot.data()));
    for (std::size_t b = 0; b < bends(); ++b) {
      const double* const before = errors + b * sides;
      for (std::size_t p = 0; p < sides; ++p) kink[p] = before[p] - 2 * before[sides + p] + before[2 * sides + p];
      result.kink_ns.push_back(deviation(kink.data()));
    }
  }
  return result;
}

}  // namespace nsys_explain::clock
