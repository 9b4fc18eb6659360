#include "clock/level_zero.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>

namespace nsys_explain::clock {
namespace {

/// Between two sessions of one boot NTP may step UTC, but rarely by more; a reboot takes longer.
constexpr Nanoseconds same_boot_tolerance_ns = 1'000'000'000;

bool share_clock(const Session& a, const Session& b) {
  if (a.system_clock_ns == no_time || b.system_clock_ns == no_time) return false;
  const bool keys_known = !a.boot_key.empty() && !b.boot_key.empty();
  if (keys_known ? a.boot_key != b.boot_key : a.host.empty() || a.host != b.host) return false;
  if (a.utc_start_ns == no_time || b.utc_start_ns == no_time) return keys_known;
  const Nanoseconds boot_a = a.utc_start_ns - a.system_clock_ns;
  const Nanoseconds boot_b = b.utc_start_ns - b.system_clock_ns;
  return std::max(boot_a, boot_b) - std::min(boot_a, boot_b) <= same_boot_tolerance_ns;
}

/// Indices of the sessions in order of their paths: the order in which references and components are chosen.
std::vector<std::size_t> path_order(std::span<const Session> sessions) {
  std::vector<std::size_t> order(sessions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sessions[a].path < sessions[b].path; });
  return order;
}

/// First session by path of every unit, in order of units. Fills `units`.
std::vector<std::size_t> assign_units(std::span<const Session> sessions, bool host_clocks,
                                      std::vector<std::int32_t>& units) {
  std::vector<std::size_t> first_of_unit;
  std::multimap<std::string, std::int32_t> units_of_host;  // only sessions that name the same thing can share a clock
  units.assign(sessions.size(), -1);
  for (const std::size_t s : path_order(sessions)) {
    const std::string& key = sessions[s].host.empty() ? sessions[s].boot_key : sessions[s].host;
    if (host_clocks) {
      const auto [begin, end] = units_of_host.equal_range(key);
      for (auto unit = begin; unit != end && units[s] < 0; ++unit) {
        if (share_clock(sessions[first_of_unit[unit->second]], sessions[s])) units[s] = unit->second;
      }
    }
    if (units[s] >= 0) continue;
    units[s] = static_cast<std::int32_t>(first_of_unit.size());
    units_of_host.emplace(key, units[s]);
    first_of_unit.push_back(s);
  }
  return first_of_unit;
}

}  // namespace

Nanoseconds job_epoch_utc_ns(std::span<const Session> sessions) {
  Nanoseconds epoch = no_time;
  for (const Session& session : sessions) {
    if (session.utc_start_ns == no_time) continue;
    if (epoch == no_time || session.utc_start_ns < epoch) epoch = session.utc_start_ns;
  }
  return epoch == no_time ? 0 : epoch;
}

SessionTime session_start(const Session& session, Nanoseconds epoch_utc_ns) {
  return SessionTime(session.utc_start_ns == no_time ? 0 : session.utc_start_ns - epoch_utc_ns);
}

LevelZero level_zero(std::span<const Session> sessions, const ClockOptions& options) {
  LevelZero result;
  const bool host_clocks = options.method != ClockMethod::utc && options.method != ClockMethod::collectives;
  const std::vector<std::size_t> first_of_unit = assign_units(sessions, host_clocks, result.units);
  std::vector<std::int32_t> sessions_of_unit(first_of_unit.size(), 0);
  for (const std::int32_t unit : result.units) ++sessions_of_unit[unit];

  const Nanoseconds epoch = job_epoch_utc_ns(sessions);
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const std::int32_t unit = result.units[s];
    const Session& reference = sessions[first_of_unit[unit]];
    SessionClock clock;
    clock.path = sessions[s].path;
    clock.host = sessions[s].host;
    clock.component = unit;
    if (sessions_of_unit[unit] > 1) {
      const bool is_reference = first_of_unit[unit] == s;
      clock.method = ClockMethod::host_clock;
      clock.offset_ns = (session_start(sessions[s], epoch) - session_start(reference, epoch)) -
                        (sessions[s].system_clock_ns - reference.system_clock_ns);
      clock.uncertainty_ns = is_reference ? 0 : host_clock_uncertainty_ns;
    }
    result.clocks.push_back(std::move(clock));
  }
  const std::optional<Nanoseconds> utc = utc_uncertainty(options);
  if (utc) relate_by_utc(sessions, *utc, result.clocks);
  return result;
}

std::optional<Nanoseconds> utc_uncertainty(const ClockOptions& options) {
  if (options.utc_uncertainty_ns) return options.utc_uncertainty_ns;
  return options.method == ClockMethod::utc ? std::optional<Nanoseconds>(ntp_uncertainty_ns) : std::nullopt;
}

void relate_by_utc(std::span<const Session> sessions, Nanoseconds uncertainty_ns, std::vector<SessionClock>& clocks) {
  const std::vector<std::size_t> order = path_order(sessions);
  std::map<std::int32_t, bool> component_has_utc;  // by its reference, the first of its sessions met in path order
  for (const std::size_t s : order) {
    component_has_utc.try_emplace(clocks[s].component, sessions[s].utc_start_ns != no_time);
  }
  std::optional<std::int32_t> joined;
  for (const std::size_t s : order) {
    SessionClock& clock = clocks[s];
    if (!component_has_utc[clock.component]) continue;
    if (!joined) joined = clock.component;
    if (clock.component == *joined) {
      if (!clock.uncertainty_ns) clock.uncertainty_ns = 0;  // the reference of what is now related
      continue;
    }
    const double within = static_cast<double>(clock.uncertainty_ns.value_or(0));
    clock.uncertainty_ns = std::llround(std::hypot(static_cast<double>(uncertainty_ns), within));
    clock.method = ClockMethod::utc;
    clock.component = *joined;
  }
  if (clocks.size() == 1) clocks.front().uncertainty_ns.reset();  // nothing to be related to
  renumber_components(sessions, clocks);
}

void renumber_components(std::span<const Session> sessions, std::vector<SessionClock>& clocks) {
  std::map<std::int32_t, std::int32_t> number;
  for (const std::size_t s : path_order(sessions)) {
    clocks[s].component =
        number.try_emplace(clocks[s].component, static_cast<std::int32_t>(number.size())).first->second;
  }
}

}  // namespace nsys_explain::clock
