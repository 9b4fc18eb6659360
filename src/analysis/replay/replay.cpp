#include "analysis/replay/replay.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <ranges>
#include <utility>

namespace nsys_explain::analysis {
using Member = JobGraph::Member;

/// Several scenarios at once: to look up what waits for what takes most of the time, and is done once for all of them.
/// Values of a piece or an instance lie beside each other, one for each scenario; bit k of a mask is of scenario k.
struct Replay::Shifts {
  using Mask = std::uint32_t;

  std::span<const Scenario> scenarios;
  std::vector<std::span<const PieceExcess>> excess{};  ///< by scenario and piece: what is mended
  Mask without_launch_gaps = 0;
  std::vector<Nanoseconds> enter_ns{}, end_ns{};  ///< by piece
  std::vector<Nanoseconds> longer_ns{};           ///< by piece, for contention; empty: nowhere
  std::vector<Nanoseconds> instance_ns{};         ///< once all members have entered; no_time: not yet
  std::vector<Mask> mended{};                     ///< by rank
  std::vector<Mask> mended_transfers{};           ///< by instance

  static bool holds(Mask mask, std::size_t k) { return (mask >> k & 1U) != 0; }
  std::size_t width() const { return scenarios.size(); }
  Nanoseconds* of(std::vector<Nanoseconds>& values, std::size_t number) const { return &values[number * width()]; }
  const Nanoseconds* of(const std::vector<Nanoseconds>& values, std::size_t number) const {
    return &values[number * width()];
  }
};

Replay::Replay(const JobGraph& graph, std::size_t steps, const RunAll& run_all)
    : graph_(graph), steps_(steps), excess_(find_excess(graph, Usual::median, run_all)), contended_(graph) {
  run_all({[&] { order_ = graph_.events_by_time(); }, [&] { transfers_ = find_transfer_excess(graph_); }});
}

std::vector<ReplayedTime> Replay::run(std::span<const Scenario> scenarios, std::size_t together,
                                      const RunAll& run_all) const {
  together = std::clamp<std::size_t>(together, 1, std::numeric_limits<Shifts::Mask>::digits);
  std::vector<ReplayedTime> replayed(scenarios.size());
  std::vector<std::function<void()>> tasks;
  for (std::size_t first = 0; first < scenarios.size(); first += together) {
    const auto some = scenarios.subspan(first, std::min(together, scenarios.size() - first));
    tasks.emplace_back([&, first, some] {
      std::ranges::move(run_together(some), replayed.begin() + static_cast<std::ptrdiff_t>(first));
    });
  }
  run_all(tasks);
  return replayed;
}

Replay::Shifts Replay::shifts_of(std::span<const Scenario> scenarios) const {
  Shifts shifts{scenarios};
  shifts.enter_ns.assign(graph_.pieces() * scenarios.size(), 0);
  shifts.end_ns.assign(graph_.pieces() * scenarios.size(), 0);
  shifts.mended.assign(graph_.ranks.size(), 0);
  std::vector<Shifts::Mask> mended_links(graph_.ranks.size(), 0);
  for (std::size_t k = 0; k < scenarios.size(); ++k) {
    const Shifts::Mask bit = Shifts::Mask{1} << k;
    if (!scenarios[k].has_launch_gaps) shifts.without_launch_gaps |= bit;
    if (scenarios[k].usual != Usual::median)
      for (Shifts::Mask& mask : shifts.mended) mask |= bit;
    for (const std::size_t rank : scenarios[k].ranks) shifts.mended[rank] |= bit;
    for (const std::size_t rank : scenarios[k].links) mended_links[rank] |= bit;
  }
  shifts.mended_transfers.assign(graph_.instances(), 0);
  for (const Member& member : graph_.members) {
    const std::uint32_t rank = graph_.rank_of[member.piece];
    shifts.mended_transfers[graph_.instance_of[member.piece]] |= shifts.mended[rank] | mended_links[rank];
  }
  return shifts;
}

/// By how much a row of kernels gets shorter in scenario k.
Nanoseconds Replay::shorter_work(std::size_t p, std::size_t k, const Shifts& shifts) const {
  const JobPiece& here = graph_.piece(p);
  const std::size_t r = graph_.rank_of[p];
  const Scenario& scenario = shifts.scenarios[k];
  Nanoseconds shorter_ns = Shifts::holds(shifts.mended[r], k) ? shifts.excess[k][p].gpu_ns : 0;
  if (!scenario.gpu_factors.empty())
    shorter_ns += static_cast<Nanoseconds>((1 - scenario.gpu_factors[r]) * static_cast<double>(here.gpu_ns));
  if (!scenario.has_launch_gaps) {
    const std::int32_t before = graph_.waited_for(p, 0);
    const JobTime start =
        before < 0 ? here.start : std::max(here.start, graph_.piece(static_cast<std::size_t>(before)).end);
    shorter_ns += std::max<Nanoseconds>(0, here.end - start - here.gpu_ns - here.copy_ns);
  }
  if (!shifts.longer_ns.empty()) shorter_ns -= shifts.of(shifts.longer_ns, p)[k];
  return shorter_ns;
}

/// How much later the host was done with what comes before a piece.
Nanoseconds Replay::host_shift(std::size_t p, std::size_t k, const Shifts& shifts) const {
  const std::int32_t wait = graph_.host_wait_before[p];
  const Nanoseconds shift_ns = wait < 0 ? 0 : shifts.of(shifts.end_ns, static_cast<std::size_t>(wait))[k];
  return shift_ns - (Shifts::holds(shifts.mended[graph_.rank_of[p]], k) ? shifts.excess[k][p].host_ns : 0);
}

/// A piece begins once all that it waits for is over.
void Replay::enter(std::size_t p, Shifts& shifts) const {
  const JobPiece& here = graph_.piece(p);
  const std::size_t width = shifts.width();
  Nanoseconds* const enter_ns = shifts.of(shifts.enter_ns, p);
  std::fill_n(enter_ns, width, no_time);  // below all
  const auto waits_for = [&](std::size_t w) {
    const std::int32_t before = graph_.waited_for(p, w);
    if (before < 0) return;
    const auto q = static_cast<std::size_t>(before);
    const Nanoseconds* const end_ns = shifts.of(shifts.end_ns, q);
    const Nanoseconds slack_ns = here.waits[w].slack_ns;
    // Without launch gaps it begins at once, whatever the lag was.
    const Nanoseconds lag_ns =
        shifts.without_launch_gaps == 0 ? 0 : std::max(slack_ns, here.start - graph_.piece(q).end);
    for (std::size_t k = 0; k < width; ++k)
      enter_ns[k] =
          std::max(enter_ns[k], end_ns[k] - (Shifts::holds(shifts.without_launch_gaps, k) ? lag_ns : slack_ns));
  };
  if (graph_.resumes[p] >= 0) {  // what it did before matters by way of the collective alone
    std::copy_n(shift_of_instance(static_cast<std::uint32_t>(graph_.resumes[p]), shifts), width, enter_ns);
  } else {
    waits_for(0);
  }
  for (std::size_t w = 1; w < here.waits.size(); ++w) waits_for(w);
  for (std::size_t k = 0; k < width; ++k) {
    const bool waits_for_host = !Shifts::holds(shifts.without_launch_gaps, k) || enter_ns[k] == no_time;
    if (waits_for_host && here.after_host_ns != no_bound)
      enter_ns[k] = std::max(enter_ns[k], host_shift(p, k, shifts) - here.after_host_ns);
    if (enter_ns[k] == no_time) enter_ns[k] = 0;
  }
}

void Replay::start(std::size_t p, Shifts& shifts) const {
  const JobPiece& here = graph_.piece(p);
  enter(p, shifts);
  const Nanoseconds* const enter_ns = shifts.of(shifts.enter_ns, p);
  Nanoseconds* const end_ns = shifts.of(shifts.end_ns, p);
  for (std::size_t k = 0; k < shifts.width(); ++k) {
    end_ns[k] = enter_ns[k];
    if (here.kind == PieceKind::compute) {
      const Nanoseconds shorter_ns = shorter_work(p, k, shifts);
      if (shorter_ns == 0) continue;
      end_ns[k] -= shorter_ns;
      if (Shifts::holds(shifts.without_launch_gaps, k) || here.after_last_launch_ns == no_bound) continue;
      // The last of its launches takes less, too, by its part.
      const auto busy_ns = static_cast<double>(std::max(Nanoseconds{here.gpu_ns} + here.copy_ns, Nanoseconds{1}));
      const auto of_last_ns = static_cast<Nanoseconds>(static_cast<double>(shorter_ns) * here.last_ns / busy_ns);
      end_ns[k] = std::max(end_ns[k], host_shift(p, k, shifts) - here.after_last_launch_ns - of_last_ns);
    } else if (here.kind == PieceKind::host_wait && Shifts::holds(shifts.mended[graph_.rank_of[p]], k)) {
      end_ns[k] -= shifts.excess[k][p].after_ns;
    }
  }
}

/// By how much a member's transfer gets shorter in scenario k, which left after the last one had entered.
Nanoseconds Replay::shorter_transfer(std::size_t p, std::size_t k, const Shifts& shifts) const {
  const std::uint32_t instance = graph_.instance_of[p];
  const TransferTime transfers = shifts.scenarios[k].transfers;
  if (transfers == TransferTime::measured)
    return Shifts::holds(shifts.mended_transfers[instance], k) ? shifts.excess[k][p].gpu_ns : 0;
  const Nanoseconds transfer_ns = graph_.piece(p).end - graph_.members_of(instance).back().enter;
  if (transfers == TransferTime::none) return transfer_ns;
  const TransferExcess& excess = transfers_.of_instance[instance];
  return std::min(transfer_ns, transfers == TransferTime::usual ? excess.usual_ns : excess.best_ns);
}

bool Replay::shift_of_enters(std::uint32_t instance, Nanoseconds exit_ns, const Shifts& shifts,
                             Nanoseconds* later_ns) const {
  const std::size_t width = shifts.width();
  Nanoseconds measured_ns = no_time;
  std::fill_n(later_ns, width, no_time);
  const auto enters = [&](Nanoseconds enter_ns, const Nanoseconds* shift_ns) {
    if (enter_ns >= exit_ns) return;
    measured_ns = std::max(measured_ns, enter_ns);  // no_time is below all
    for (std::size_t k = 0; k < width; ++k) later_ns[k] = std::max(later_ns[k], enter_ns + shift_ns[k]);
  };
  for (const Member& member : graph_.members_of(instance))
    enters(member.enter.ns, shifts.of(shifts.enter_ns, member.piece));
  for (const LostMember& member : graph_.lost_of(instance))
    enters(graph_.piece(member.before).end.ns, shifts.of(shifts.end_ns, member.before));
  if (measured_ns == no_time) return false;
  for (std::size_t k = 0; k < width; ++k) later_ns[k] -= measured_ns;
  return true;
}

const Nanoseconds* Replay::shift_of_instance(std::uint32_t instance, Shifts& shifts) const {
  Nanoseconds* const of_all_ns = shifts.of(shifts.instance_ns, instance);
  if (of_all_ns[0] == no_time) shift_of_enters(instance, std::numeric_limits<Nanoseconds>::max(), shifts, of_all_ns);
  return of_all_ns;
}

/// A member leaves as long after the latest of those that had entered before as it did.
void Replay::leave(std::size_t p, Shifts& shifts) const {
  const std::uint32_t instance = graph_.instance_of[p];
  const JobTime exit = graph_.piece(p).end;
  Nanoseconds* const end_ns = shifts.of(shifts.end_ns, p);
  if (exit > graph_.members_of(instance).back().enter) {
    const Nanoseconds* const of_all_ns = shift_of_instance(instance, shifts);
    for (std::size_t k = 0; k < shifts.width(); ++k) end_ns[k] = of_all_ns[k] - shorter_transfer(p, k, shifts);
  } else if (!shift_of_enters(instance, exit.ns, shifts, end_ns)) {
    std::copy_n(shifts.of(shifts.enter_ns, p), shifts.width(), end_ns);
  }
}

std::vector<ReplayedTime> Replay::run_together(std::span<const Scenario> scenarios) const {
  Shifts shifts = shifts_of(scenarios);
  std::vector<std::vector<PieceExcess>> others(scenarios.size());
  for (std::size_t k = 0; k < scenarios.size(); ++k) {
    if (scenarios[k].usual != Usual::median) others[k] = find_excess(graph_, scenarios[k].usual);
    shifts.excess.emplace_back(others[k].empty() ? excess_ : others[k]);
  }
  std::vector<ReplayedTime> replayed = run_once(shifts);
  if (!contended_.is_any()) return replayed;
  // Once: to do so again moves the ends by 0.04% of what is saved, in recordings of data-parallel and sharded jobs.
  shifts.longer_ns = contended_.longer_ns(shifts.enter_ns, shifts.end_ns, scenarios.size());
  const bool is_changed = std::any_of(shifts.longer_ns.begin(), shifts.longer_ns.end(),
                                      [](Nanoseconds longer_ns) { return longer_ns != 0; });
  return is_changed ? run_once(shifts) : replayed;
}

std::vector<ReplayedTime> Replay::run_once(Shifts& shifts) const {
  shifts.instance_ns.assign(graph_.instances() * shifts.width(), no_time);
  std::vector<ReplayedTime> replayed(shifts.width(), {graph_.start_ns, std::vector<Nanoseconds>(steps_, no_time)});
  for (const std::uint32_t event : order_) {
    const std::size_t p = event / 2;
    const JobPiece& here = graph_.piece(p);
    const bool leaves = event % 2 == 1;
    leaves ? leave(p, shifts) : start(p, shifts);
    if (!leaves && here.kind != PieceKind::compute) continue;
    const Nanoseconds* const end_ns = shifts.of(shifts.end_ns, p);
    const std::int32_t step = leaves ? graph_.arrival_of(p).step : -1;
    for (std::size_t k = 0; k < shifts.width(); ++k) {
      const Nanoseconds at_ns = here.end.ns + end_ns[k];
      replayed[k].end_ns = std::max(replayed[k].end_ns, at_ns);
      if (step < 0 || static_cast<std::size_t>(step) >= steps_) continue;
      Nanoseconds& of_step_ns = replayed[k].step_ends_ns[static_cast<std::size_t>(step)];
      of_step_ns = std::max(of_step_ns, at_ns);  // no_time is below all
    }
  }
  return replayed;
}

}  // namespace nsys_explain::analysis
