#include "clock/estimator.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "clock/conjugate_gradients.hpp"
#include "clock/fixed_point.hpp"
#include "clock/magnitude_histogram.hpp"

namespace nsys_explain::clock {
namespace {

constexpr double huber_limit = 1.345;        // 95 % efficiency on normal noise
constexpr double tukey_limit = 4.685;        // the same
constexpr double least_tukey_weight = 1e-6;  // keeps a session whose exits all disagree determined, if badly
constexpr double scatter_limit = 1.041;  // beyond this many scales all residuals count alike: half of them may be wrong
constexpr double normal_scatter = 0.5;   // mean of min((r / limit)^2, 1) of normal residuals
constexpr double median_to_deviation = 1.4826;
constexpr double prior_samples = 4;       // weight of what is known beforehand about a class's scale
constexpr double drift_deviation = 1e-4;  // oscillators differ by less than 100 ppm; matters for a handful of instances
constexpr double wander = 3e-7;           // of a clock off its straight line, per span: drifts change by below 1 ppm
constexpr double frozen_precision = 1e6;  // 1 / ns^2: no data come near it
constexpr double solve_tolerance = 1e-3;  // the next iteration solves for what is left
/// Of the root of the sum of all squared standard uncertainties: of each of 10,000 sessions' at most 1 %, where the
/// draws tell 9 %.
constexpr double spread_tolerance = 1e-4;
constexpr std::size_t many_unknowns = 1 << 14;  // so that drawn errors and what travels of them stay below 8 MB
/// Squared standard uncertainties that the average unknown moves in a step that ends the search: 3 % of one.
constexpr double still_energy = 1e-3;
constexpr double near_ns = 10;       // what the next stage would change anyway
constexpr double rough_ns = 1'000;   // far below what drifts, not yet fitted, leave
constexpr double close_ns = 1'000;   // nearer than this, weights change as their slopes tell
constexpr double least_slope = 0.2;  // of psi: below it the linearised sandwich means nothing

/// From a residual to what the exit was off, in units of its class: its common exit was fitted to it, and the more so
/// the less it scatters, so of its variance 1 - its share of the precision is left. (Of two members both have the same
/// ratio, whatever their noise: what they differ by says nothing about whose it is.)
double inflation(double noise, double total_precision) {
  constexpr double rounding = std::numeric_limits<double>::epsilon();
  const double share = 1 / (noise * noise * total_precision);
  return 1 / (noise * std::sqrt(std::max(1 - share, rounding)));
}

double tukey_weight(double ratio) {
  const double u = ratio / tukey_limit;
  const double inside = 1 - u * u;
  return inside > 0 ? std::max(inside * inside, least_tukey_weight) : least_tukey_weight;
}

/// What a step falls short by on normal noise: the mean of w over that of psi', as weights know nothing of how they
/// will change. Beyond 2 steps would grow.
double stretch_of(Estimator::Loss loss) {
  switch (loss) {
    case Estimator::Loss::huber:
      return 1.16;
    case Estimator::Loss::tukey:
      return 1.2;
    case Estimator::Loss::squares:
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

double median(std::vector<double>& values) {
  const std::size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle), values.end());
  const double upper = values[middle];
  if (values.size() % 2 == 1) return upper;
  return (upper + *std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(middle))) / 2;
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
  return median(scratch);
}

}  // namespace

Estimator::Estimator(SampleSet& set, const Reduction& reduction)
    : set_(set),
      reduction_(reduction),
      unknowns_{set.component.size(), set.bias_ns.size(), 2},
      frozen_(set.component.size(), true) {
  const std::size_t sessions = set.component.size();
  state.base_ns.assign(sessions, 0);
  state.offset_ns.assign(sessions, 0.0);
  state.drift.assign(sessions, 0.0);
  state.bias_ns.assign(sessions * set.bias_ns.size(), 0.0);
  state.noise.assign(sessions * set.bias_ns.size(), 1.0);
}

void Estimator::estimate() {
  for (SampleGroup& group : set_.own.groups) group.active = group.usable;
  hear(Part::chosen);
  iterate(Loss::squares, Centre::median);
  iterate_until_still(Loss::huber, Centre::median, 6, rough_ns);
  find_pivot();
  frozen_.assign(frozen_.size(), false);
  approach_from_near();
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
  place_ties();
  for (Samples* const samples : {&set_.own, &set_.ties}) {
    for (const SampleGroup& group : samples->groups) {
      if (group.multiplicity > 0) compute_residuals(group, samples->of(group), Centre::median);
    }
  }
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
  Fitted result{state, unknowns_, set_.classes, freedom_, {}};
  result.weight.reserve(set_.own.samples.size());
  for (const Sample& sample : set_.own.samples) result.weight.push_back(sample.weight);
  return result;
}

