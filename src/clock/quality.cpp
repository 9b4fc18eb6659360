#include "clock/quality.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "clock/fixed_point.hpp"
#include "clock/job_clock.hpp"
#include "model/hash.hpp"

namespace nsys_explain::clock {
namespace {

constexpr int most_moves = 64;
constexpr int refining_steps = 4;
constexpr double refining_ns = 10;  // far below the residuals, as is all that half of the data moves the fit by
constexpr double noise_margin = 6;  // scales: the shortest of many transfers meets the worst of many exits
constexpr double trusted_weight = 0.1;
constexpr Nanoseconds unbounded = std::numeric_limits<Nanoseconds>::max() / 4;

bool in_half(const SampleGroup& group, std::uint64_t half) {
  return (splitmix(group.hash) & 1U) == half;
}

/// Per class: counts of magnitudes, the largest one, and those that no transfer explains.
struct Residuals {
  explicit Residuals(std::size_t classes)
      : counts(classes * magnitude_histogram::bins, 0), largest(classes, -1), unexplained(classes, 0) {}

  std::span<const std::int64_t> counts_of(std::size_t scale_class) const {
    return std::span(counts).subspan(scale_class * magnitude_histogram::bins, magnitude_histogram::bins);
  }

  std::vector<std::int64_t> counts, largest;
  std::vector<std::int64_t> unexplained;  ///< how many are off by more than their operation takes
};

/// How far apart ends of one instance may truly lie: all members leave between the last one's enter and the end of the
/// transfer, which the shortest of them shows. Over sockets that is hundreds of microseconds.
Nanoseconds explained_ns(const SampleSet& set, const SampleGroup& group) {
  const std::span<const Sample> members = set.own.of(group);
  Nanoseconds shortest_ns = std::numeric_limits<Nanoseconds>::max();
  for (std::size_t i = 0; i < members.size(); ++i)
    shortest_ns = std::min(shortest_ns, members[i].exit_ns - set.own.enter_ns[group.first + i]);
  return std::max(shortest_ns, largest_credible_residual_ns);
}

/// Fits to the instances outside `half` and collects the residuals of those inside whose sessions the fit knows.
void look_at_half(Estimator& estimator, SampleSet& set, std::uint64_t half, const Reduction& reduction,
                  Residuals& residuals) {
  std::vector<std::int64_t> fitted(set.component.size(), 0);
  for (SampleGroup& group : set.own.groups) {
    group.active = group.usable && !in_half(group, half);
    if (share_in(group, Part::chosen) == 0) continue;
    for (const Sample& sample : set.own.of(group)) ++fitted[sample.session];
  }
  fitted = reduction.sum(fitted);
  estimator.refine(refining_steps, refining_ns);
  estimator.update_residuals();
  for (const SampleGroup& group : set.own.groups) {
    if (!group.usable || group.active || group.multiplicity == 0) continue;
    const auto scale_class = static_cast<std::size_t>(group.scale_class);
    std::int64_t* const counts = &residuals.counts[scale_class * magnitude_histogram::bins];
    std::int64_t& largest = residuals.largest[scale_class];
    const std::span<const Sample> members = set.own.of(group);
    if (!std::all_of(members.begin(), members.end(), [&](const Sample& s) { return fitted[s.session] > 0; })) continue;
    const auto explained = static_cast<double>(explained_ns(set, group));
    for (const Sample& sample : members) {
      residuals.unexplained[scale_class] += std::abs(sample.residual) > explained ? 1 : 0;
      ++counts[magnitude_histogram::bin_of(sample.residual)];
      largest = std::max<std::int64_t>(largest, std::llround(std::abs(sample.residual)));
    }
  }
}

/// Counts of several classes together, as what a report says of them.
struct ResidualSummary {
  std::vector<std::int64_t> counts = std::vector<std::int64_t>(magnitude_histogram::bins, 0);
  std::int64_t samples = 0;
  Nanoseconds largest = -1;

