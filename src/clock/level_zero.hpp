#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nsys_explain/model/identity.hpp"
#include "nsys_explain/model/job_report.hpp"

namespace nsys_explain::clock {

struct ClockOptions {
  /// What may relate sessions: UTC only, the hosts' own clocks only, collectives only; empty: everything known.
  std::optional<ClockMethod> method;
  /// One standard uncertainty of UTC between hosts where the user vouches for it (PTP): relates what nothing else does.
  std::optional<Nanoseconds> utc_uncertainty_ns;
};

/// UTC between hosts kept by NTP, where the user asks for method utc and does not say how good it is.
inline constexpr Nanoseconds ntp_uncertainty_ns = 10'000'000;

/// Between sessions of one host: their host clocks agree to nanoseconds, but each session converts GPU to host time by
/// its own fit, and those differ by microseconds.
inline constexpr Nanoseconds host_clock_uncertainty_ns = 5'000;

/// Earliest UTC start of all sessions; 0 where none recorded one.
Nanoseconds job_epoch_utc_ns(std::span<const Session> sessions);

/// Session time of trace time 0: UTC start - epoch; 0 where the session recorded no UTC start (its offset then says
/// nothing until something relates it).
SessionTime session_start(const Session& session, Nanoseconds epoch_utc_ns);

/// What the files themselves say about their clocks.
struct LevelZero {
  /// One per session, in the order given. Method host_clock: another session of the same host and boot, offset exact
  /// by its system clock. Method utc: offset 0; alone in its component with uncertainty empty, unless the options
  /// relate UTC. In every component the first session by path is the reference: offset 0, uncertainty 0 if related.
  std::vector<SessionClock> clocks;
  /// Per session: the clock it runs on. Sessions of one host and one boot share one. Numbered in order of paths.
  std::vector<std::int32_t> units;
};

/// Two sessions run on one clock if both recorded the system clock, on one host (equal boot keys, or, where those are
/// unknown, equal host names), in one boot: boot instants (UTC - system clock) within one second.
/// The result does not depend on the order of the sessions.
LevelZero level_zero(std::span<const Session> sessions, const ClockOptions& options = {});

/// How well UTC relates sessions according to the user; empty: not at all.
std::optional<Nanoseconds> utc_uncertainty(const ClockOptions& options);

/// Joins all components whose reference recorded UTC into one: the clocks outside the first get method utc and this
/// uncertainty on top of their own.
void relate_by_utc(std::span<const Session> sessions, Nanoseconds uncertainty_ns, std::vector<SessionClock>& clocks);

/// Numbers components from 0 in order of their first session by path.
void renumber_components(std::span<const Session> sessions, std::vector<SessionClock>& clocks);

}  // namespace nsys_explain::clock
