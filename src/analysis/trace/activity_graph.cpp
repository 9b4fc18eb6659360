#include "analysis/trace/activity_graph.hpp"

#include "analysis/trace/host_activity.hpp"
#include "analysis/trace/program.hpp"

namespace nsys_explain::analysis {
namespace {

/// A pause of the GPU from which on its work is a piece of its own; as long as a launch takes it idles all the time.
constexpr Nanoseconds pause_ns = 20'000;

/// Launches that a queue of the driver holds are 1,024: who is that far ahead waits for the GPU in a launch, too.
constexpr std::size_t queue_is_full = 512;

std::uint32_t sum_of_slacks(std::uint32_t a, std::uint32_t b) {
  return a == no_bound || b == no_bound ? no_bound : saturated_slack(Nanoseconds{a} + b);
}

/// A start this long after all that is known to precede it waited for something else: half of the launches take 26 us.
constexpr Nanoseconds unexplained_ns = 50'000;

/// Goes through the program and folds it.
class ActivityFolder {
 public:
  ActivityFolder(const RankEvents& events, std::span<const TraceArrival> arrivals)
      : events_(events),
        arrivals_(arrivals),
        parts_(events.trace),
        contention_(events),
        program_(program_of(events)),
        is_known_(arrivals.size()) {}

  std::vector<TracePiece> fold() {
    if (!program_.activities.empty()) host_ns_ = first_host_event(events_, program_);
    auto event = program_.events.begin();
    const auto events_until = [&](Nanoseconds time_ns) {
      for (; event != program_.events.end() && event->time_ns < time_ns; ++event) take(*event);
    };
    for (const LaunchedActivity& launched : program_.activities) {
      events_until(launched.launch_ns);
      const GpuActivity activity = launched.in(events_.device);
      const bool is_kernel = activity.kind == ActivityKind::kernel;
      if (is_kernel && events_.is_communication(events_.device.kernels[activity.index])) {
        if (const std::optional<std::size_t> arrival = arrival_of(activity)) collective(launched, activity, *arrival);
      } else {
        compute(launched, activity);
      }
    }
    events_until(std::numeric_limits<Nanoseconds>::max());
    close_all();
    number_segments();
    return std::move(pieces_);
  }

 private:
  /// What goes on one after the other: a stream where events are recorded; else compute of all streams, and each stream
  /// of collectives.
  struct Lane {
    std::optional<TracePiece> open;
    std::uint32_t open_activities = 0;
    std::size_t opened = 0;                            ///< when, in the order of launches
    std::uint32_t stream_id = no_stream;               ///< of its latest compute
    Nanoseconds end_ns = no_time;                      ///< of its compute so far
    std::int32_t latest = -1;                          ///< its latest piece
    std::int32_t latest_compute = -1;                  ///< likewise
    std::vector<std::int32_t> pending;                 ///< pieces of others that its next piece waits for
    std::map<std::uint32_t, std::int32_t> waited_for;  ///< latest piece, by the lane that it is on
  };

  Lane& lane_of(std::uint32_t number) {
    if (number >= lanes_.size()) lanes_.resize(number + std::size_t{1});
    return lanes_[number];
  }
  std::uint32_t lane_number(const GpuActivity& activity) {
    return program_.has_records ? program_.stream_of(events_.device, activity) : 0;
  }

  /// When the host had launched an activity, as far as the activity waited for it; no_time: not known.
  Nanoseconds launched_ns(const LaunchedActivity& launched, const GpuActivity& activity) const {
    if (launched.call == LaunchIndex::no_call) return no_time;
    const ApiCall call = events_.process.api_calls[launched.call];
    if (call.end_ns >= activity.end_ns) return call.start_ns;  // it waited for its own copy
    return std::min(call.end_ns, activity.start_ns);
  }

  /// What the host did by itself until it launched; goes on from there.
  std::uint32_t host_until(Nanoseconds time_ns) {
    const std::uint32_t own_ns = saturated_slack(time_ns - host_ns_);
    host_ns_ = std::max(host_ns_, time_ns);
    return own_ns;
  }

  std::optional<std::size_t> arrival_of(const GpuActivity& activity) {
    auto at = std::lower_bound(arrivals_.begin(), arrivals_.end(), activity.start_ns,
                               [](const TraceArrival& a, Nanoseconds time_ns) { return a.enter.ns < time_ns; });
    for (; at != arrivals_.end() && at->enter.ns == activity.start_ns; ++at) {
      const auto i = static_cast<std::size_t>(at - arrivals_.begin());
      if (is_known_[i]) continue;
      is_known_[i] = true;
      return i;
    }
    return std::nullopt;
  }

