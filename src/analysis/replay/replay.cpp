#include "analysis/replay/replay.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace nsys_explain::analysis {
struct Replay::Shifts {
  std::vector<Nanoseconds> enter_ns, end_ns;  ///< by piece of all
  std::vector<Nanoseconds> instance_ns;       ///< once all members have entered; no_time: not yet
  std::vector<bool> mended;                   ///< by rank
  std::vector<bool> mended_transfers;         ///< by instance
};

Replay::Replay(std::vector<ReplayRank> ranks, std::size_t steps) : ranks_(std::move(ranks)), steps_(steps) {
  number_pieces();
  join_members();
  order_events();
  find_excess();
}

void Replay::number_pieces() {
  first_piece_.assign(1, 0);
  for (const ReplayRank& rank : ranks_) first_piece_.push_back(first_piece_.back() + rank.pieces.size());
  bool is_first = true;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    std::int32_t compute = -1, host_wait = -1;
    for (std::size_t i = 0; i < ranks_[r].pieces.size(); ++i) {
      const ActivityPiece& here = ranks_[r].pieces[i];
      const auto number = static_cast<std::int32_t>(first_piece_[r] + i);
      rank_of_.push_back(static_cast<std::uint32_t>(r));
      compute_before_.push_back(compute);
      host_wait_before_.push_back(host_wait);
      if (here.kind == PieceKind::compute) compute = number;
      if (here.kind == PieceKind::host_wait) host_wait = number;
      if (is_first || here.start_ns < start_ns_) start_ns_ = here.start_ns;
      if (here.kind != PieceKind::host_wait) end_ns_ = std::max(end_ns_, here.end_ns);
      is_first = false;
    }
  }
}

void Replay::join_members() {
  std::vector<std::pair<std::int64_t, Member>> joined;
  for (std::size_t p = 0; p < rank_of_.size(); ++p) {
    if (piece(p).kind != PieceKind::collective) continue;
    const ReplayArrival& arrival = ranks_[rank_of_[p]].arrivals[static_cast<std::size_t>(piece(p).arrival)];
    // One that was not matched is alone.
    const std::int64_t instance = arrival.instance >= 0 ? arrival.instance : -1 - static_cast<std::int64_t>(p);
    joined.push_back({instance, {static_cast<std::uint32_t>(p), arrival.enter_ns, arrival.exit_ns}});
  }
  std::sort(joined.begin(), joined.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second.enter_ns, a.second.piece) < std::tie(b.first, b.second.enter_ns, b.second.piece);
  });
  instance_of_.assign(rank_of_.size(), 0);
  for (std::size_t m = 0; m < joined.size(); ++m) {
    if (m == 0 || joined[m].first != joined[m - 1].first) first_member_.push_back(m);
    members_.push_back(joined[m].second);
    instance_of_[joined[m].second.piece] = static_cast<std::uint32_t>(first_member_.size() - 1);
  }
  first_member_.push_back(members_.size());
}

/// By time, which nothing depends on what is later by; leaving comes before what starts at the same time.
void Replay::order_events() {
  const auto time_of = [&](std::uint32_t event) {
    const ActivityPiece& here = piece(event / 2);
    return event % 2 == 1 ? here.end_ns : here.start_ns;
  };
  for (std::uint32_t p = 0; p < rank_of_.size(); ++p) {
    order_.push_back(2 * p);
    if (piece(p).kind == PieceKind::collective) order_.push_back(2 * p + 1);
  }
  std::sort(order_.begin(), order_.end(), [&](std::uint32_t a, std::uint32_t b) {
    const auto key = [&](std::uint32_t event) { return std::tuple(time_of(event), 1 - event % 2, event); };
    return key(a) < key(b);
  });
}

