#include "clock/fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "clock/estimator.hpp"
#include "clock/host_ties.hpp"
#include "clock/job_clock.hpp"
#include "clock/quality.hpp"
#include "clock/samples.hpp"

namespace nsys_explain::clock {

namespace {

/// Where knots are at most this far apart, what oscillators of servers do between them is below a microsecond
/// (0.1 ppm a minute); a run must be longer than two to be bent.
constexpr double least_interval_ns = 60e9;
constexpr std::size_t most_intervals = 16;
constexpr double rejected_weight = 0.01;

/// number[i]: place of session i in the order of paths.
std::vector<std::int32_t> path_numbers(std::span<const Session> sessions) {
  std::vector<std::size_t> order(sessions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sessions[a].path < sessions[b].path; });
  std::vector<std::int32_t> number(sessions.size());
  for (std::size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<std::int32_t>(i);
  return number;
}

/// Standard uncertainties, known from so many draws, beyond which one of `looked_at` numbers differs from 0 by more
/// than chance: the quantile of Student's t that belongs to a normal one (Wallace 1959, Annals of Mathematical
/// Statistics 30, 1124).
double significance_limit(std::size_t looked_at, std::size_t draws) {
  const double squared_normal = 9 + 2 * std::log(static_cast<double>(looked_at));
  const auto n = static_cast<double>(draws);
  return std::sqrt(n * std::expm1(squared_normal / n * std::pow((8 * n + 3) / (8 * n + 1), 2)));
}

/// Per session: whether its component shows no drift at all. The limit grows with the number of clocks looked at, so
/// that a job on one common clock shows none by chance; where one drifts, all fitted drifts are kept. Drifts are held
/// against that of the session with most observations: the reference may be tied so badly that nothing would differ
/// from it.
std::vector<bool> without_drift(const SampleSet& set, const Estimator& estimator, const Spread& spread) {
  const std::size_t sessions = set.component.size();
  std::vector<std::size_t> members(sessions, 0), base(sessions);
  for (std::size_t s = 0; s < sessions; ++s) {
    const auto component = static_cast<std::size_t>(set.component[s]);
    if (members[component]++ == 0 || set.observed[s] > set.observed[base[component]]) base[component] = s;
  }
  const auto drift_error = [&](std::size_t s, std::size_t draw) {
    const double* const errors = &spread.error_ns[s * 2 * spread.draws];  // at the two ends of a straight clock
    return (errors[spread.draws + draw] - errors[draw]) / estimator.span_ns;
  };
  std::vector<bool> still(sessions, true);
  for (std::size_t s = 0; s < sessions; ++s) {
    const auto component = static_cast<std::size_t>(set.component[s]);
    double squares = 0;
    for (std::size_t d = 0; d < spread.draws; ++d) {
      squares += std::pow(drift_error(s, d) - drift_error(base[component], d), 2);
    }
    const double uncertainty = std::sqrt(squares / static_cast<double>(spread.draws));
    const double difference = std::abs(estimator.state.drift[s] - estimator.state.drift[base[component]]);
    if (difference > significance_limit(members[component], spread.draws) * uncertainty) still[component] = false;
  }
  for (std::size_t s = 0; s < sessions; ++s) still[s] = still[static_cast<std::size_t>(set.component[s])];
  return still;
}

/// Even, so that the pivot is a knot; 1 where the run is too short for drifts to change.
std::size_t intervals_of(double span_ns) {
  const auto pairs = static_cast<std::size_t>(span_ns / (2 * least_interval_ns));
  return pairs == 0 ? 1 : std::min(2 * pairs, most_intervals);
}

/// Lets drifts change along a long run if that is more than noise in any clock. What is looked at is the change of
/// slope at every knot: unlike the bends themselves it does not depend on parts of the run in which a session is
/// silent.
void bend_where_significant(Estimator& estimator, Spread& spread) {
  const std::size_t intervals = intervals_of(estimator.span_ns);
  if (intervals == 1) return;
  const Estimator::Fitted straight = estimator.fitted();
  estimator.bend(intervals);
  Spread bent = estimator.spread();
  const double limit = significance_limit(bent.kink_ns.size(), bent.draws);
  const std::size_t inner = estimator.bends();
  bool significant = false;
  for (std::size_t i = 0; i < bent.kink_ns.size(); ++i) {
    const std::size_t b = i % inner;
    const double* const bend = &estimator.state.bend_ns[i - b];
    const double kink = (b == 0 ? 0 : bend[b - 1]) - 2 * bend[b] + (b + 1 == inner ? 0 : bend[b + 1]);
    significant = significant || std::abs(kink) > limit * bent.kink_ns[i];
  }
  if (significant) {
    spread = std::move(bent);
  } else {
    estimator.return_to(straight);
  }
}

/// Bends of a session for the report: relative to the pivot, where its offset holds.
std::vector<ClockBend> bends_of(const Estimator& estimator, std::size_t session) {
  const std::size_t inner = estimator.bends();
  if (inner == 0) return {};
  const std::vector<double> knots = estimator.knots();
  const double* const bend = &estimator.state.bend_ns[session * inner];
  const double at_pivot = bend[inner / 2];
  std::vector<ClockBend> result;
  for (std::size_t k = 0; k < knots.size(); ++k) {
    const double value = k == 0 || k + 1 == knots.size() ? 0 : bend[k - 1];
    result.push_back({estimator.pivot_ns + std::llround(knots[k] * estimator.span_ns), std::llround(value - at_pivot)});
  }
  return result;
}

SampleClocks make_clocks(const SampleSet& set, const Estimator& estimator, const Spread& spread,
                         const std::vector<bool>& still) {
  const ClockState& state = estimator.state;
  SampleClocks clocks(set.component.size());
  for (std::size_t s = 0; s < clocks.size(); ++s) {
    const bool is_reference = set.component[s] == static_cast<std::int32_t>(s);
    const double bend = estimator.bends() == 0 ? 0 : state.bend_ns[s * estimator.bends() + estimator.bends() / 2];
    clocks[s].method = set.observed[s] > 0 ? ClockMethod::collectives : ClockMethod::host_clock;
    clocks[s].component = set.component[s];
    clocks[s].offset_ns = state.base_ns[s] + std::llround(state.offset_ns[s] + bend);
    clocks[s].drift_ppb = std::round(state.drift[s] * 1e9 * drift_steps_per_ppb) / drift_steps_per_ppb;
    clocks[s].uncertainty_ns =
        is_reference ? 0 : static_cast<Nanoseconds>(std::ceil(std::max(spread.offset_ns[s], least_uncertainty_ns)));
    if (is_reference) continue;
    if (!still[s]) clocks[s].drift_uncertainty_ppb = spread.drift[s] * 1e9;
    clocks[s].bends = bends_of(estimator, s);
  }
  return clocks;
}

/// The drawn errors at the knots, sessions in the order given.
ClockErrors errors_of(const Estimator& estimator, const Spread& spread, const std::vector<std::int32_t>& number) {
  ClockErrors errors;
  const std::vector<double> knots = estimator.knots();
  for (const double knot : knots) errors.at_ns.push_back(estimator.pivot_ns + std::llround(knot * estimator.span_ns));
  errors.draws = spread.draws;
  errors.fitted_graph.assign(number.size(), -1);
  const std::size_t per_session = knots.size() * spread.draws;
  errors.error_ns.reserve(number.size() * per_session);
  for (const std::int32_t s : number) {
    const double* const first = &spread.error_ns[static_cast<std::size_t>(s) * per_session];
    for (std::size_t i = 0; i < per_session; ++i) errors.error_ns.push_back(static_cast<float>(first[i]));
  }
  return errors;
}

Warning warn(Severity severity, std::int64_t count, std::string message) {
  return {severity, WarningSource::analysis, count, std::move(message)};
}

/// Sessions related to their component's reference only by operations that do not synchronise.
void warn_of_weak_bridges(const SampleSet& set, std::vector<Warning>& warnings) {
  std::int64_t count = 0;
  for (std::size_t s = 0; s < set.component.size(); ++s) count += set.bridged[s] != set.component[s] ? 1 : 0;
  if (count == 0) return;
  warnings.push_back(warn(
      Severity::info, count,
      "clocks of sessions are related by operations that do not synchronise their members only: offsets are uncertain by tens of microseconds; capture an all-reduce of these sessions"));
}

/// Sessions most of whose exits do not fit what the others say.
void warn_of_outliers(const SampleSet& set, const Reduction& reduction, std::vector<Warning>& warnings) {
  std::vector<std::int64_t> rejected(set.component.size(), 0);
  for (const SampleGroup& group : set.own.groups) {
    if (!group.active) continue;
    for (const Sample& sample : set.own.of(group)) {
      rejected[sample.session] += relative_weight(sample) < rejected_weight ? 1 : 0;
    }
  }
  rejected = reduction.sum(rejected);
  std::int64_t count = 0;
  for (std::size_t s = 0; s < rejected.size(); ++s) count += 2 * rejected[s] > set.observed[s] ? 1 : 0;
  if (count == 0) return;
  warnings.push_back(warn(
      Severity::error, count,
      "clocks of sessions do not follow one line: more than half of their matched exits disagree with the clock found, so lateness of these sessions is doubtful; check that the traces belong to one run, or analyse a shorter part of it"));
}

/// Most exits agree, and yet too many do not for all matches to be right and all sessions to keep one clock.
void warn_of_disagreement(const ClockResidual& residual, std::vector<Warning>& warnings) {
  constexpr std::int64_t fewest = 20;  // of fewer, one or two are no share
  if (10 * residual.unexplained <= std::max(fewest, residual.samples)) return;
  warnings.push_back(warn(
      Severity::error, 1,
      fmt::format(
          "one in ten of the ends of matched collectives is off the clock found by {:.0f} us or more, and by longer than such a collective takes, so either matches or the clocks of some sessions are wrong, and their lateness is doubtful; compare the table of clocks with drifts that are possible (up to 100 ppm), and export with --include-blobs=true --include-json=true or without losses, so that more is known of communicators",
          static_cast<double>(residual.held_out_p90_ns.value_or(0)) * 1e-3)));
}

void warn_of_components(std::span<const SessionClock> clocks, std::vector<Warning>& warnings) {
  std::int32_t components = 0;
  for (const SessionClock& clock : clocks) components = std::max(components, clock.component + 1);
  if (components < 2) return;
  warnings.push_back(warn(
      Severity::info, components,
      "groups of sessions are not related to each other by any matched collective or host clock: times can be compared within a group only; capture a collective that spans them, or state how well their UTC is synchronised"));
}

/// Everything that collectives say, put into `clocks` (level zero, in the order given).
void fit_collectives(std::span<const Session> sessions, const LevelZero& level, const Observations& observations,
                     const Reduction& reduction, ClockFit& fit) {
  const std::vector<std::int32_t> number = path_numbers(sessions);
  SampleSet set = make_samples(sessions, number, level, observations, reduction);
  if (std::all_of(set.observed.begin(), set.observed.end(), [](std::int64_t n) { return n == 0; })) return;
  std::optional<Estimator> fitted(std::in_place, set, reduction);
  fitted->estimate();
  if (find_loose_classes(set)) {
    relate_sessions(set, reduction);
    if (std::all_of(set.observed.begin(), set.observed.end(), [](std::int64_t n) { return n == 0; })) return;
    fitted.emplace(set, reduction);
    fitted->estimate();
  }
  Estimator& estimator = *fitted;
  Spread spread = estimator.spread();
  bend_where_significant(estimator, spread);
  std::vector<bool> still(sessions.size(), false);
  if (estimator.bends() == 0) still = without_drift(set, estimator, spread);
  if (std::find(still.begin(), still.end(), true) != still.end()) {
    estimator.freeze_drift(still);
    estimator.refine(Estimator::most_steps, Estimator::still_ns);
  }
  fit.report.pivot_ns = estimator.pivot_ns;
  warn_of_weak_bridges(set, fit.warnings);
  warn_of_outliers(set, reduction, fit.warnings);
  SampleClocks clocks = make_clocks(set, estimator, spread, still);
  const std::int64_t moved = move_into_bounds(set, clocks, fit.report.pivot_ns, reduction);
  if (moved > 0) {
    fit.warnings.push_back(warn(
        Severity::info, moved,
        "clock offsets let members leave a collective before the last one entered: moved to the nearest possible value, so small skews of these sessions mean little"));
  }
  fit.report.residual = held_out_residual(estimator, set, reduction);
  warn_of_disagreement(fit.report.residual, fit.warnings);
  fit.errors = errors_of(estimator, spread, number);

  std::vector<bool> has_collectives(sessions.size(), false);
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    if (set.observed[s] > 0) has_collectives[static_cast<std::size_t>(set.component[s])] = true;
  }
  for (std::size_t i = 0; i < sessions.size(); ++i) {
    const SessionClock& found = clocks[number[i]];
    SessionClock& clock = fit.report.sessions[i];
    clock.component = found.component;
    if (!has_collectives[static_cast<std::size_t>(found.component)]) continue;  // level zero is exact
    fit.errors.fitted_graph[i] = found.component;
    clock.method = found.method;
    clock.offset_ns += found.offset_ns;
    clock.drift_ppb = found.drift_ppb;
    clock.uncertainty_ns = found.uncertainty_ns;
    clock.drift_uncertainty_ppb = found.drift_uncertainty_ppb;
    clock.bends = found.bends;
  }
}

/// What the files alone say, because the exits cannot be believed.
void fall_back_to_hosts(std::span<const Session> sessions, const ClockOptions& options, ClockFit& fit) {
  ClockOptions hosts_only = options;
  hosts_only.method = ClockMethod::host_clock;
  hosts_only.utc_uncertainty_ns.reset();
  fit.report.sessions = level_zero(sessions, hosts_only).clocks;
  fit.report.pivot_ns = 0;
  fit.errors = {};
  const Nanoseconds p50 = fit.report.residual.held_out_p50_ns.value_or(0);
  fit.warnings = {warn(
      Severity::error, 1,
      fmt::format(
          "the ends of matched collectives differ by {:.0f} us (median), so many matches must be wrong, and clocks are not fitted to them: sessions of different hosts stay unrelated; export with --include-blobs=true --include-json=true, so that communicators are known",
          static_cast<double>(p50) * 1e-3))};
}

/// Each session by itself.
ClockFit fit_units(std::span<const Session> sessions, const Observations& observations, const Reduction& reduction,
                   const ClockOptions& options) {
  ClockFit fit;
  if (options.method == ClockMethod::utc || options.method == ClockMethod::host_clock) {
    fit.report.sessions = level_zero(sessions, options).clocks;
    return fit;
  }
  ClockOptions without_utc = options;  // UTC comes last: it relates only what nothing better does
  without_utc.utc_uncertainty_ns.reset();
  const LevelZero level = level_zero(sessions, without_utc);
  fit.report.sessions = level.clocks;
  if (!sessions.empty()) fit_collectives(sessions, level, observations, reduction, fit);
  if (!options.method && 2 * fit.report.residual.unexplained > fit.report.residual.samples) {
    fall_back_to_hosts(sessions, options, fit);
  }
  if (options.utc_uncertainty_ns) relate_by_utc(sessions, *options.utc_uncertainty_ns, fit.report.sessions);
  renumber_components(sessions, fit.report.sessions);
  warn_of_components(fit.report.sessions, fit.warnings);
  return fit;
}

}  // namespace

