#include "analysis/waits/waits.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {
namespace {

/// A wrong match, or a wrong clock: whichever it is, its numbers mean nothing.
void withdraw_claims(Instance& instance) {
  instance.resolved = false;
  instance.transfer_ns = 0;
}

}  // namespace

void compute_waits(MatchedBlock& block, const ClockKnowledge& clock) {
  std::vector<Nanoseconds> scratch;
  for (Instance& instance : block.instances) {
    const std::span<const InstanceArrival> members = members_of(std::as_const(block), instance);
    // Last and second-last; ties go to the lower trace rank, which members are sorted by. An instance has two at least.
    const InstanceArrival* first = &members[0];
    const InstanceArrival* second = &members[members[1].enter_ns > members[0].enter_ns ? 0 : 1];
    const InstanceArrival* last = &members[members[1].enter_ns > members[0].enter_ns ? 1 : 0];
    if (members[1].enter_ns < members[0].enter_ns) first = &members[1];
    for (const InstanceArrival& member : members.subspan(2)) {
      if (member.enter_ns < first->enter_ns) first = &member;
      if (member.enter_ns > last->enter_ns) {
        second = last;
        last = &member;
      } else if (member.enter_ns > second->enter_ns) {
        second = &member;
      }
    }
    instance.first_enter_ns = first->enter_ns;
    instance.last_enter_ns = last->enter_ns;
    instance.last_trace_rank = last->trace_rank;
    const std::int32_t component = clock.component(last->trace_rank);
    instance.comparable = std::all_of(members.begin(), members.end(), [&](const InstanceArrival& member) {
      return clock.component(member.trace_rank) == component;
    });
    if (!instance.comparable) continue;
    const Nanoseconds u = clock.uncertainty(last->trace_rank, second->trace_rank, instance.last_enter_ns);
    instance.skew_uncertainty_ns = u;
    instance.resolved = last->enter_ns - second->enter_ns > resolution_factor * u;

    scratch.clear();
    Nanoseconds earliest_exit = members[0].exit_ns, latest_exit = members[0].exit_ns;
    for (const InstanceArrival& member : members) {
      scratch.push_back(std::max<Nanoseconds>(0, member.exit_ns - instance.last_enter_ns));
      earliest_exit = std::min(earliest_exit, member.exit_ns);
      latest_exit = std::max(latest_exit, member.exit_ns);
    }
    instance.end_residual_ns = latest_exit - earliest_exit;
    instance.transfer_ns = lower_median(scratch);
    instance.feasible =
        !is_synchronising(instance.operation) || earliest_exit + resolution_factor * u >= instance.last_enter_ns;
    if (!instance.feasible) withdraw_claims(instance);
  }
}

bool stayed_for_last(const Instance& instance, const InstanceArrival& member) {
  return member.exit_ns + resolution_factor * instance.skew_uncertainty_ns >= instance.last_enter_ns;
}

void split_lateness(const Instance& instance, InstanceArrival& member, Nanoseconds excess_work_ns) {
  const Nanoseconds lateness = member.enter_ns - instance.first_enter_ns;
  member.own_lateness_ns = std::clamp<Nanoseconds>(excess_work_ns, 0, lateness);
  member.lateness_split = true;
}

Nanoseconds most_caused_wait(const Instance& instance, std::span<const InstanceArrival> members) {
  if (!instance.resolved) return 0;
  Nanoseconds own = 0, second = std::numeric_limits<Nanoseconds>::min();
  for (const InstanceArrival& member : members) {
    if (member.trace_rank == instance.last_trace_rank) {
      own = member.own_lateness_ns;
    } else {
      second = std::max(second, member.enter_ns);
    }
  }
  return instance.last_enter_ns - std::max(second, instance.last_enter_ns - own);
}

void compute_caused_wait(Instance& instance, std::span<const InstanceArrival> members) {
  instance.caused_wait_ns = 0;
  const Nanoseconds most_ns = most_caused_wait(instance, members);
  if (most_ns == 0) return;
  for (const InstanceArrival& member : members)
    if (stayed_for_last(instance, member)) instance.caused_wait_ns += std::min(wait_ns(instance, member), most_ns);
}

}  // namespace nsys_explain::analysis