  void add_busy(Lane& lane, const GpuActivity& activity, Nanoseconds from_ns) {
    const Nanoseconds busy_ns = std::max<Nanoseconds>(0, activity.end_ns - from_ns);
    const bool is_copy = activity.kind == ActivityKind::memory_operation;
    TracePiece& open = *lane.open;
    std::uint32_t& sum_ns = is_copy ? open.copy_ns : open.gpu_ns;
    sum_ns = saturated_slack(Nanoseconds{sum_ns} + busy_ns);
    open.last_ns = saturated_slack(busy_ns);
    if (!is_copy)
      open.contention_ns = saturated_slack(open.contention_ns + contention_.lost_within(from_ns, activity.end_ns));
    open.end = TraceTime(lane.end_ns = std::max(from_ns, activity.end_ns));
    ++lane.open_activities;
  }

  void compute(const LaunchedActivity& launched, const GpuActivity& activity) {
    Lane& lane = lane_of(lane_number(activity));
    if (lane.end_ns != no_time && activity.start_ns < lane.end_ns) {  // beside other work
      if (!lane.open) {
        open_piece(lane, launched, activity);
        lane.open->waits[0] = {lane.latest_compute, 0};
      }
      add_busy(lane, activity, lane.end_ns);
      return;
    }
    Predecessors before(activity.start_ns, launched_ns(launched, activity));
    before.add_compute(lane.latest_compute, lane.end_ns);
    add_waited_for(lane, activity.start_ns, before);
    bool is_told = before.compute_slack() == 0 && lane.stream_id == activity.stream_id;  // order on a stream
    if (program_.has_records) is_told = !find_unexplained(activity.start_ns, before);
    add_compute(lane, launched, activity, before, is_told);
    lane.stream_id = activity.stream_id;
  }

  /// What the stream of a piece waits for: in order, and by records.
  void add_waited_for(Lane& lane, Nanoseconds start_ns, Predecessors& before) {
    if (!program_.has_records) return find_collective_before(start_ns, before);
    if (lane.latest != lane.latest_compute) before.add_other(lane.latest, end_of(lane.latest));
    for (const std::int32_t piece : std::exchange(lane.pending, {})) before.add_other(piece, end_of(piece));
  }

  Nanoseconds end_of(std::int32_t piece) const { return pieces_[static_cast<std::size_t>(piece)].end.ns; }

  /// Something that began long after all that is recorded waited for what had just ended, such as for multiprocessors.
  bool find_unexplained(Nanoseconds start_ns, Predecessors& before) const {
    constexpr std::size_t looked_at = 64;
    if (before.latest_ns() != no_time && start_ns - before.latest_ns() <= unexplained_ns) return false;
    std::int32_t latest = -1;
    for (std::size_t p = pieces_.size(), n = 0; p-- > 0 && n < looked_at; ++n) {
      const TracePiece& piece = pieces_[p];
      if (piece.kind == PieceKind::host_wait || piece.end.ns > start_ns || piece.end.ns < start_ns - pause_ns) continue;
      if (latest < 0 || piece.end.ns > end_of(latest)) latest = static_cast<std::int32_t>(p);
    }
    if (latest >= 0) before.add_other(latest, end_of(latest));
    return true;
  }

  /// What went on when a collective left, after it had stood still, had waited for it. Ends of collectives that went on
  /// beside compute lie between two kernels now and then, too.
  void find_collective_before(Nanoseconds start_ns, Predecessors& before) const {
    constexpr Nanoseconds between_kernels_ns = 5'000;
    constexpr std::size_t under_way = 64;  // launched ahead of the one that compute waits for
    std::int32_t latest = -1;
    std::size_t looked_at = 0;
    for (auto at = collectives_.rbegin(); at != collectives_.rend() && looked_at < under_way; ++at, ++looked_at) {
      const Nanoseconds exit_ns = end_of(*at);
      const bool is_explained = before.latest_ns() != no_time && exit_ns <= before.latest_ns() + between_kernels_ns;
      if (exit_ns > start_ns || is_explained || (latest >= 0 && end_of(latest) >= exit_ns)) continue;
      latest = *at;
    }
    if (latest >= 0) before.add_other(latest, end_of(latest));
  }

  void open_piece(Lane& lane, const LaunchedActivity& launched, const GpuActivity& activity) {
    lane.open.emplace();
    lane.opened = ++opened_;
    lane.open->start = TraceTime(activity.start_ns);
    lane.open->host_ns = host_until(launched.launch_ns);
  }

