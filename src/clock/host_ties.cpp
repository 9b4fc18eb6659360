#include "clock/host_ties.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "clock/samples.hpp"

namespace nsys_explain::clock {
namespace {

/// By session: a number that all sessions on its host's clock share; -1: nothing says so.
std::vector<std::int32_t> candidate_hosts(std::span<const Session> sessions, const LevelZero& level) {
  std::vector<std::int32_t> of_unit(sessions.size(), 0);
  for (const std::int32_t unit : level.units) ++of_unit[static_cast<std::size_t>(unit)];
  std::vector<std::int32_t> hosts;
  std::map<std::string, std::int32_t> by_utc;  // of hosts without system clocks
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const std::int32_t unit = level.units[s];
    if (of_unit[static_cast<std::size_t>(unit)] > 1) {
      hosts.push_back(unit);
    } else if (sessions[s].system_clock_ns == no_time && sessions[s].utc_start_ns != no_time &&
               !sessions[s].boot_key.empty()) {
      hosts.push_back(by_utc.try_emplace(sessions[s].boot_key, unit).first->second);
    } else {
      hosts.push_back(-1);
    }
  }
  return hosts;
}

/// By host number: instances that could contradict it, and those that do.
std::vector<std::int64_t> count_contradictions(std::span<const std::int32_t> hosts, const LevelZero& level,
                                               const Observations& observations) {
  struct Seen {
    Nanoseconds latest_enter_ns, earliest_exit_ns;
    std::int32_t session;
    bool several;
  };
  std::vector<std::int64_t> counts(2 * hosts.size(), 0);
  std::map<std::int32_t, Seen> seen;
  for (const ObservedInstance& instance : observations.instances) {
    if (!is_synchronising(instance.operation)) continue;
    seen.clear();
    for (std::int32_t m = 0; m < instance.members; ++m) {
      const ObservedMember& member = observations.members[static_cast<std::size_t>(instance.first_member + m)];
      const auto s = static_cast<std::size_t>(member.session);
      if (hosts[s] < 0) continue;
      const Nanoseconds offset_ns = level.clocks[s].offset_ns;
      const Nanoseconds enter_ns = member.enter_ns - offset_ns, exit_ns = member.exit_ns - offset_ns;
      const auto [entry, is_new] = seen.try_emplace(hosts[s], Seen{enter_ns, exit_ns, member.session, false});
      if (is_new) continue;
      Seen& host = entry->second;
      host = {std::max(host.latest_enter_ns, enter_ns), std::min(host.earliest_exit_ns, exit_ns), host.session,
              host.several || host.session != member.session};
    }
    for (const auto& [host, times] : seen) {
      if (!times.several) continue;
      ++counts[2 * static_cast<std::size_t>(host)];
      if (times.earliest_exit_ns < times.latest_enter_ns - 3 * host_tie_ns)
        ++counts[2 * static_cast<std::size_t>(host) + 1];
    }
  }
  return counts;
}

}  // namespace

HostTies tie_hosts(std::span<const Session> sessions, const LevelZero& level, const Observations& observations,
                   const Reduction& reduction) {
  const std::vector<std::int32_t> hosts = candidate_hosts(sessions, level);
  const std::vector<std::int64_t> counts = reduction.sum(count_contradictions(hosts, level, observations));
  const auto is_contradicted = [&](std::int32_t host) {
    const auto h = static_cast<std::size_t>(host);
    return 100 * counts[2 * h + 1] > counts[2 * h];
  };
  std::vector<std::size_t> order(sessions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return sessions[a].path < sessions[b].path; });
  HostTies ties;
  ties.representative.resize(sessions.size());
  ties.offset_ns.assign(sessions.size(), 0);
  std::map<std::int32_t, std::size_t> first;
  for (const std::size_t s : order) {
    ties.representative[s] = s;
    if (hosts[s] < 0) continue;
    const auto [entry, is_new] = first.try_emplace(hosts[s], s);
    if (is_new) ties.contradicted += is_contradicted(hosts[s]) ? 1 : 0;
    if (is_contradicted(hosts[s])) continue;
    ties.representative[s] = entry->second;
    ties.offset_ns[s] = level.clocks[s].offset_ns - level.clocks[entry->second].offset_ns;
  }
  return ties;
}

std::vector<Session> representatives(std::span<const Session> sessions, const HostTies& ties,
                                     std::vector<std::int32_t>& number) {
  std::vector<Session> chosen;
  number.assign(sessions.size(), -1);
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    if (ties.representative[s] != s) continue;
    number[s] = static_cast<std::int32_t>(chosen.size());
    chosen.push_back(sessions[s]);
  }
  for (std::size_t s = 0; s < sessions.size(); ++s) number[s] = number[ties.representative[s]];
  return chosen;
}

void observe_representatives(const HostTies& ties, std::span<const std::int32_t> number, Observations& observations) {
  for (ObservedMember& member : observations.members) {
    const auto s = static_cast<std::size_t>(member.session);
    member.enter_ns -= ties.offset_ns[s];
    member.exit_ns -= ties.offset_ns[s];
    member.session = number[s];
  }
  for (std::vector<std::int32_t>& sessions : observations.communicators) {
    for (std::int32_t& session : sessions) session = number[static_cast<std::size_t>(session)];
    std::sort(sessions.begin(), sessions.end());
    sessions.erase(std::unique(sessions.begin(), sessions.end()), sessions.end());
  }
}

void tell_all_sessions(std::span<const Session> sessions, const HostTies& ties, std::span<const std::int32_t> number,
                       ClockFit& fit) {
  const std::vector<SessionClock> known = std::exchange(fit.report.sessions, {});
  std::vector<std::int32_t> tied(known.size(), 0);
  for (const std::int32_t n : number) ++tied[static_cast<std::size_t>(n)];
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const auto n = static_cast<std::size_t>(number[s]);
    SessionClock clock = known[n];
    clock.path = sessions[s].path;
    clock.host = sessions[s].host;
    if (tied[n] > 1) {
      const bool has_system_clock = sessions[s].system_clock_ns != no_time;
      if (ties.representative[s] != s || clock.method != ClockMethod::collectives)
        clock.method = has_system_clock ? ClockMethod::host_clock : ClockMethod::utc;
      const double tie_ns = ties.representative[s] == s ? 0 : static_cast<double>(host_tie_ns);
      clock.offset_ns += ties.offset_ns[s];
      clock.uncertainty_ns = std::llround(std::hypot(static_cast<double>(clock.uncertainty_ns.value_or(0)), tie_ns));
    }
    fit.report.sessions.push_back(std::move(clock));
  }
  if (fit.errors.draws == 0) return;
  const ClockErrors of_known = std::exchange(fit.errors, {});
  const std::size_t per_session = of_known.at_ns.size() * of_known.draws;
  fit.errors.at_ns = of_known.at_ns;
  fit.errors.draws = of_known.draws;
  for (std::size_t s = 0; s < sessions.size(); ++s) {
    const auto n = static_cast<std::size_t>(number[s]);
    const auto first = of_known.error_ns.begin() + static_cast<std::ptrdiff_t>(n * per_session);
    fit.errors.error_ns.insert(fit.errors.error_ns.end(), first, first + static_cast<std::ptrdiff_t>(per_session));
    fit.errors.fitted_graph.push_back(of_known.fitted_graph[n]);
    fit.errors.tie_ns.push_back(ties.representative[s] == s ? 0 : static_cast<float>(host_tie_ns));
  }
}

}  // namespace nsys_explain::clock
