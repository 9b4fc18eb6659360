#include "clock/normal_equations.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "model/hash.hpp"

namespace nsys_explain::clock {
namespace {

/// Stand-ins may count for a few more samples than there are.
constexpr std::int64_t spare = 2;

/// Products without progress. The preconditioner is close, so each should bring a decimal; where none does, the sums of
/// integers are all that is left.
constexpr int patience = 8;

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

double most_weight(const SampleSet& set) {
  double result = 0;
  for (const ScaleClass& scale_class : set.classes) {
    result = std::max(result, 1 / (scale_class.scale_ns * scale_class.scale_ns));
  }
  return result;
}

double sign_of(std::uint64_t bits, std::size_t side) {
  return ((bits >> side) & 1U) != 0 ? 1.0 : -1.0;
}

}  // namespace

ExactSums::ExactSums(std::size_t size, double bound, const SampleSet& set)
    : fixed_(bound, spare * set.total_samples), own_(size, 0) {}

std::vector<double> ExactSums::total(const Reduction& reduction) const {
  const std::vector<std::int64_t> sums = reduction.sum(own_);
  std::vector<double> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) result[i] = fixed_.restore(sums[i]);
  return result;
}

Gradient::Gradient(const SampleSet& set, Unknowns unknowns, double bound)
    : set_(set), unknowns_(unknowns), sums_(unknowns.size(), 2 * bound * largest_share * most_weight(set), set) {}

void Gradient::add(const SampleGroup& group, std::span<const Sample> members, double share) {
  const std::size_t bias = set_.classes[group.scale_class].bias;
  double weights = 0, mean = 0;
  for (const Sample& sample : members) {
    weights += sample.weight;
    mean += sample.weight * sample.residual;
  }
  if (weights <= 0) return;
  mean /= weights;
  for (const Sample& sample : members) {
    std::int64_t* const out = sums_.own() + static_cast<std::size_t>(sample.session) * unknowns_.columns();
    const double pull = share * sample.weight * (sample.residual - mean);
    const Dependence on = unknowns_.dependence(static_cast<double>(sample.spans));
    out[on.knot] += sums_.quantise(pull * on.before);
    out[on.knot + 1] += sums_.quantise(pull * on.behind);
    out[unknowns_.bias_column(bias)] += sums_.quantise(pull);
  }
}

Block Gradient::total(const Reduction& reduction) const {
  Block result{1, sums_.total(reduction)};
  gradient_from_knots(unknowns_, result);
  return result;
}

NormalEquations::NormalEquations(const SampleSet& set, Unknowns unknowns, std::vector<double> precision, Part part,
                                 const Reduction& reduction)
    : set_(set),
      unknowns_(unknowns),
      precision_(std::move(precision)),
      reduction_(reduction),
      most_weight_(most_weight(set)),
      own_(rows_of(set.own, part)),
      like_(communicator_clocks()) {}

NormalEquations::Rows NormalEquations::rows_of(const Samples& samples, Part part) const {
  Rows result;
  std::size_t rows = 0, exits = 0;
  for (const SampleGroup& group : samples.groups) {
    if (share_in(group, part) == 0) continue;
    ++rows;
    exits += static_cast<std::size_t>(group.count);
  }
  result.rows.reserve(rows);
  result.exits.reserve(exits);
  for (const SampleGroup& group : samples.groups) {
    const double share = share_in(group, part);
    if (share == 0) continue;
    double weight = 0;
    for (const Sample& sample : samples.of(group)) {
      weight += share * sample.weight;
      result.exits.push_back({share * sample.weight, sample.spans, sample.session});
    }
    result.rows.push_back({result.exits.size(), group.scale_class, group.communicator, weight, group.hash});
  }
  return result;
}

template <class Visit>
void NormalEquations::for_each_row(const Visit& visit) const {
  std::size_t begin = 0;
  for (const Row& row : own_.rows) {
    const std::span<const Exit> exits(&own_.exits[begin], row.end - begin);
    begin = row.end;
    if (row.weight > 0) visit(row, exits);
  }
}

/// Adds weight * (value - weighted mean of the values) to the unknowns that the exits depend on; `value` holds `width`
/// numbers per exit.
void NormalEquations::add_centred(const Row& row, std::span<const Exit> exits, std::span<const double> value,
                                  ExactSums& sums, std::int64_t* to) const {
  const std::size_t width = value.size() / exits.size();
  std::vector<double> mean(width, 0.0);
  for (std::size_t i = 0; i < exits.size(); ++i) {
    for (std::size_t p = 0; p < width; ++p) mean[p] += exits[i].weight * value[i * width + p];
  }
  for (double& m : mean) m /= row.weight;
  std::vector<double> centred(width);
  const std::size_t bias = bias_of(row);
  for (std::size_t i = 0; i < exits.size(); ++i) {
    std::int64_t* const out = to + static_cast<std::size_t>(exits[i].session) * unknowns_.columns() * width;
    for (std::size_t p = 0; p < width; ++p) centred[p] = value[i * width + p] - mean[p];
    const auto add = [&](std::size_t column, double share) {
      const double scaled = sums.scaled(exits[i].weight * share);
      for (std::size_t p = 0; p < width; ++p) out[column * width + p] += FixedPoint::cut(scaled * centred[p]);
    };
    const Dependence on = unknowns_.dependence(static_cast<double>(exits[i].spans));
    add(on.knot, on.before);
    add(on.knot + 1, on.behind);
    add(unknowns_.bias_column(bias), 1);
  }
}

