#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <vector>

#include "collectives/exit_agreement.hpp"

/// Whether those who are taken for the members of operations are their members, as far as one can tell who does not
/// know all others.
namespace nsys_explain::collectives {

/// How known members met in an operation.
struct MemberMeeting {
  Nanoseconds took_ns = 0;   ///< from the entry of the last of them to an exit
  Nanoseconds apart_ns = 0;  ///< between that exit and the one of another that lies furthest from it, without the habit
                             ///< of that member to leave early or late
};

/// The times of these, sorted or not; 0 for none.
Nanoseconds middle_of(std::vector<Nanoseconds> times_ns);

/// Of each of a lane's operations, how its members met in it; what others did of the kind, by exit, none empty.
template <typename Timed>
std::vector<MemberMeeting> member_meetings(std::span<const TimedOperation> own,
                                           std::span<const std::vector<Timed>* const> others) {
  constexpr Nanoseconds reach_ns = 30'000;
  std::vector<MemberMeeting> met;
  for (const TimedOperation& operation : own) met.push_back({operation.exit_ns - operation.enter_ns, 0});
  for (const std::vector<Timed>* other : others) {
    std::vector<std::size_t> together;
    std::vector<Nanoseconds> differences_ns;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Timed& nearest = nearest_exit(*other, own[i].exit_ns);
      if (std::abs(nearest.exit_ns - own[i].exit_ns) > reach_ns) continue;
      together.push_back(i);
      differences_ns.push_back(nearest.exit_ns - own[i].exit_ns);
      met[i].took_ns = std::min(met[i].took_ns, own[i].exit_ns - nearest.enter_ns);
    }
    const Nanoseconds habit_ns = middle_of(differences_ns);
    for (std::size_t k = 0; k < together.size(); ++k) {
      Nanoseconds& apart_ns = met[together[k]].apart_ns;
      apart_ns = std::max(apart_ns, std::abs(differences_ns[k] - habit_ns));
    }
  }
  return met;
}

/// What meetings take where nobody waits, if in a fifth the last to come is a known member; at least one.
Nanoseconds usual_ns(std::span<const MemberMeeting> meetings);

/// Meetings that took far longer than most though all known members were there: they waited for somebody else. Empty
/// where none or few need not wait.
std::vector<bool> have_waited(std::span<const MemberMeeting> meetings);

/// Of those, the ones whose members left less closely together than they do where nobody waited: they waited for
/// different ones, and so were not members of one operation.
std::vector<bool> have_waited_apart(std::span<const MemberMeeting> meetings);

/// Whether they are more than chance and lost records explain.
bool are_many(const std::vector<bool>& meetings);

}  // namespace nsys_explain::collectives