  void add_compute(Lane& lane, const LaunchedActivity& launched, const GpuActivity& activity, Predecessors& before,
                   bool is_told) {
    const std::uint32_t compute_slack = before.compute_slack(), host_slack = before.host_slack();
    const bool paused = lane.end_ns != no_time && activity.start_ns - lane.end_ns > pause_ns;
    if (!lane.open || before.has_others() || paused || compute_slack == no_bound) {
      close(lane);
      before.add_compute(lane.latest_compute, lane.end_ns);  // which has its number now
      open_piece(lane, launched, activity);
      lane.open->waits = before.waits();
      lane.open->after_host_ns = host_slack;
      lane.open->inferred = !is_told && host_slack != 0;
    } else {
      TracePiece& open = *lane.open;
      open.waits[0].slack_ns = sum_of_slacks(open.waits[0].slack_ns, compute_slack);
      const std::uint32_t earlier_slack = sum_of_slacks(open.after_host_ns, compute_slack);
      if (host_slack < earlier_slack) open.host_ns = sum_of_slacks(open.host_ns, host_until(launched.launch_ns));
      open.after_host_ns = std::min(earlier_slack, host_slack);
      for (std::size_t w = 1; w < open.waits.size(); ++w)
        open.waits[w].slack_ns = sum_of_slacks(open.waits[w].slack_ns, compute_slack);
    }
    lane.open->after_last_launch_ns = host_slack;
    add_busy(lane, activity, activity.start_ns);
  }

  void collective(const LaunchedActivity& launched, const GpuActivity& activity, std::size_t i) {
    close_all();
    const TraceArrival& arrival = arrivals_[i];
    Lane& lane = lane_of(program_.has_records ? lane_number(activity) : 1 + arrival.stream);
    Predecessors before(arrival.enter.ns, launched_ns(launched, activity));
    if (program_.has_records) {
      before.add_compute(lane.latest_compute, lane.end_ns);
      add_waited_for(lane, arrival.enter.ns, before);
    } else {
      before.add_compute(lane_of(0).latest_compute, lane_of(0).end_ns);
      if (lane.latest >= 0) before.add_other(lane.latest, end_of(lane.latest));
      find_collective_before(arrival.enter.ns, before);
    }
    TracePiece piece;
    piece.kind = PieceKind::collective;
    piece.inferred = !program_.has_records || find_unexplained(arrival.enter.ns, before);
    piece.start = arrival.enter;
    piece.end = arrival.exit;
    piece.arrival = static_cast<std::int32_t>(i);
    piece.waits = before.waits();
    piece.after_host_ns = before.host_slack();
    if (piece.after_host_ns == 0) piece.inferred = false;
    piece.host_ns = host_until(launched.launch_ns);
    collectives_.push_back(static_cast<std::int32_t>(pieces_.size()));
    add(lane, piece);
  }

  void take(const HostEvent& event) {
    if (event.kind == HostEventKind::host_wait) return wait_for_gpu(event);
    if (event.kind == HostEventKind::record) {
      Lane& lane = lane_of(event.stream);
      close(lane);
      std::vector<std::int32_t>& held = held_by_[event.record] = lane.pending;
      if (lane.latest >= 0) held.push_back(lane.latest);
      return;
    }
    const auto held = held_by_.find(event.record);
    if (held == held_by_.end()) return;
    Lane& lane = lane_of(event.stream);
    for (const std::int32_t piece : held->second) {
      const std::uint32_t of_lane = lane_of_piece_[static_cast<std::size_t>(piece)];
      if (of_lane == event.stream) continue;  // in order
      std::int32_t& latest = lane.waited_for.try_emplace(of_lane, -1).first->second;
      if (piece <= latest) continue;
      latest = piece;
      close(lane);
      lane.pending.push_back(piece);
    }
  }

  /// What a record tells that the host waited for; empty: none tells.
  std::vector<std::int32_t> recorded_wait(const HostEvent& event) const {
    std::vector<std::int32_t> waited_for;
    if (const auto held = held_by_.find(event.record); held != held_by_.end()) waited_for = held->second;
    const auto add_lane = [&](const Lane& lane) {
      if (lane.latest >= 0) waited_for.push_back(lane.latest);
      waited_for.insert(waited_for.end(), lane.pending.begin(), lane.pending.end());
    };
    if (event.stream == HostEvent::every_stream) {
      for (const Lane& lane : lanes_) add_lane(lane);
    } else if (event.stream < lanes_.size()) {
      add_lane(lanes_[event.stream]);
    }
    return waited_for;
  }