Block NormalEquations::draw_noise(std::size_t sides) const {
  double most = 0;
  for (const ScaleClass& scale_class : set_.classes) most = std::max(most, scale_class.variance);
  ExactSums sums(unknowns_.size() * sides, 2 * largest_share * std::sqrt(most * most_weight_), set_);
  std::vector<double> noise;
  for_each_row([&](const Row& row, std::span<const Exit> exits) {
    noise.resize(exits.size() * sides);
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const double deviation = std::sqrt(set_.classes[row.scale_class].variance / exits[i].weight);
      const std::uint64_t bits = splitmix(row.hash + i);
      for (std::size_t p = 0; p < sides; ++p) noise[i * sides + p] = deviation * sign_of(bits, p);
    }
    add_centred(row, exits, noise, sums, sums.own());
  });
  Block result{sides, sums.total(reduction_)};
  gradient_from_knots(unknowns_, result);
  for (std::size_t u = 0; u < precision_.size(); ++u) {
    const std::uint64_t bits = splitmix(~static_cast<std::uint64_t>(u));
    for (std::size_t p = 0; p < sides; ++p) result.values[u * sides + p] += std::sqrt(precision_[u]) * sign_of(bits, p);
  }
  return result;
}

Block NormalEquations::multiply(const Block& unknown) const {
  const std::size_t width = unknown.width;
  Block x = unknown;
  to_knots(unknowns_, x);
  ExactSums sums(x.values.size(), 2 * (1 + 2 * largest_share) * largest(x.values) * largest_share * most_weight_, set_);
  std::vector<double> value;
  for_each_row([&](const Row& row, std::span<const Exit> exits) {
    value.resize(exits.size() * width);
    const std::size_t bias = bias_of(row);
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const double* const session = &x.values[static_cast<std::size_t>(exits[i].session) * unknowns_.columns() * width];
      const Dependence on = unknowns_.dependence(static_cast<double>(exits[i].spans));
      const double* const before = session + on.knot * width;
      for (std::size_t p = 0; p < width; ++p) {
        value[i * width + p] = on.before * before[p] + on.behind * before[width + p];
        value[i * width + p] += session[unknowns_.bias_column(bias) * width + p];
      }
    }
    add_centred(row, exits, value, sums, sums.own());
  });
  Block result{width, sums.total(reduction_)};
  gradient_from_knots(unknowns_, result);
  add_products(precision_, unknown, result);
  ground(set_, unknowns_, result);
  return result;
}

CommunicatorClocks NormalEquations::communicator_clocks() const {
  const std::size_t knots = unknowns_.knots;
  const std::size_t kinds = CommunicatorClocks::kinds(unknowns_);
  const std::size_t band = CommunicatorClocks::band(knots);
  const Communicators& communicators = set_.communicators;
  const std::size_t memberships = communicators.session.size();
  ExactSums sums((memberships + unknowns_.sessions) * kinds * band, largest_share * largest_share * most_weight_, set_);
  for_each_row([&](const Row& row, std::span<const Exit> exits) {
    // At one time for all members: by differences between their times a clock of the communicator could follow each of
    // them.
    double time = 0;
    for (const Exit& exit : exits) time += static_cast<double>(exit.spans);
    const Dependence on = unknowns_.dependence(time / static_cast<double>(exits.size()));
    const bool known = row.communicator >= 0;
    std::size_t membership = known ? communicators.begin_of(static_cast<std::size_t>(row.communicator)) : 0;
    for (const Exit& exit : exits) {
      while (known && communicators.session[membership] < exit.session) ++membership;
      const std::size_t place = known ? membership : memberships + static_cast<std::size_t>(exit.session);
      const double weight = known ? exit.weight : exit.weight * (1 - exit.weight / row.weight);
      std::int64_t* const sum = sums.own() + (place * kinds + (bias_of(row) + 1)) * band;
      sum[on.knot] += sums.quantise(weight * on.before * on.before);
      sum[on.knot + 1] += sums.quantise(weight * on.behind * on.behind);
      sum[knots + on.knot] += sums.quantise(weight * on.before * on.behind);
    }
  });
  return {set_, unknowns_, sums.total(reduction_), precision_};
}

Block NormalEquations::solve(const Block& rhs, double tolerance) const {
  Block grounded = rhs;
  ground(set_, unknowns_, grounded);
  return conjugate_gradients(
      grounded, tolerance, patience, [this](const Block& x) { return multiply(x); },
      [this](const Block& r) { return like_.solve(r); });
}

}  // namespace nsys_explain::clock