void Replay::start(std::size_t p, Shifts& shifts) const {
  const ActivityPiece& here = piece(p);
  const bool mended = shifts.mended[rank_of_[p]];
  const std::int32_t host_wait = host_wait_before_[p], compute = compute_before_[p];
  const Nanoseconds host_ns =
      (host_wait < 0 ? 0 : shifts.end_ns[static_cast<std::size_t>(host_wait)]) - (mended ? excess_[p].host_ns : 0);
  Nanoseconds latest_ns = no_time;
  const auto waits = [&](Nanoseconds shift_ns, std::uint32_t slack_ns) {
    if (slack_ns == no_bound) return;
    const Nanoseconds time_ns = shift_ns - slack_ns;
    latest_ns = latest_ns == no_time ? time_ns : std::max(latest_ns, time_ns);
  };
  waits(host_ns, here.after_host_ns);
  if (compute >= 0) waits(shifts.end_ns[static_cast<std::size_t>(compute)], here.after_compute_ns);
  if (here.waits_for >= 0) {
    const std::size_t other = first_piece_[rank_of_[p]] + static_cast<std::size_t>(here.waits_for);
    waits(shifts.end_ns[other], here.after_other_ns);
  }
  if (latest_ns == no_time) latest_ns = 0;
  shifts.enter_ns[p] = latest_ns;
  if (mended && here.kind == PieceKind::compute) {
    const Nanoseconds excess_ns = excess_[p].gpu_ns,
                      busy_ns = std::max(Nanoseconds{here.gpu_ns} + here.copy_ns, Nanoseconds{1});
    latest_ns -= excess_ns;
    // The last of its launches takes less, too, by its part.
    const auto of_last_ns =
        static_cast<Nanoseconds>(static_cast<double>(excess_ns) * here.last_ns / static_cast<double>(busy_ns));
    if (here.after_last_launch_ns != no_bound)
      latest_ns = std::max(latest_ns, host_ns - here.after_last_launch_ns - of_last_ns);
  }
  if (mended && here.kind == PieceKind::host_wait) latest_ns -= excess_[p].after_ns;
  shifts.end_ns[p] = latest_ns;
}

/// A member leaves as long after the latest of those that had entered before as it did.
void Replay::leave(std::size_t p, Shifts& shifts) const {
  const std::uint32_t instance = instance_of_[p];
  const std::span<const Member> members =
      std::span(members_).subspan(first_member_[instance], first_member_[instance + 1] - first_member_[instance]);
  const Nanoseconds exit_ns = piece(p).end_ns;
  const auto shift_of = [&](std::span<const Member> entered) {
    Nanoseconds latest_ns = no_time;
    for (const Member& member : entered) {
      const Nanoseconds time_ns = member.enter_ns + shifts.enter_ns[member.piece];
      latest_ns = latest_ns == no_time ? time_ns : std::max(latest_ns, time_ns);
    }
    return latest_ns - entered.back().enter_ns;
  };
  Nanoseconds& of_all_ns = shifts.instance_ns[instance];
  if (exit_ns > members.back().enter_ns) {
    if (of_all_ns == no_time) of_all_ns = shift_of(members);
    shifts.end_ns[p] = of_all_ns;
  } else {
    const auto end = std::partition_point(members.begin(), members.end(),
                                          [&](const Member& member) { return member.enter_ns < exit_ns; });
    const std::span<const Member> entered(members.begin(), end);
    shifts.end_ns[p] = entered.empty() ? shifts.enter_ns[p] : shift_of(entered);
  }
  if (shifts.mended_transfers[instance]) shifts.end_ns[p] -= excess_[p].gpu_ns;
}

ReplayedTime Replay::run(const Scenario& scenario) const {
  Shifts shifts;
  shifts.enter_ns.assign(rank_of_.size(), 0);
  shifts.end_ns.assign(rank_of_.size(), 0);
  shifts.instance_ns.assign(first_member_.size(), no_time);
  shifts.mended.assign(ranks_.size(), false);
  for (const std::size_t rank : scenario.ranks) shifts.mended[rank] = true;
  std::vector<bool> has_mended_link = shifts.mended;
  for (const std::size_t rank : scenario.links) has_mended_link[rank] = true;
  shifts.mended_transfers.assign(first_member_.size(), false);
  for (const Member& member : members_)
    if (has_mended_link[rank_of_[member.piece]]) shifts.mended_transfers[instance_of_[member.piece]] = true;
  ReplayedTime replayed;
  replayed.step_ends_ns.assign(steps_, no_time);
  for (const std::uint32_t event : order_) {
    const std::size_t p = event / 2;
    const ActivityPiece& here = piece(p);
    const bool leaves = event % 2 == 1;
    leaves ? leave(p, shifts) : start(p, shifts);
    if (leaves || here.kind == PieceKind::compute)
      replayed.end_ns = std::max(replayed.end_ns, here.end_ns + shifts.end_ns[p]);
    if (!leaves) continue;
    const std::int32_t step = ranks_[rank_of_[p]].arrivals[static_cast<std::size_t>(here.arrival)].step;
    if (step < 0 || static_cast<std::size_t>(step) >= steps_) continue;
    Nanoseconds& end_ns = replayed.step_ends_ns[static_cast<std::size_t>(step)];
    end_ns = std::max(end_ns, here.end_ns + shifts.end_ns[p]);  // no_time is below all
  }
  return replayed;
}

}  // namespace nsys_explain::analysis