Reduction Reduction::serial() {
  const auto same = [](std::span<const std::int64_t> mine) {
    return std::vector<std::int64_t>(mine.begin(), mine.end());
  };
  return {same, same};
}

ClockFit fit_clocks(std::span<const Session> sessions, Observations observations, const Reduction& reduction,
                    const ClockOptions& options) {
  if (options.method) return fit_units(sessions, observations, reduction, options);
  const HostTies ties =
      tie_hosts(sessions, level_zero(sessions, {.method = {}, .utc_uncertainty_ns = {}}), observations, reduction);
  std::vector<std::int32_t> number;
  const std::vector<Session> representing = representatives(sessions, ties, number);
  observe_representatives(ties, number, observations);
  ClockFit fit = fit_units(representing, observations, reduction, options);
  tell_all_sessions(sessions, ties, number, fit);
  renumber_components(sessions, fit.report.sessions);
  if (ties.contradicted > 0) {
    fit.warnings.push_back(warn(
        Severity::info, ties.contradicted,
        "hosts have sessions that are not on one clock: members would leave collectives before the last one enters, so their clocks are found from collectives; containers with equal names on different machines look like that"));
  }
  return fit;
}

Nanoseconds difference_uncertainty_ns(const std::vector<SessionClock>& clocks, const ClockErrors& errors,
                                      std::size_t session_a, std::size_t session_b, Nanoseconds at_ns) {
  double result = std::hypot(static_cast<double>(clocks[session_a].uncertainty_ns.value_or(0)),
                             static_cast<double>(clocks[session_b].uncertainty_ns.value_or(0)));
  if (errors.draws > 0 && errors.fitted_graph[session_a] >= 0 &&
      errors.fitted_graph[session_a] == errors.fitted_graph[session_b]) {
    const std::vector<Nanoseconds>& times = errors.at_ns;
    const auto after = std::upper_bound(times.begin() + 1, times.end() - 1, at_ns);
    const auto right = static_cast<std::size_t>(after - times.begin());
    const double share =
        static_cast<double>(at_ns - times[right - 1]) / static_cast<double>(times[right] - times[right - 1]);
    const float* const a = &errors.error_ns[(session_a * times.size() + right - 1) * errors.draws];
    const float* const b = &errors.error_ns[(session_b * times.size() + right - 1) * errors.draws];
    double squares = 0;
    for (std::size_t d = 0; d < errors.draws; ++d) {
      const double before = static_cast<double>(a[d]) - static_cast<double>(b[d]);
      const double behind = static_cast<double>(a[errors.draws + d]) - static_cast<double>(b[errors.draws + d]);
      squares += std::pow(before + share * (behind - before), 2);
    }
    result = std::sqrt(squares / static_cast<double>(errors.draws));
    if (!errors.tie_ns.empty()) result = std::hypot(result, errors.tie_ns[session_a], errors.tie_ns[session_b]);
  }
  return static_cast<Nanoseconds>(std::ceil(std::max(result, least_uncertainty_ns)));
}

}  // namespace nsys_explain::clock