  /// A call in which the host waited, if it did.
  void wait_for_gpu(const HostEvent& event) {
    close_all();
    const ApiCall call = events_.process.api_calls[event.call];
    const WorkPart part = parts_.of(call);
    TracePiece piece;
    piece.kind = PieceKind::host_wait;
    piece.contradicted = event.contradicted;
    const std::vector<std::int32_t> recorded = recorded_wait(event);
    piece.inferred = recorded.empty();
    Nanoseconds reached_ns = call.start_ns;
    if (piece.inferred) {
      const std::size_t ahead = launched_ahead_of(call.end_ns);
      if (part == WorkPart::launching ? ahead < queue_is_full : part == WorkPart::allocation && ahead > 0) return;
      std::tie(piece.waits[1].piece, reached_ns) = find_waited_for(call, part == WorkPart::launching);
      piece.waits[1].slack_ns = 0;
    } else {
      Predecessors before(call.end_ns, no_time);
      for (const std::int32_t waited_for : recorded) before.add_other(waited_for, end_of(waited_for));
      reached_ns = std::max(reached_ns, before.latest_ns());
      piece.waits = before.waits();
    }
    if (reached_ns <= call.start_ns) return;
    piece.host_ns = host_until(call.start_ns);
    piece.start = piece.end = TraceTime(call.end_ns);
    piece.after_host_ns = saturated_slack(reached_ns - call.start_ns);
    piece.after_ns = saturated_slack(call.end_ns - reached_ns);
    pieces_.push_back(piece);
    activities_.push_back(1);
    lane_of_piece_.push_back(HostEvent::none);
    host_ns_ = call.end_ns;
  }

  /// The latest that was over when the call returned, or, to make room in a full queue, was under way; and how far the
  /// GPU had come.
  std::pair<std::int32_t, Nanoseconds> find_waited_for(const ApiCall& call, bool for_room) const {
    constexpr std::size_t looked_at = 2048;  // pieces; the driver's queue holds 1,024 launches
    std::pair<std::int32_t, Nanoseconds> found{-1, call.start_ns};
    const std::size_t first = pieces_.size() > looked_at ? pieces_.size() - looked_at : 0;
    for (std::size_t p = pieces_.size(); p-- > first;) {
      const TracePiece& earlier = pieces_[p];
      if (earlier.kind == PieceKind::host_wait) continue;
      const Nanoseconds here_ns = for_room && earlier.kind == PieceKind::compute
                                      ? std::min(earlier.end.ns, std::max(call.end_ns, earlier.start.ns))
                                      : earlier.end.ns;
      if (here_ns <= call.end_ns && here_ns > found.second) found = {static_cast<std::int32_t>(p), here_ns};
    }
    return found;
  }

  /// Activities launched that were not over at some time.
  std::size_t launched_ahead_of(Nanoseconds time_ns) const {
    std::size_t ahead = 0;
    for (std::size_t p = pieces_.size(); p-- > 0 && ahead < queue_is_full;) {
      if (pieces_[p].kind == PieceKind::host_wait) continue;
      if (pieces_[p].end.ns <= time_ns) break;
      ahead += activities_[p];
    }
    return ahead;
  }

  void add(Lane& lane, const TracePiece& piece, std::uint32_t activities = 1) {
    lane.latest = static_cast<std::int32_t>(pieces_.size());
    if (piece.kind == PieceKind::compute) lane.latest_compute = lane.latest;
    lane_of_piece_.push_back(static_cast<std::uint32_t>(&lane - lanes_.data()));
    pieces_.push_back(piece);
    activities_.push_back(activities);
  }

  void close(Lane& lane) {
    if (lane.open) add(lane, *lane.open, lane.open_activities);
    lane.open.reset();
    lane.open_activities = 0;
  }

  /// In the order of launches.
  void close_all() {
    std::vector<std::uint32_t> open;
    for (std::uint32_t n = 0; n < lanes_.size(); ++n)
      if (lanes_[n].open) open.push_back(n);
    std::sort(open.begin(), open.end(),
              [&](std::uint32_t a, std::uint32_t b) { return lanes_[a].opened < lanes_[b].opened; });
    for (const std::uint32_t n : open) close(lanes_[n]);
  }

  /// What lies before an arrival in the order of launches is its work.
  void number_segments() {
    auto next = static_cast<std::int32_t>(arrivals_.size());
    for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
      if (piece->kind == PieceKind::collective) next = piece->arrival;
      piece->arrival = next;
    }
  }

  const RankEvents& events_;
  std::span<const TraceArrival> arrivals_;
  CallParts parts_;
  Contention contention_;
  Program program_;
  std::vector<bool> is_known_;
  std::vector<Lane> lanes_;
  std::size_t opened_ = 0;
  std::unordered_map<std::uint32_t, std::vector<std::int32_t>> held_by_;  ///< pieces, by event record
  std::vector<std::int32_t> collectives_;                                 ///< numbers of their pieces
  std::vector<TracePiece> pieces_;
  std::vector<std::uint32_t> activities_;     ///< in each piece
  std::vector<std::uint32_t> lane_of_piece_;  ///< likewise; none: the host
  Nanoseconds host_ns_ = 0;                   ///< the host has been followed until here
};

}  // namespace

std::vector<TracePiece> fold_activity(const RankEvents& events, std::span<const TraceArrival> arrivals) {
  return ActivityFolder(events, arrivals).fold();
}

}  // namespace nsys_explain::analysis