  void add(std::span<const std::int64_t> more, Nanoseconds largest_of_more) {
    for (std::size_t bin = 0; bin < counts.size(); ++bin) {
      counts[bin] += more[bin];
      samples += more[bin];
    }
    largest = std::max(largest, largest_of_more);
  }
  Nanoseconds quantile(double fraction) const {
    return std::min<Nanoseconds>(std::llround(magnitude_histogram::quantile(counts, fraction)), largest);
  }
};

/// Powers of two of nanoseconds, from the first to the last that holds a residual; the first bin begins at 0.
std::vector<ResidualBin> octaves(const ResidualSummary& summary) {
  std::vector<ResidualBin> bins;
  Nanoseconds end = 1;
  for (std::size_t bin = 0; bin < summary.counts.size(); ++bin) {
    while (magnitude_histogram::lower_edge(bin) >= static_cast<double>(end)) end *= 2;
    if (bins.empty() && summary.counts[bin] == 0) continue;
    if (bins.empty() || bins.back().to_ns != end) bins.push_back({end == 1 ? 0 : end / 2, end, 0});
    bins.back().samples += summary.counts[bin];
  }
  while (!bins.empty() && bins.back().samples == 0) bins.pop_back();
  return bins;
}

/// Classes that differ by kernel name only make one row.
std::vector<ClassResidual> residuals_by_class(const SampleSet& set, const Residuals& residuals) {
  using Key = std::tuple<Operation, bool, std::int64_t>;
  std::map<Key, ResidualSummary> rows;
  for (std::size_t k = 0; k < set.classes.size(); ++k) {
    const ScaleClass& c = set.classes[k];
    if (residuals.largest[k] < 0) continue;
    const Key key{c.operation, c.one_host, c.from_bytes};
    rows[key].add(residuals.counts_of(k), residuals.largest[k]);
  }
  std::vector<ClassResidual> result;
  for (const auto& [key, row] : rows) {
    const auto& [operation, one_host, from_bytes] = key;
    result.push_back(
        {operation, one_host, from_bytes, true, row.samples, row.quantile(0.5), row.quantile(0.9), row.largest});
  }
  return result;
}

bool synchronises(const SampleSet& set, const SampleGroup& group) {
  return is_synchronising(set.classes[group.scale_class].operation);
}

/// By how much the offset of every session may still grow (`up`) and shrink (`down`), given the others.
struct Slack {
  std::vector<std::int64_t> up, down;
};

/// Latest enter, or earliest exit negated, over the sessions other than one: the best two of different sessions.
struct BestOfOthers {
  Nanoseconds best = -unbounded, second = -unbounded;
  std::int32_t session = -1;

  void see(Nanoseconds value, std::int32_t of) {
    if (of == session) {
      best = std::max(best, value);
    } else if (value > best) {
      second = best;
      best = value;
      session = of;
    } else {
      second = std::max(second, value);
    }
  }
  Nanoseconds without(std::int32_t other) const { return other == session ? second : best; }
};

Slack find_slack(const SampleSet& set, const SampleClocks& clocks, Nanoseconds pivot_ns, const Reduction& reduction) {
  std::vector<std::int64_t> up(clocks.size(), -unbounded), down(clocks.size(), -unbounded);  // negated: maxima
  std::vector<JobClock> job_clocks;
  for (const SessionClock& clock : clocks) job_clocks.emplace_back(clock, pivot_ns);
  const auto job_time = [&](std::int32_t s, Nanoseconds u_ns) { return job_clocks[s](SessionTime(u_ns)).ns; };
  std::vector<Nanoseconds> enters, exits;
  for (const SampleGroup& group : set.own.groups) {
    if (!group.active || !synchronises(set, group)) continue;
    const std::span<const Sample> members = set.own.of(group);
    if (std::any_of(members.begin(), members.end(),
                    [](const Sample& s) { return relative_weight(s) < trusted_weight; }))
      continue;
    enters.clear();
    exits.clear();
    BestOfOthers latest_enter, earliest_exit;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::int32_t s = members[i].session;
      enters.push_back(job_time(s, set.own.enter_ns[group.first + i]));
      exits.push_back(job_time(s, members[i].exit_ns));
      latest_enter.see(enters[i], s);
      earliest_exit.see(-exits[i], s);
    }
    // A class whose exits are at odds with the fit shall not excuse itself by its large scale.
    const ScaleClass& scale_class = set.classes[group.scale_class];
    const double noise = std::min(scale_class.scale_ns, scale_class.prior_ns);
    const auto margin = static_cast<Nanoseconds>(noise_margin * noise);
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::int32_t s = members[i].session;
      up[s] = std::max(up[s], latest_enter.without(s) - exits[i] - margin);
      down[s] = std::max(down[s], enters[i] + earliest_exit.without(s) - margin);
    }
  }
  Slack slack{reduction.maximum(up), reduction.maximum(down)};
  for (std::int64_t& value : slack.up) value = -value;
  for (std::int64_t& value : slack.down) value = -value;
  return slack;
}

}  // namespace