void Estimator::return_to(const Fitted& fitted) {
  state = fitted.state;
  unknowns_ = fitted.unknowns;
  set_.classes = fitted.classes;
  freedom_ = fitted.freedom;
  for (std::size_t i = 0; i < fitted.weight.size(); ++i) set_.own.samples[i].weight = fitted.weight[i];
}

std::vector<double> Estimator::knots() const {
  std::vector<double> result;
  const auto intervals = static_cast<double>(unknowns_.knots - 1);
  for (std::size_t k = 0; k < unknowns_.knots; ++k) result.push_back(static_cast<double>(k) / intervals - 0.5);
  return result;
}

/// Where steps grow, and are larger than what is not known, the matrix promises too much: half of a step is enough
/// then.
void Estimator::iterate_until_still(Loss loss, Centre centre, int most, double enough_ns) {
  const auto unknowns = static_cast<double>(unknowns_.size());
  double energy = std::numeric_limits<double>::max(), trust = 1;
  for (int i = 0; i < most; ++i) {
    const Step step = iterate(loss, centre, trust);
    if (step.moved_ns < enough_ns || step.energy < still_energy * unknowns) break;
    if (step.energy > std::max(energy, unknowns)) trust /= 2;
    energy = step.energy;
  }
}

/// One step for all clocks, of which so much is taken.
Estimator::Step Estimator::iterate(Loss loss, Centre centre, double trust) {
  place_ties();
  const bool with_scales = loss != Loss::squares;
  Scatter scatter(with_scales ? set_.classes.size() : 0);
  double largest = 0;
  for_each_heard([&](const SampleGroup& group, std::span<Sample> members, double, ExactSums::From from) {
    compute_residuals(group, members, centre);
    for (const Sample& sample : members) largest = std::max(largest, std::abs(sample.residual));
    if (with_scales && from == ExactSums::From::own) see(group, members, scatter);
  });
  if (with_scales) {
    estimate_scales(scatter);
    estimate_noise();
  }
  const std::vector<std::int64_t> exponent = {FixedPoint::exponent_above(largest)};
  const double bound = std::ldexp(1.0, static_cast<int>(reduction_.maximum(exponent).front()));

  Gradient gradient(set_, unknowns_, bound);
  for_each_heard([&](const SampleGroup& group, std::span<Sample> members, double share, ExactSums::From from) {
    weigh(group, members, loss);
    gradient.add(group, members, share, from);
  });
  Block rhs = gradient.total(reduction_);
  const std::vector<double> known = precision();
  const std::size_t biases = set_.bias_ns.size();
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const std::size_t first = s * unknowns_.columns();
    const auto expect = [&](std::size_t column, double value) {
      rhs.values[first + column] -= known[first + column] * value;
    };
    if (!frozen_[s]) expect(unknowns_.drift_column(), state.drift[s] * span_ns);
    for (std::size_t b = 0; b < biases; ++b) expect(unknowns_.bias_column(b), state.bias_ns[s * biases + b]);
    for (std::size_t b = 0; b < bends(); ++b) expect(1 + b, state.bend_ns[s * bends() + b]);
  }
  const NormalEquations equations(set_, unknowns_, known, matrix_part(), reduction_);
  Block step = equations.solve(rhs, solve_tolerance);
  const double energy = dot(step, rhs).front();
  if (largest_change(step, unknowns_) < close_ns) trust *= stretch_of(loss);
  for (double& value : step.values) value *= trust;
  advance(step);
  return {largest_change(step, unknowns_), energy};
}

template <class Visit>
void Estimator::for_each_heard(const Visit& visit) {
  for (const ExactSums::From from : {ExactSums::From::own, ExactSums::From::ties}) {
    Samples& samples = from == ExactSums::From::own ? set_.own : set_.ties;
    for (const SampleGroup& group : samples.groups) {
      const double share = share_in(group, heard_);
      if (share > 0) visit(group, samples.of(group), share, from);
    }
  }
}

