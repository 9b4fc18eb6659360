#include "normal_equations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

namespace nsys_explain::clock {
namespace {

constexpr int most_iterations = 2'000;
/// Preconditioned residual that is not worth another pass. A is an inverse covariance, so this counts squared standard
/// uncertainties; parts of the job that are weakly tied to each other show only a millionth of theirs in it.
constexpr double negligible_energy = 1e-13;
/// Passes without progress after which rounding is all that is left.
constexpr int patience = 60;

/// Stand-ins may count for a few more samples than there are.
constexpr std::int64_t spare = 2;

double largest(std::span<const double> values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

std::vector<double> dot(const Block& a, const Block& b) {
  std::vector<double> result(a.width, 0.0);
  for (std::size_t i = 0; i < a.values.size(); ++i) result[i % a.width] += a.values[i] * b.values[i];
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
      out[1] += sums_.quantise(pull * sample.spans);
      continue;
    }
    const Dependence on = unknowns_.dependence(bias, sample.spans);
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
      ties_(rows_of(set.ties, part)) {
  factor_diagonal();
}

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
      result.exits.push_back({share * sample.weight, static_cast<float>(sample.spans), sample.session});
    }
    result.rows.push_back({result.exits.size(), group.scale_class, weight, group.hash});
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
  ground(result);
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

void NormalEquations::ground(Block& block) const {
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    if (set_.component[s] != static_cast<std::int32_t>(s)) continue;
    for (std::size_t column = 0; column < unknowns_.columns(); ++column) {
      if (!unknowns_.is_relative(column)) continue;
      const std::size_t first = (s * unknowns_.columns() + column) * block.width;
      std::fill_n(block.values.begin() + static_cast<std::ptrdiff_t>(first), block.width, 0.0);
    }
  }
}

void NormalEquations::factor_diagonal() {
  const std::size_t columns = unknowns_.columns();
  const std::size_t cells = columns * columns;
  ExactSums sums(unknowns_.sessions * cells, largest_spans * largest_spans * most_weight_, set_);
  for_each_row([&](const Row& row, std::span<const Exit> exits, ExactSums::From from) {
    for (const Exit& exit : exits) {
      const double own = exit.weight * (1 - exit.weight / row.weight);
      std::int64_t* const block = sums.of(from) + static_cast<std::size_t>(exit.session) * cells;
      const Dependence on = dependence(row, exit);
      for (std::size_t i = 0; i < on.terms; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          block[on.column[i] * columns + on.column[j]] += sums.quantise(own * on.share[i] * on.share[j]);
        }
      }
    }
  });
  factors_ = sums.total(reduction_);
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    double* const block = &factors_[s * cells];
    for (std::size_t i = 0; i < columns; ++i) block[i * columns + i] += precision_[s * columns + i];
    if (set_.component[s] == static_cast<std::int32_t>(s)) {
      for (std::size_t i = 0; i < columns; ++i) {
        for (std::size_t j = 0; j <= i; ++j) {
          if (unknowns_.is_relative(i) || unknowns_.is_relative(j)) block[i * columns + j] = 0;  // grounded
        }
      }
    }
    for (std::size_t j = 0; j < columns; ++j) {
      double pivot = block[j * columns + j];
      const double before = pivot;
      for (std::size_t k = 0; k < j; ++k) pivot -= block[j * columns + k] * block[j * columns + k];
      // Nothing known about this unknown by itself: 0 marks it, and the preconditioner leaves it alone.
      const double root = pivot > 1e-12 * before ? std::sqrt(pivot) : 0.0;
      block[j * columns + j] = root;
      for (std::size_t i = j + 1; i < columns; ++i) {
        double value = block[i * columns + j];
        for (std::size_t k = 0; k < j; ++k) value -= block[i * columns + k] * block[j * columns + k];
        block[i * columns + j] = root > 0 ? value / root : 0.0;
      }
    }
  }
}

Block NormalEquations::precondition(const Block& r) const {
  const std::size_t columns = unknowns_.columns();
  const std::size_t width = r.width;
  Block z = r;
  for (std::size_t s = 0; s < unknowns_.sessions; ++s) {
    const double* const block = &factors_[s * columns * columns];
    double* const out = &z.values[s * columns * width];
    for (std::size_t p = 0; p < width; ++p) {
      for (std::size_t i = 0; i < columns; ++i) {
        double value = out[i * width + p];
        for (std::size_t k = 0; k < i; ++k) value -= block[i * columns + k] * out[k * width + p];
        out[i * width + p] = block[i * columns + i] > 0 ? value / block[i * columns + i] : 0.0;
      }
      for (std::size_t i = columns; i-- > 0;) {
        double value = out[i * width + p];
        for (std::size_t k = i + 1; k < columns; ++k) value -= block[k * columns + i] * out[k * width + p];
        out[i * width + p] = block[i * columns + i] > 0 ? value / block[i * columns + i] : 0.0;
      }
    }
  }
  return z;
}

Block NormalEquations::solve(const Block& rhs, double tolerance) const {
  const std::size_t width = rhs.width;
  Block x{width, std::vector<double>(rhs.values.size(), 0.0)};
  Block r = rhs;
  ground(r);
  Block z = precondition(r);
  Block direction = z;
  std::vector<double> rz = dot(r, z);
  std::vector<double> enough;
  enough.reserve(width);
  for (const double energy : rz) enough.push_back(std::max(tolerance * tolerance * energy, negligible_energy));
  double best = std::numeric_limits<double>::max();
  int best_at = 0;
  for (int iteration = 0; iteration < most_iterations; ++iteration) {
    double excess = 0;
    for (std::size_t p = 0; p < width; ++p) excess = std::max(excess, rz[p] / enough[p]);
    if (excess < best) {
      best = excess;
      best_at = iteration;
    }
    if (excess <= 1 || iteration - best_at > patience) break;
    const Block product = multiply(direction);
    const std::vector<double> curvature = dot(direction, product);
    for (std::size_t p = 0; p < width; ++p) {
      const bool moving = curvature[p] > 0 && rz[p] > enough[p];
      const double step = moving ? rz[p] / curvature[p] : 0.0;
      for (std::size_t i = p; i < x.values.size(); i += width) {
        x.values[i] += step * direction.values[i];
        r.values[i] -= step * product.values[i];
      }
    }
    z = precondition(r);
    const std::vector<double> next = dot(r, z);
    for (std::size_t p = 0; p < width; ++p) {
      const double keep = rz[p] > 0 ? next[p] / rz[p] : 0.0;
      for (std::size_t i = p; i < x.values.size(); i += width) {
        direction.values[i] = z.values[i] + keep * direction.values[i];
      }
    }
    rz = next;
  }
  return x;
}

}  // namespace nsys_explain::clock