ClockResidual held_out_residual(Estimator& estimator, SampleSet& set, const Reduction& reduction) {
  std::vector<std::int64_t> groups(2, 0);  // per half
  for (const SampleGroup& group : set.own.groups) {
    if (!group.usable || group.multiplicity == 0) continue;
    ++groups[in_half(group, 1) ? 1 : 0];
  }
  groups = reduction.sum(groups);
  if (groups[0] == 0 || groups[1] == 0) return {};

  const Estimator::Fitted fitted = estimator.fitted();
  Residuals residuals(set.classes.size());
  estimator.hear(Part::chosen);
  for (const std::uint64_t half : {0U, 1U}) {
    look_at_half(estimator, set, half, reduction, residuals);
    estimator.return_to(fitted);
  }
  for (SampleGroup& group : set.own.groups) group.active = group.usable;

  residuals.counts = reduction.sum(residuals.counts);
  residuals.largest = reduction.maximum(residuals.largest);
  residuals.unexplained = reduction.sum(residuals.unexplained);
  ResidualSummary all;
  ClockResidual result;
  for (std::size_t k = 0; k < set.classes.size(); ++k) {
    all.add(residuals.counts_of(k), residuals.largest[k]);
    result.unexplained += residuals.unexplained[k];
  }
  result.by_class = residuals_by_class(set, residuals);
  result.samples = all.samples;
  if (all.samples == 0) return result;
  result.held_out_p50_ns = all.quantile(0.5);
  result.held_out_p90_ns = all.quantile(0.9);
  result.held_out_max_ns = all.largest;
  result.histogram = octaves(all);
  return result;
}

std::int64_t move_into_bounds(const SampleSet& set, SampleClocks& clocks, Nanoseconds pivot_ns,
                              const Reduction& reduction) {
  std::int64_t moved = 0;
  // One clock at a time, the worst first: two that miss their bounds against each other must not both move.
  for (; moved < most_moves; ++moved) {
    const Slack slack = find_slack(set, clocks, pivot_ns, reduction);
    std::size_t worst = clocks.size();
    Nanoseconds shift = 0;
    for (std::size_t s = 0; s < clocks.size(); ++s) {
      if (set.component[s] == static_cast<std::int32_t>(s)) continue;  // the reference does not move
      const Nanoseconds noise = 3 * clocks[s].uncertainty_ns.value_or(0);
      Nanoseconds wanted = 0;
      if (slack.up[s] < -noise) wanted = std::max(slack.up[s], -slack.down[s]);
      if (slack.down[s] < -noise) wanted = std::min(-slack.down[s], slack.up[s]);
      const bool feasible = slack.up[s] >= -slack.down[s];
      if (feasible && std::abs(wanted) > std::abs(shift)) {
        shift = wanted;
        worst = s;
      }
    }
    if (worst == clocks.size()) break;
    clocks[worst].offset_ns += shift;
  }
  return moved;
}

}  // namespace nsys_explain::clock
