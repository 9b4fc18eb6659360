#include "analysis/replay/saving.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "analysis/statistics/significance.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

/// The replay errs by the same on all steps, for all that is known: more steps do not make it less.
constexpr double normal_95 = 1.96;

/// In how many steps it was saved: what the others save together is less than a tenth of that, so they are as usual,
/// give or take their noise. 0: in half of the steps or more, so the usual step loses it, or in enough for an interval.
std::int64_t count_pauses(std::vector<double> saved) {
  std::sort(saved.begin(), saved.end(), std::greater<>());
  const double all = std::accumulate(saved.begin(), saved.end(), 0.0);
  double in_pauses = 0;
  for (std::size_t pauses = 1; 2 * pauses < saved.size() && pauses < fewest_samples; ++pauses) {
    in_pauses += saved[pauses - 1];
    if (in_pauses > 0 && all - in_pauses < 0.1 * in_pauses) return static_cast<std::int64_t>(pauses);
  }
  return 0;
}

double as_share(double value) {
  return std::clamp(value, 0.0, 1.0);
}

double median_of(std::vector<double> values) {
  return values.empty() ? 0 : lower_median(values);
}

/// Up to which length a step is usual: 3 median absolute deviations, and 20%, above the median.
double longest_usual(std::span<const double> lengths_ns) {
  const double median_ns = median_of({lengths_ns.begin(), lengths_ns.end()});
  std::vector<double> deviations_ns;
  for (const double length_ns : lengths_ns) deviations_ns.push_back(std::abs(length_ns - median_ns));
  return median_ns + std::max(3 * median_of(std::move(deviations_ns)), 0.2 * median_ns);
}

}  // namespace

StepLengths step_lengths(const ReplayedTime& replayed, Nanoseconds start_ns,
                         std::span<const std::int32_t> steps_apart) {
  StepLengths steps;
  Nanoseconds before_ns = start_ns;
  bool follows_apart = false;
  for (std::size_t step = 0; step < replayed.step_ends_ns.size(); ++step) {
    const Nanoseconds end_ns = replayed.step_ends_ns[step];
    const bool is_apart = std::binary_search(steps_apart.begin(), steps_apart.end(), static_cast<std::int32_t>(step));
    if (end_ns == no_time) {
      follows_apart = follows_apart || is_apart;
      continue;
    }
    if (is_apart || follows_apart) {
      steps.apart_ns += end_ns - before_ns;
    } else {
      steps.lengths_ns.push_back(static_cast<double>(end_ns - before_ns));
      steps.steps.push_back(step);
    }
    follows_apart = is_apart;
    before_ns = end_ns;
  }
  return steps;
}

ReplayError measure_error(const StepLengths& measured, const StepLengths& predicted) {
  const std::vector<double>& lengths_ns = measured.lengths_ns;
  const double longest_ns = longest_usual(lengths_ns);
  std::vector<double> errors;
  // The first lasts from the first activity: not from one end to the next.
  for (std::size_t s = 1; s + 1 < lengths_ns.size(); ++s)
    if (measured.steps[s + 1] == measured.steps[s] + 1 && lengths_ns[s] <= longest_ns &&
        lengths_ns[s + 1] <= longest_ns && lengths_ns[s + 1] > 0)
      errors.push_back(std::abs(predicted.lengths_ns[s] / lengths_ns[s + 1] - 1));
  if (errors.size() < fewest_samples) return {};
  std::sort(errors.begin(), errors.end());
  const auto place = [&](double share) {
    return errors[static_cast<std::size_t>(share * static_cast<double>(errors.size() - 1))];
  };
  return {errors.size(), place(0.5), place(0.9)};
}

Saving measure_saving(std::span<const double> before_ns, std::span<const double> after_ns, Nanoseconds saved_ns,
                      Nanoseconds elapsed_ns, std::optional<double> error, double premise_error) {
  if (elapsed_ns <= 0) return {};
  Saving saving;
  const double share = static_cast<double>(saved_ns) / static_cast<double>(elapsed_ns);
  saving.share = as_share(share);
  if (before_ns.empty()) return saving;
  const double step_ns = static_cast<double>(elapsed_ns) / static_cast<double>(before_ns.size());
  const double longest_ns = longest_usual(after_ns);
  std::vector<double> saved, left;
  for (std::size_t s = 0; s < before_ns.size(); ++s) {
    saved.push_back((before_ns[s] - after_ns[s]) / step_ns);
    if (after_ns[s] <= longest_ns) left.push_back(after_ns[s] / step_ns);
  }
  if (saved_ns > 0) saving.pauses = count_pauses(saved);
  if (saving.pauses > 0) saving.pauses_ns = saved_ns;
  if (saving.pauses == 1) return saving;
  if (left.size() >= fewest_samples) saving.twin_differs = std::numbers::sqrt2 * mean_half_width(left);
  if (!error) return saving;
  const double half_width = std::hypot(mean_half_width(saved), normal_95 * *error, normal_95 * premise_error * share);
  if (share <= half_width && share + half_width >= 1) return saving;
  saving.low = as_share(share - half_width);
  saving.high = as_share(share + half_width);
  return saving;
}

}  // namespace nsys_explain::analysis
