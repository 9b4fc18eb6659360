#include "normal_equations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace nsys_explain::clock {
namespace {

constexpr int most_iterations = 2'000;
/// Preconditioned residual that is not worth another pass. A is an inverse covariance, so this counts squared standard
/// uncertainties; parts of the job that are weakly tied to each other show only a millionth of theirs in it.
constexpr double negligible_energy = 1e-13;
/// Passes without progress after which rounding is all that is left.
constexpr int patience = 60;

/// Adds, for every active group, weight * (value - weighted mean of the values) to the unknowns the member's exit
/// depends on.
/// `width` is a std::size_t, or a constant that lets the compiler unroll.
template <class Width, class ValueOf>
void add_centred(const SampleSet& set, const Samples& samples, const Unknowns& unknowns, Width width,
                 const FixedPoint& fixed, const ValueOf& value_of, std::vector<std::int64_t>& sums) {
  std::vector<double> values, mean(width);
  for (const SampleGroup& group : samples.groups) {
    if (!group.active) continue;
    const std::span<const Sample> members = samples.of(group);
    const int bias = set.classes[group.scale_class].bias;
    values.resize(members.size() * width);
    std::fill(mean.begin(), mean.end(), 0.0);
    double total = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      value_of(group, i, members[i], &values[i * width]);
      total += members[i].weight;
      for (std::size_t p = 0; p < width; ++p) mean[p] += members[i].weight * values[i * width + p];
    }
    if (total <= 0) continue;
    for (double& m : mean) m /= total;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const Sample& sample = members[i];
      std::int64_t* const out = &sums[static_cast<std::size_t>(sample.session) * unknowns.columns() * width];
      const Dependence on = unknowns.dependence(bias, sample.spans);
      for (std::size_t t = 0; t < on.terms; ++t) {
        const double share = sample.weight * on.share[t];
        std::int64_t* const sum = out + on.column[t] * width;
        for (std::size_t p = 0; p < width; ++p) sum[p] += fixed.quantise(share * (values[i * width + p] - mean[p]));
      }
    }
  }
}

/// Sums of all tool ranks and of the ties, which every rank holds, as real numbers.
std::vector<double> total(const std::vector<std::int64_t>& own, const std::vector<std::int64_t>& ties,
                          const FixedPoint& fixed, const Reduction& reduction) {
  const std::vector<std::int64_t> sums = reduction.sum(own);
  std::vector<double> result(sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) result[i] = fixed.restore(sums[i]) + fixed.restore(ties[i]);
  return result;
}

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

}  // namespace

NormalEquations::NormalEquations(const SampleSet& set, Unknowns unknowns, std::vector<double> precision,
                                 const Reduction& reduction)
    : set_(set), unknowns_(unknowns), precision_(std::move(precision)), reduction_(reduction) {
  for (const ScaleClass& scale_class : set.classes) {
    most_weight_ = std::max(most_weight_, 1 / (scale_class.scale_ns * scale_class.scale_ns));
  }
  factor_diagonal();
}

FixedPoint NormalEquations::sums_of(double bound) const {
  return {bound * most_weight_, set_.total_samples + static_cast<std::int64_t>(set_.ties.samples.size())};
}

Block NormalEquations::right_hand_side(std::size_t width, double bound, const Values& values) const {
  const FixedPoint fixed = sums_of(2 * bound * largest_spans);
  std::vector<std::int64_t> own_sums(unknowns_.size() * width, 0), tie_sums(own_sums.size(), 0);
  add_centred(set_, set_.own, unknowns_, width, fixed, values, own_sums);
  add_centred(set_, set_.ties, unknowns_, width, fixed, values, tie_sums);
  return {width, total(own_sums, tie_sums, fixed, reduction_)};
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

Block NormalEquations::multiply(const Block& x) const {
  return x.width == 1 ? multiply_by(x, std::integral_constant<std::size_t, 1>()) : multiply_by(x, x.width);
}

template <class Width>
Block NormalEquations::multiply_by(const Block& x, Width width) const {
  const FixedPoint fixed = sums_of(2 * (3 + largest_spans) * largest(x.values) * largest_spans);
  std::vector<std::int64_t> own_sums(x.values.size(), 0), tie_sums(x.values.size(), 0);
  const auto model = [&](const SampleGroup& group, std::size_t, const Sample& sample, double* out) {
    const double* const unknown = &x.values[static_cast<std::size_t>(sample.session) * unknowns_.columns() * width];
    const Dependence on = unknowns_.dependence(set_.classes[group.scale_class].bias, sample.spans);
    for (std::size_t p = 0; p < width; ++p) out[p] = unknown[p] + sample.spans * unknown[width + p];
    for (std::size_t t = 2; t < on.terms; ++t) {
      const double* const column = unknown + on.column[t] * width;
      for (std::size_t p = 0; p < width; ++p) out[p] += on.share[t] * column[p];
    }
  };
  add_centred(set_, set_.own, unknowns_, width, fixed, model, own_sums);
  add_centred(set_, set_.ties, unknowns_, width, fixed, model, tie_sums);
  Block result{x.width, total(own_sums, tie_sums, fixed, reduction_)};
  for (std::size_t i = 0; i < result.values.size(); ++i) result.values[i] += precision_[i / width] * x.values[i];
  ground(result);
  return result;
}

void NormalEquations::factor_diagonal() {
  const std::size_t columns = unknowns_.columns();
  const std::size_t cells = columns * columns;
  const FixedPoint fixed = sums_of(largest_spans * largest_spans);
  const auto add = [&](const Samples& samples, std::vector<std::int64_t>& sums) {
    for (const SampleGroup& group : samples.groups) {
      if (!group.active) continue;
      const int bias = set_.classes[group.scale_class].bias;
      double weight = 0;
      for (const Sample& sample : samples.of(group)) weight += sample.weight;
      for (const Sample& sample : samples.of(group)) {
        const double own = weight > 0 ? sample.weight * (1 - sample.weight / weight) : 0.0;
        std::int64_t* const block = &sums[static_cast<std::size_t>(sample.session) * cells];
        const Dependence on = unknowns_.dependence(bias, sample.spans);
        for (std::size_t i = 0; i < on.terms; ++i) {
          for (std::size_t j = 0; j <= i; ++j) {
            block[on.column[i] * columns + on.column[j]] += fixed.quantise(own * on.share[i] * on.share[j]);
          }
        }
      }
    }
  };
  std::vector<std::int64_t> own_sums(unknowns_.sessions * cells, 0), tie_sums(own_sums.size(), 0);
  add(set_.own, own_sums);
  add(set_.ties, tie_sums);
  factors_ = total(own_sums, tie_sums, fixed, reduction_);
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
