#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "clock/fit.hpp"
#include "clock/level_zero.hpp"

/// Sessions of one host run on one clock. They are told apart again where collectives contradict that.
namespace nsys_explain::clock {

/// One standard uncertainty between two sessions of one host. UTC of 45 pairs of recordings on one machine differed by
/// 80 ns (median) and 780 ns at most, which is within three of these.
inline constexpr Nanoseconds host_tie_ns = 300;

struct HostTies {
  /// By session: the first by path on the same clock; itself where nothing ties it.
  std::vector<std::size_t> representative;
  std::vector<Nanoseconds> offset_ns;  ///< its session time less that of the representative at the same moment
  std::int64_t contradicted = 0;       ///< hosts that are not on one clock, by their collectives
};

/// Collective over the tool ranks of `reduction`. Ties come from the system clock, and from UTC where no session of a
/// host recorded that and their boot_key is known. Nobody leaves a synchronising operation before its last member has
/// entered: a host of which more than one instance in a hundred says otherwise by more than three standard
/// uncertainties is not tied.
HostTies tie_hosts(std::span<const Session> sessions, const LevelZero& level, const Observations& observations,
                   const Reduction& reduction);

/// The sessions that represent others, and their number by session.
std::vector<Session> representatives(std::span<const Session> sessions, const HostTies& ties,
                                     std::vector<std::int32_t>& number);

/// Moves what was observed to the clocks of the representatives, by their number.
void observe_representatives(const HostTies& ties, std::span<const std::int32_t> number, Observations& observations);

/// Gives every session the clock of its representative.
void tell_all_sessions(std::span<const Session> sessions, const HostTies& ties, std::span<const std::int32_t> number,
                       ClockFit& fit);

}  // namespace nsys_explain::clock
