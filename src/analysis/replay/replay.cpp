#include "analysis/replay/replay.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

namespace nsys_explain::analysis {
using Member = JobGraph::Member;

struct Replay::Shifts {
  const Scenario& scenario;
  std::span<const PieceExcess> excess;        ///< by piece: what is mended
  std::vector<Nanoseconds> enter_ns, end_ns;  ///< by piece
  std::vector<Nanoseconds> longer_ns;         ///< by piece, for contention; empty: nowhere
  std::vector<Nanoseconds> instance_ns;       ///< once all members have entered; no_time: not yet
  std::vector<bool> mended;                   ///< by rank
  std::vector<bool> mended_transfers;         ///< by instance
};

Replay::Replay(const JobGraph& graph, std::size_t steps, const RunAll& run_all)
    : graph_(graph), steps_(steps), excess_(find_excess(graph, Usual::median, run_all)), contended_(graph) {
  run_all({[&] { order_ = graph_.events_by_time(); }, [&] { transfers_ = find_transfer_excess(graph_); }});
}

std::vector<ReplayedTime> Replay::run(std::span<const Scenario> scenarios, const RunAll& run_all) const {
  std::vector<ReplayedTime> replayed(scenarios.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t i = 0; i < scenarios.size(); ++i) tasks.emplace_back([&, i] { replayed[i] = run(scenarios[i]); });
  run_all(tasks);
  return replayed;
}

Replay::Shifts Replay::shifts_of(const Scenario& scenario) const {
  Shifts shifts{scenario, excess_, {}, {}, {}, {}, {}, {}};
  shifts.enter_ns.assign(graph_.pieces(), 0);
  shifts.end_ns.assign(graph_.pieces(), 0);
  shifts.mended.assign(graph_.ranks.size(), scenario.usual != Usual::median);
  for (const std::size_t rank : scenario.ranks) shifts.mended[rank] = true;
  std::vector<bool> has_mended_link = shifts.mended;
  for (const std::size_t rank : scenario.links) has_mended_link[rank] = true;
  shifts.mended_transfers.assign(graph_.instances(), false);
  for (const Member& member : graph_.members)
    if (has_mended_link[graph_.rank_of[member.piece]]) shifts.mended_transfers[graph_.instance_of[member.piece]] = true;
  return shifts;
}

/// By how much a row of kernels gets shorter.
Nanoseconds Replay::shorter_work(std::size_t p, const Shifts& shifts) const {
  const ActivityPiece& here = graph_.piece(p);
  const std::size_t r = graph_.rank_of[p];
  const Scenario& scenario = shifts.scenario;
  Nanoseconds shorter_ns = shifts.mended[r] ? shifts.excess[p].gpu_ns : 0;
  if (!scenario.gpu_factors.empty())
    shorter_ns += static_cast<Nanoseconds>((1 - scenario.gpu_factors[r]) * static_cast<double>(here.gpu_ns));
  if (!scenario.has_launch_gaps) {
    const std::int32_t before = graph_.waited_for(p, 0);
    const Nanoseconds start_ns =
        before < 0 ? here.start_ns : std::max(here.start_ns, graph_.piece(static_cast<std::size_t>(before)).end_ns);
    shorter_ns += std::max<Nanoseconds>(0, here.end_ns - start_ns - here.gpu_ns - here.copy_ns);
  }
  if (!shifts.longer_ns.empty()) shorter_ns -= shifts.longer_ns[p];
  return shorter_ns;
}

void Replay::start(std::size_t p, Shifts& shifts) const {
  const ActivityPiece& here = graph_.piece(p);
  const bool mended = shifts.mended[graph_.rank_of[p]];
  const std::int32_t host_wait = graph_.host_wait_before[p];
  const Nanoseconds host_ns = (host_wait < 0 ? 0 : shifts.end_ns[static_cast<std::size_t>(host_wait)]) -
                              (mended ? shifts.excess[p].host_ns : 0);
  Nanoseconds latest_ns = no_time;
  const auto waits = [&](Nanoseconds shift_ns, Nanoseconds slack_ns) {
    const Nanoseconds time_ns = shift_ns - slack_ns;
    latest_ns = latest_ns == no_time ? time_ns : std::max(latest_ns, time_ns);
  };
  const auto waits_for = [&](std::size_t w) {
    const std::int32_t before = graph_.waited_for(p, w);
    if (before < 0) return;
    const auto q = static_cast<std::size_t>(before);
    const std::uint32_t slack_ns = here.waits[w].slack_ns;
    // Without launch gaps it begins at once, whatever the lag was.
    const Nanoseconds gap_ns = here.start_ns - graph_.piece(q).end_ns;
    waits(shifts.end_ns[q], shifts.scenario.has_launch_gaps ? slack_ns : std::max<Nanoseconds>(slack_ns, gap_ns));
  };
  if (graph_.resumes[p] >= 0) {  // what it did before matters by way of the collective alone
    waits(shift_of_instance(static_cast<std::uint32_t>(graph_.resumes[p]), shifts), 0);
  } else {
    waits_for(0);
  }
  for (std::size_t w = 1; w < here.waits.size(); ++w) waits_for(w);
  if ((shifts.scenario.has_launch_gaps || latest_ns == no_time) && here.after_host_ns != no_bound)
    waits(host_ns, here.after_host_ns);
  if (latest_ns == no_time) latest_ns = 0;
  shifts.enter_ns[p] = latest_ns;
  if (here.kind == PieceKind::compute) {
    const Nanoseconds shorter_ns = shorter_work(p, shifts),
                      busy_ns = std::max(Nanoseconds{here.gpu_ns} + here.copy_ns, Nanoseconds{1});
    latest_ns -= shorter_ns;
    // The last of its launches takes less, too, by its part.
    const auto of_last_ns =
        static_cast<Nanoseconds>(static_cast<double>(shorter_ns) * here.last_ns / static_cast<double>(busy_ns));
    if (shorter_ns != 0 && shifts.scenario.has_launch_gaps && here.after_last_launch_ns != no_bound)
      latest_ns = std::max(latest_ns, host_ns - here.after_last_launch_ns - of_last_ns);
  }
  if (mended && here.kind == PieceKind::host_wait) latest_ns -= shifts.excess[p].after_ns;
  shifts.end_ns[p] = latest_ns;
}

/// By how much a member's transfer gets shorter, which left after the last one had entered.
Nanoseconds Replay::shorter_transfer(std::size_t p, const Shifts& shifts) const {
  const std::uint32_t instance = graph_.instance_of[p];
  const Nanoseconds transfer_ns = graph_.piece(p).end_ns - graph_.members_of(instance).back().enter_ns;
  switch (shifts.scenario.transfers) {
    case TransferTime::usual:
      return std::min(transfer_ns, transfers_.of_instance[instance].usual_ns);
    case TransferTime::best_group:
      return std::min(transfer_ns, transfers_.of_instance[instance].best_ns);
    case TransferTime::none:
      return transfer_ns;
    case TransferTime::measured:
      break;
  }
  return shifts.mended_transfers[instance] ? shifts.excess[p].gpu_ns : 0;
}

Nanoseconds Replay::shift_of_enters(std::uint32_t instance, Nanoseconds exit_ns, const Shifts& shifts) const {
  Nanoseconds measured_ns = no_time, latest_ns = no_time;
  const auto enters = [&](Nanoseconds enter_ns, Nanoseconds shift_ns) {
    if (enter_ns >= exit_ns) return;
    measured_ns = std::max(measured_ns, enter_ns);  // no_time is below all
    latest_ns = std::max(latest_ns, enter_ns + shift_ns);
  };
  for (const Member& member : graph_.members_of(instance)) enters(member.enter_ns, shifts.enter_ns[member.piece]);
  for (const LostMember& member : graph_.lost_of(instance))
    enters(graph_.piece(member.before).end_ns, shifts.end_ns[member.before]);
  return measured_ns == no_time ? no_time : latest_ns - measured_ns;
}

Nanoseconds Replay::shift_of_instance(std::uint32_t instance, Shifts& shifts) const {
  Nanoseconds& of_all_ns = shifts.instance_ns[instance];
  if (of_all_ns == no_time) of_all_ns = shift_of_enters(instance, std::numeric_limits<Nanoseconds>::max(), shifts);
  return of_all_ns;
}

/// A member leaves as long after the latest of those that had entered before as it did.
void Replay::leave(std::size_t p, Shifts& shifts) const {
  const std::uint32_t instance = graph_.instance_of[p];
  const Nanoseconds exit_ns = graph_.piece(p).end_ns;
  if (exit_ns > graph_.members_of(instance).back().enter_ns) {
    shifts.end_ns[p] = shift_of_instance(instance, shifts) - shorter_transfer(p, shifts);
  } else {
    const Nanoseconds shift_ns = shift_of_enters(instance, exit_ns, shifts);
    shifts.end_ns[p] = shift_ns == no_time ? shifts.enter_ns[p] : shift_ns;
  }
}

ReplayedTime Replay::run(const Scenario& scenario) const {
  Shifts shifts = shifts_of(scenario);
  std::vector<PieceExcess> excess;
  if (scenario.usual != Usual::median) shifts.excess = excess = find_excess(graph_, scenario.usual);
  constexpr int passes = 3;  // each changes by a part of what the one before did: time is lost for a part of it
  ReplayedTime replayed = run_once(shifts);
  for (int pass = 1; pass < passes && contended_.is_any(); ++pass) {
    shifts.longer_ns = contended_.longer_ns(shifts.enter_ns, shifts.end_ns);
    replayed = run_once(shifts);
  }
  return replayed;
}

ReplayedTime Replay::run_once(Shifts& shifts) const {
  shifts.instance_ns.assign(graph_.instances(), no_time);
  ReplayedTime replayed;
  replayed.end_ns = graph_.start_ns;
  replayed.step_ends_ns.assign(steps_, no_time);
  for (const std::uint32_t event : order_) {
    const std::size_t p = event / 2;
    const ActivityPiece& here = graph_.piece(p);
    const bool leaves = event % 2 == 1;
    leaves ? leave(p, shifts) : start(p, shifts);
    if (leaves || here.kind == PieceKind::compute)
      replayed.end_ns = std::max(replayed.end_ns, here.end_ns + shifts.end_ns[p]);
    if (!leaves) continue;
    const std::int32_t step = graph_.arrival_of(p).step;
    if (step < 0 || static_cast<std::size_t>(step) >= steps_) continue;
    Nanoseconds& end_ns = replayed.step_ends_ns[static_cast<std::size_t>(step)];
    end_ns = std::max(end_ns, here.end_ns + shifts.end_ns[p]);  // no_time is below all
  }
  return replayed;
}

}  // namespace nsys_explain::analysis
