#include "clock/normal_equations.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "clock/conjugate_gradients.hpp"

namespace nsys_explain::clock {
namespace {

/// Stand-ins may count for a few more samples than there are.
constexpr std::int64_t spare = 2;

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
    : fixed_(bound, spare * (set.total_samples + static_cast<std::int64_t>(set.ties.samples.size()))),
      own_(size, 0),
      ties_(size, 0) {}

std::vector<double> ExactSums::total(const Reduction& reduction) const {
  const std::vector<std::int64_t> sums = reduction.sum(own_);
  std::vector<double> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) result[i] = fixed_.restore(sums[i]) + fixed_.restore(ties_[i]);
  return result;
}

Gradient::Gradient(const SampleSet& set, Unknowns unknowns, double bound)
    : set_(set), unknowns_(unknowns), sums_(unknowns.size(), 2 * bound * largest_spans * most_weight(set), set) {}

void Gradient::add(const SampleGroup& group, std::span<const Sample> members, double share, ExactSums::From from) {
  const int bias = set_.classes[group.scale_class].bias;
  const bool plain = bias < 0 && unknowns_.bends == 0;
  double weights = 0, mean = 0;
  for (const Sample& sample : members) {
    weights += sample.weight;
    mean += sample.weight * sample.residual;
  }
  if (weights <= 0) return;
  mean /= weights;
  for (const Sample& sample : members) {
    std::int64_t* const out = sums_.of(from) + static_cast<std::size_t>(sample.session) * unknowns_.columns();
    const double pull = share * sample.weight * (sample.residual - mean);
    if (plain) {
      out[0] += sums_.quantise(pull);
      out[1] += sums_.quantise(pull * static_cast<double>(sample.spans));
      continue;
    }
    const Dependence on = unknowns_.dependence(bias, static_cast<double>(sample.spans));
    for (std::size_t t = 0; t < on.terms; ++t) out[on.column[t]] += sums_.quantise(pull * on.share[t]);
  }
}

NormalEquations::NormalEquations(const SampleSet& set, Unknowns unknowns, std::vector<double> precision, Part part,
                                 const Reduction& reduction)
    : set_(set),
      unknowns_(unknowns),
      precision_(std::move(precision)),
      reduction_(reduction),
      most_weight_(most_weight(set)),
      own_(rows_of(set.own, part)),
      ties_(rows_of(set.ties, part)),
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

Dependence NormalEquations::dependence(const Row& row, const Exit& exit) const {
  return unknowns_.dependence(set_.classes[row.scale_class].bias, static_cast<double>(exit.spans));
}

template <class Visit>
void NormalEquations::for_each_row(const Visit& visit) const {
  for (const ExactSums::From from : {ExactSums::From::own, ExactSums::From::ties}) {
    const Rows& all = from == ExactSums::From::own ? own_ : ties_;
    std::size_t begin = 0;
    for (const Row& row : all.rows) {
      const std::span<const Exit> exits(&all.exits[begin], row.end - begin);
      begin = row.end;
      if (row.weight > 0) visit(row, exits, from);
    }
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
  for (std::size_t i = 0; i < exits.size(); ++i) {
    std::int64_t* const out = to + static_cast<std::size_t>(exits[i].session) * unknowns_.columns() * width;
    const Dependence on = dependence(row, exits[i]);
    for (std::size_t p = 0; p < width; ++p) centred[p] = value[i * width + p] - mean[p];
    for (std::size_t t = 0; t < on.terms; ++t) {
      const double share = sums.scaled(exits[i].weight * on.share[t]);
      std::int64_t* const sum = out + on.column[t] * width;
      for (std::size_t p = 0; p < width; ++p) sum[p] += FixedPoint::cut(share * centred[p]);
    }
  }
}

Block NormalEquations::draw_noise(std::size_t sides) const {
  double most = 0;
  for (const ScaleClass& scale_class : set_.classes) most = std::max(most, scale_class.variance);
  ExactSums sums(unknowns_.size() * sides, 2 * largest_spans * std::sqrt(most * most_weight_), set_);
  std::vector<double> noise;
  for_each_row([&](const Row& row, std::span<const Exit> exits, ExactSums::From from) {
    noise.resize(exits.size() * sides);
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const double deviation = std::sqrt(set_.classes[row.scale_class].variance / exits[i].weight);
      const std::uint64_t bits = mix(row.hash + i);
      for (std::size_t p = 0; p < sides; ++p) noise[i * sides + p] = deviation * sign_of(bits, p);
    }
    add_centred(row, exits, noise, sums, sums.of(from));
  });
  Block result{sides, sums.total(reduction_)};
  for (std::size_t u = 0; u < precision_.size(); ++u) {
    const std::uint64_t bits = mix(~static_cast<std::uint64_t>(u));
    for (std::size_t p = 0; p < sides; ++p) result.values[u * sides + p] += std::sqrt(precision_[u]) * sign_of(bits, p);
  }
  return result;
}

Block NormalEquations::multiply(const Block& x) const {
  ExactSums sums(x.values.size(), 2 * (3 + largest_spans) * largest(x.values) * largest_spans * most_weight_, set_);
  std::vector<double> value;
  for_each_row([&](const Row& row, std::span<const Exit> exits, ExactSums::From from) {
    value.resize(exits.size() * x.width);
    if (x.width == 1 && unknowns_.bends == 0 && set_.classes[row.scale_class].bias < 0) {
      multiply_plain(row, exits, x, value, sums, sums.of(from));
      return;
    }
    std::fill(value.begin(), value.end(), 0.0);
    for (std::size_t i = 0; i < exits.size(); ++i) {
      const double* const unknown =
          &x.values[static_cast<std::size_t>(exits[i].session) * unknowns_.columns() * x.width];
      double* const out = &value[i * x.width];
      const Dependence on = dependence(row, exits[i]);
      for (std::size_t t = 0; t < on.terms; ++t) {
        const double* const column = unknown + on.column[t] * x.width;
        for (std::size_t p = 0; p < x.width; ++p) out[p] += on.share[t] * column[p];
      }
    }
    add_centred(row, exits, value, sums, sums.of(from));
  });
  Block result{x.width, sums.total(reduction_)};
  for (std::size_t i = 0; i < result.values.size(); ++i) result.values[i] += precision_[i / x.width] * x.values[i];
  ground(set_, unknowns_, result);
  return result;
}

/// The common case, in which nearly all time is spent: one side, and exits that depend on offset and drift only.
void NormalEquations::multiply_plain(const Row& row, std::span<const Exit> exits, const Block& x,
                                     std::span<double> value, ExactSums& sums, std::int64_t* to) const {
  const std::size_t columns = unknowns_.columns();
  double mean = 0;
  for (std::size_t i = 0; i < exits.size(); ++i) {
    const double* const unknown = &x.values[static_cast<std::size_t>(exits[i].session) * columns];
    value[i] = unknown[0] + static_cast<double>(exits[i].spans) * unknown[1];
    mean += exits[i].weight * value[i];
  }
  mean /= row.weight;
  for (std::size_t i = 0; i < exits.size(); ++i) {
    std::int64_t* const out = to + static_cast<std::size_t>(exits[i].session) * columns;
    const double pull = sums.scaled(exits[i].weight) * (value[i] - mean);
    out[0] += FixedPoint::cut(pull);
    out[1] += FixedPoint::cut(pull * static_cast<double>(exits[i].spans));
  }
}

CommunicatorClocks NormalEquations::communicator_clocks() const {
  const std::size_t columns = unknowns_.columns();
  const std::size_t cells = CommunicatorClocks::cells(columns);
  const Communicators& communicators = set_.communicators;
  const std::size_t memberships = communicators.session.size();
  ExactSums sums((memberships + unknowns_.sessions) * cells, largest_spans * largest_spans * most_weight_, set_);
  for_each_row([&](const Row& row, std::span<const Exit> exits, ExactSums::From from) {
    // At one time for all members: by differences between their times a clock of the communicator could follow each of
    // them.
    double time = 0;
    for (const Exit& exit : exits) time += static_cast<double>(exit.spans);
    const Dependence on =
        unknowns_.dependence(set_.classes[row.scale_class].bias, time / static_cast<double>(exits.size()));
    const bool known = row.communicator >= 0;
    std::size_t membership = known ? communicators.begin_of(static_cast<std::size_t>(row.communicator)) : 0;
    for (const Exit& exit : exits) {
      while (known && communicators.session[membership] < exit.session) ++membership;
      const std::size_t place = known ? membership : memberships + static_cast<std::size_t>(exit.session);
      const double weight = known ? exit.weight : exit.weight * (1 - exit.weight / row.weight);
      std::int64_t* const triangle = sums.of(from) + place * cells;
      for (std::size_t i = 0; i < on.terms; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          triangle[CommunicatorClocks::cell(on.column[i], on.column[j])] +=
              sums.quantise(weight * on.share[i] * on.share[j]);
        }
      }
    }
  });
  std::vector<double> total = sums.total(reduction_);
  for (std::size_t u = 0; u < precision_.size(); ++u) {
    const std::size_t column = u % columns;
    total[(memberships + u / columns) * cells + CommunicatorClocks::cell(column, column)] += precision_[u];
  }
  return {set_, unknowns_, std::move(total)};
}

Block NormalEquations::solve(const Block& rhs, double tolerance) const {
  Block grounded = rhs;
  ground(set_, unknowns_, grounded);
  return conjugate_gradients(
      grounded, tolerance, [this](const Block& x) { return multiply(x); },
      [this](const Block& r) { return like_.solve(r); });
}

}  // namespace nsys_explain::clock