void Estimator::compute_residuals(const SampleGroup& group, std::span<Sample> members, Centre centre) {
  const std::size_t biases = set_.bias_ns.size();
  const int bias = set_.classes[group.scale_class].bias;
  const Nanoseconds reference = members.front().exit_ns - state.base_ns[members.front().session];
  for (Sample& sample : members) {
    const auto s = static_cast<std::size_t>(sample.session);
    const Nanoseconds x = sample.exit_ns - state.base_ns[s];
    const double since_pivot = static_cast<double>(x - pivot_ns) - state.offset_ns[s];
    sample.residual = static_cast<double>(x - reference) - state.offset_ns[s] - state.drift[s] * since_pivot;
    if (bias >= 0) sample.residual -= state.bias_ns[s * biases + static_cast<std::size_t>(bias)];
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

/// Counts the residuals of an instance for the scale of its class.
void Estimator::see(const SampleGroup& group, std::span<const Sample> members, Scatter& scatter) const {
  const auto scale_class = static_cast<std::size_t>(group.scale_class);
  std::int64_t* const bins = &scatter.counts[scale_class * magnitude_histogram::bins];
  const int bias = set_.classes[scale_class].bias;
  const double total = total_precision(members, bias);
  for (const Sample& sample : members) {
    ++bins[magnitude_histogram::bin_of(sample.residual * inflation(noise_of(sample, bias), total))];
  }
  scatter.counts.back() += group.count - 1;
}

/// Median residual of every class, freed of what the fit took out of it, and drawn to what is known beforehand where
/// there are but a few.
void Estimator::estimate_scales(const Scatter& scatter) {
  namespace histogram = magnitude_histogram;
  const std::size_t classes = set_.classes.size();
  const std::vector<std::int64_t> counts = reduction_.sum(scatter.counts);
  double parameters = 0;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const bool fitted = set_.observed[s] > 0 && set_.component[s] != static_cast<std::int32_t>(s);
    parameters += fitted ? (frozen_[s] ? 1 : 2) + static_cast<double>(bends()) : 0;
  }
  const auto equations = static_cast<double>(counts.back());
  freedom_ = equations > parameters ? (equations - parameters) / equations : 0.0;
  for (std::size_t k = 0; k < classes; ++k) {
    ScaleClass& scale_class = set_.classes[k];
    if (scale_class.fixed) continue;
    const std::span<const std::int64_t> bins(&counts[k * histogram::bins], histogram::bins);
    std::int64_t samples = 0;
    for (const std::int64_t count : bins) samples += count;
    const double seen = median_to_deviation * histogram::quantile(bins, 0.5);
    const auto n = static_cast<double>(samples);
    const double variance = (n * seen * seen + prior_samples * scale_class.prior_ns * scale_class.prior_ns) /
                            (n * freedom_ + prior_samples);
    scale_class.scale_ns = std::max(std::sqrt(variance), smallest_scale_ns);
  }
}

double Estimator::noise_of(const Sample& sample, int bias) const {
  return bias < 0 ? 1.0
                  : state.noise[static_cast<std::size_t>(sample.session) * set_.bias_ns.size() +
                                static_cast<std::size_t>(bias)];
}

/// Of all exits of an instance together, in units of their class.
double Estimator::total_precision(std::span<const Sample> members, int bias) const {
  if (bias < 0) return static_cast<double>(members.size());
  double total = 0;
  for (const Sample& sample : members) total += std::pow(noise_of(sample, bias), -2);
  return total;
}

/// Exits of biased operations scatter the more, the larger a member's bias is, by factors of ten and more; weighing all
/// alike would let the noisiest member's clock follow a few of its exits. One step towards an M-estimate of scale.
void Estimator::estimate_noise() {
  const std::size_t biases = set_.bias_ns.size();
  if (biases == 0) return;
  const FixedPoint fixed(1, set_.total_samples + 1);
  std::vector<std::int64_t> sums(state.noise.size() * 2, 0);
  for (const SampleGroup& group : set_.own.groups) {
    const ScaleClass& scale_class = set_.classes[group.scale_class];
    if (share_in(group, heard_) == 0 || scale_class.bias < 0) continue;
    const std::span<const Sample> members = set_.own.of(group);
    const double total = total_precision(members, scale_class.bias);
    for (const Sample& sample : members) {
      const std::size_t n =
          static_cast<std::size_t>(sample.session) * biases + static_cast<std::size_t>(scale_class.bias);
      const double ratio = sample.residual * inflation(state.noise[n], total) / scale_class.scale_ns;
      sums[2 * n] += 1;
      sums[2 * n + 1] += fixed.quantise(std::min(ratio * ratio / (scatter_limit * scatter_limit), 1.0));
    }
  }
  sums = reduction_.sum(sums);
  for (std::size_t n = 0; n < state.noise.size(); ++n) {
    const auto count = static_cast<double>(sums[2 * n]);
    const double scatter = (fixed.restore(sums[2 * n + 1]) + prior_samples * normal_scatter) / (count + prior_samples);
    state.noise[n] = std::max(1.0, state.noise[n] * std::sqrt(scatter / normal_scatter));
  }
}

void Estimator::weigh(const SampleGroup& group, std::span<Sample> members, Loss loss) const {
  const ScaleClass& scale_class = set_.classes[group.scale_class];
  const double total = total_precision(members, scale_class.bias);
  for (Sample& sample : members) {
    const double noise = noise_of(sample, scale_class.bias);
    const double scale = scale_class.scale_ns * noise;
    const double per_scale = 1 / scale;
    const double ratio = std::abs(sample.residual) * inflation(noise, total) / scale_class.scale_ns;
    double weight = 1;
    if (loss == Loss::huber && ratio > huber_limit) weight = huber_limit / ratio;
    if (loss == Loss::tukey) weight = tukey_weight(ratio);
    sample.scale = static_cast<float>(scale);
    sample.weight = weight * per_scale * per_scale;
  }
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

/// Ties hold at any time; theirs are the two ends of the run, on the clock of their first session.
void Estimator::place_ties() {
  for (std::size_t g = 0; g < set_.ties.groups.size(); ++g) {
    const std::span<Sample> members = set_.ties.of(set_.ties.groups[g]);
    const auto half = static_cast<Nanoseconds>(span_ns / 2);
    const Nanoseconds at = pivot_ns + state.base_ns[members.front().session] + (g % 2 == 0 ? -half : half);
    for (Sample& sample : members) sample.exit_ns = at;
  }
}

std::vector<double> Estimator::precision() const {
  std::vector<double> result(unknowns_.size(), 0.0);
  const double drift = 1 / std::pow(drift_deviation * span_ns, 2);
  const double bend = 1 / std::pow(wander * span_ns, 2);
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    double* const known = &result[s * unknowns_.columns()];
    std::fill_n(known + 1, bends(), bend);
    known[unknowns_.drift_column()] = frozen_[s] ? frozen_precision : drift;
    for (std::size_t b = 0; b < set_.bias_ns.size(); ++b) {
      known[unknowns_.bias_column(b)] = 1 / (set_.bias_ns[b] * set_.bias_ns[b]);
    }
  }
  return result;
}

void Estimator::advance(const Block& step) {
  const std::size_t biases = set_.bias_ns.size();
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

/// Variance of every class's weighted noise relative to what its weights claim, from the sandwich covariance
/// H^-1 M H^-1 of an M-estimator. Per instance, with the common exit eliminated: M is the square of the scores w e,
/// H has psi' where A, which the weights make, has w. What eliminating takes away (1 - w / sum w) matters for small n.
void Estimator::measure_efficiency() {
  const std::size_t classes = set_.classes.size();
  const FixedPoint fixed(tukey_limit * tukey_limit, set_.total_samples + 1);
  std::vector<std::int64_t> sums(classes * 4, 0);
  std::vector<double> slopes;
  for (const SampleGroup& group : set_.own.groups) {
    if (share_in(group, Part::chosen) == 0) continue;
    const std::span<const Sample> members = set_.own.of(group);
    const ScaleClass& scale_class = set_.classes[group.scale_class];
    const double total = total_precision(members, scale_class.bias);
    double weights = 0, all_slopes = 0;
    slopes.clear();
    for (const Sample& sample : members) {
      const double inflate = inflation(noise_of(sample, scale_class.bias), total);
      const double u = sample.residual * inflate / (scale_class.scale_ns * tukey_limit);
      slopes.push_back(u * u < 1 ? (1 - u * u) * (1 - 5 * u * u) : 0.0);
      all_slopes += slopes.back();
      weights += relative_weight(sample);
    }
    std::int64_t* const sum = &sums[static_cast<std::size_t>(group.scale_class) * 4];
    for (std::size_t i = 0; i < members.size(); ++i) {
      const double weight = relative_weight(members[i]);
      const double score = weight * members[i].residual / static_cast<double>(members[i].scale);
      sum[0] += 1;
      sum[1] += fixed.quantise(std::min(score * score, tukey_limit * tukey_limit));
      sum[2] += fixed.quantise(weight * (1 - weight / weights));
      if (all_slopes > least_slope) {
        sum[3] += fixed.quantise(std::max(slopes[i] * (1 - slopes[i] / all_slopes), -1.0));
      }
    }
  }
  sums = reduction_.sum(sums);
  for (std::size_t k = 0; k < classes; ++k) {
    const auto n = static_cast<double>(sums[4 * k]);
    if (set_.classes[k].fixed || n == 0) continue;
    const double square = fixed.restore(sums[4 * k + 1]);
    const double weight = fixed.restore(sums[4 * k + 2]);
    const double slope = std::max(fixed.restore(sums[4 * k + 3]), least_slope * weight);
    const double variance = square / weight * (weight * weight) / (slope * slope);
    set_.classes[k].variance = (n * variance + prior_samples) / (n * freedom_ + prior_samples);
  }
}

Spread Estimator::spread() {
  measure_efficiency();
  // One bit of a hash per side: 64 sides know a standard deviation to 9 %, 16 to 18 %: enough where there are many.
  const std::size_t sides = unknowns_.size() <= many_unknowns ? 64 : 16;
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
