#include "analysis/trace/activity_graph.hpp"

#include <algorithm>
#include <limits>
#include <memory_resource>
#include <optional>
#include <set>

#include "analysis/trace/gpu_activity.hpp"
#include "analysis/trace/host_activity.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
namespace {

/// A pause of the GPU from which on its work is a piece of its own; as long as a launch takes it idles all the time.
constexpr Nanoseconds pause_ns = 20'000;

/// Launches that a queue of the driver holds are 1,024: who is that far ahead waits for the GPU in a launch, too.
constexpr std::size_t queue_is_full = 512;

std::uint32_t saturated_slack(Nanoseconds time_ns) {
  return static_cast<std::uint32_t>(std::clamp<Nanoseconds>(time_ns, 0, no_bound - 1));
}

std::uint32_t sum_of_slacks(std::uint32_t a, std::uint32_t b) {
  return a == no_bound || b == no_bound ? no_bound : saturated_slack(Nanoseconds{a} + b);
}

/// A GPU activity, by when the host launched it. A trace has millions.
struct LaunchedActivity {
  Nanoseconds launch_ns = 0;
  std::uint32_t call = LaunchIndex::no_call;
  std::uint32_t what = 0;  ///< index of the activity times 4 plus ActivityKind

  GpuActivity in(const DeviceTrace& device) const {
    return activity_at(device, static_cast<ActivityKind>(what % 4), what / 4);
  }
};

/// What the program did, in the order of the host.
struct Program {
  std::pmr::vector<LaunchedActivity> activities;  ///< several of one launch as they started
  std::vector<std::uint32_t> waits;               ///< calls in which the host may have waited
};

/// Whether the host may wait for the GPU in such a call.
bool may_wait_for_gpu(WorkPart part) {
  return part == WorkPart::synchronising || part == WorkPart::blocking_copy || part == WorkPart::allocation;
}

Program program_of(const RankEvents& events) {
  const DeviceTrace& device = events.device;
  Program program;
  program.activities.reserve(device.kernels.size() + device.memory_operations.size() + device.graph_launches.size());
  std::set<std::uint32_t> threads;
  Nanoseconds latest_launch_ns = no_time;  // of what has started
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    LaunchedActivity launched;
    launched.launch_ns = latest_launch_ns != no_time ? latest_launch_ns : activity.start_ns;  // if its call was lost
    launched.call = events.launches.number_of(activity.correlation_id, activity.start_ns);
    launched.what = static_cast<std::uint32_t>(activity.index) * 4 + static_cast<std::uint32_t>(activity.kind);
    if (launched.call != LaunchIndex::no_call) {
      const ApiCall call = events.process.api_calls[launched.call];
      launched.launch_ns = std::min(call.start_ns, activity.start_ns);
      threads.insert(call.thread_id);
      latest_launch_ns = std::max(latest_launch_ns, launched.launch_ns);
    }
    program.activities.push_back(launched);
  });
  sort_nearly_sorted(program.activities,
                     [](const LaunchedActivity& a, const LaunchedActivity& b) { return a.launch_ns < b.launch_ns; });
  constexpr Nanoseconds longest_launch_ns = 20'000;
  CallParts parts(events.trace);
  std::uint32_t number = 0;
  for (const ApiCall& call : events.process.api_calls) {
    const std::uint32_t here = number++;
    if (!threads.contains(call.thread_id)) continue;
    const WorkPart part = parts.of(call);
    if (may_wait_for_gpu(part) || (part == WorkPart::launching && call.end_ns - call.start_ns >= longest_launch_ns))
      program.waits.push_back(here);
  }
  return program;
}

/// What something may have waited for: when that was over.
struct Predecessors {
  Nanoseconds compute_ns = no_time, host_ns = no_time, other_ns = no_time;
  std::int32_t other = -1;  ///< number of a piece

  /// One that was not over in time is none.
  void leave_out_after(Nanoseconds start_ns) {
    for (Nanoseconds* time : {&compute_ns, &host_ns, &other_ns})
      if (*time != no_time && *time > start_ns) *time = no_time;
  }
  Nanoseconds latest_ns() const {
    Nanoseconds latest = no_time;
    for (const Nanoseconds time : {compute_ns, host_ns, other_ns})
      if (time != no_time && (latest == no_time || time > latest)) latest = time;
    return latest;
  }
  std::uint32_t slack_of(Nanoseconds time_ns) const {
    return time_ns == no_time ? no_bound : saturated_slack(latest_ns() - time_ns);
  }
};

/// Goes through the program and folds it.
class ActivityFolder {
 public:
  ActivityFolder(const RankEvents& events, std::span<const Arrival> arrivals)
      : events_(events),
        arrivals_(arrivals),
        parts_(events.trace),
        is_known_(arrivals.size()),
        latest_of_stream_(any_stream + 1, -1) {}

  std::vector<ActivityPiece> fold() {
    const Program program = program_of(events_);
    if (!program.activities.empty()) host_ns_ = first_host_event(program);
    auto wait = program.waits.begin();
    const auto waits_until = [&](Nanoseconds time_ns) {
      for (; wait != program.waits.end(); ++wait) {
        const ApiCall call = events_.process.api_calls[*wait];
        if (call.start_ns >= time_ns) break;
        wait_for_gpu(call);
      }
    };
    for (const LaunchedActivity& launched : program.activities) {
      waits_until(launched.launch_ns);
      const GpuActivity activity = launched.in(events_.device);
      const bool is_kernel = activity.kind == ActivityKind::kernel;
      if (is_kernel && events_.is_communication(events_.device.kernels[activity.index])) {
        if (const std::optional<std::size_t> arrival = arrival_of(activity)) collective(launched, activity, *arrival);
      } else {
        compute(launched, activity);
      }
    }
    waits_until(std::numeric_limits<Nanoseconds>::max());
    close();
    number_segments();
    return std::move(pieces_);
  }

 private:
  /// When the thread that launched, or waited, first is heard of first.
  Nanoseconds first_host_event(const Program& program) const {
    Nanoseconds earliest_ns = program.activities.front().launch_ns;
    std::uint32_t first = program.activities.front().call;
    if (!program.waits.empty()) {
      const ApiCall wait = events_.process.api_calls[program.waits.front()];
      if (wait.start_ns < earliest_ns) first = program.waits.front(), earliest_ns = wait.start_ns;
    }
    if (first == LaunchIndex::no_call) return earliest_ns;
    const std::uint32_t thread = events_.process.api_calls[first].thread_id;
    for (const ApiCall& call : events_.process.api_calls) {
      if (call.start_ns >= earliest_ns) break;
      if (call.thread_id == thread) earliest_ns = call.start_ns;
    }
    for (const NvtxRange& range : events_.process.nvtx_ranges) {
      if (range.start_ns >= earliest_ns) break;
      if (range.thread_id == thread) earliest_ns = range.start_ns;
    }
    return earliest_ns;
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
                               [](const Arrival& a, Nanoseconds time_ns) { return a.enter_ns < time_ns; });
    for (; at != arrivals_.end() && at->enter_ns == activity.start_ns; ++at) {
      const auto i = static_cast<std::size_t>(at - arrivals_.begin());
      if (is_known_[i]) continue;
      is_known_[i] = true;
      return i;
    }
    return std::nullopt;
  }

  void add_busy(ActivityKind kind, Nanoseconds busy_ns) {
    std::uint32_t& sum_ns = kind == ActivityKind::memory_operation ? open_->copy_ns : open_->gpu_ns;
    sum_ns = saturated_slack(Nanoseconds{sum_ns} + busy_ns);
    open_->last_ns = saturated_slack(busy_ns);
    ++open_activities_;
  }

  void compute(const LaunchedActivity& launched, const GpuActivity& activity) {
    if (compute_end_ns_ != no_time && activity.start_ns < compute_end_ns_) {  // beside other work
      const Nanoseconds more_ns = std::max<Nanoseconds>(0, activity.end_ns - compute_end_ns_);
      compute_end_ns_ += more_ns;
      if (!open_) {
        open_.emplace();
        open_->start_ns = activity.start_ns;
        open_->after_compute_ns = 0;
        open_->host_ns = host_until(launched.launch_ns);
      }
      open_->end_ns = compute_end_ns_;
      add_busy(activity.kind, more_ns);
      return;
    }
    Predecessors before{compute_end_ns_, launched_ns(launched, activity), no_time, -1};
    find_collective_before(activity.start_ns, before);
    before.leave_out_after(activity.start_ns);
    add_compute(launched, activity, before);
    compute_end_ns_ = activity.end_ns;
  }

  /// What went on when a collective left, after it had stood still, had waited for it. Ends of collectives that went on
  /// beside compute lie between two kernels now and then, too.
  void find_collective_before(Nanoseconds start_ns, Predecessors& before) const {
    constexpr Nanoseconds between_kernels_ns = 5'000;
    constexpr std::size_t under_way = 64;  // launched ahead of the one that compute waits for
    const Nanoseconds otherwise_ns = before.latest_ns();
    std::size_t looked_at = 0;
    for (auto at = collectives_.rbegin(); at != collectives_.rend() && looked_at < under_way; ++at, ++looked_at) {
      const Nanoseconds exit_ns = pieces_[*at].end_ns;
      if (exit_ns > start_ns || (otherwise_ns != no_time && exit_ns <= otherwise_ns + between_kernels_ns)) continue;
      if (before.other >= 0 && before.other_ns >= exit_ns) continue;
      before.other_ns = exit_ns;
      before.other = static_cast<std::int32_t>(*at);
    }
  }

  void add_compute(const LaunchedActivity& launched, const GpuActivity& activity, const Predecessors& before) {
    const std::uint32_t compute_slack = before.slack_of(before.compute_ns),
                        host_slack = before.slack_of(before.host_ns);
    const bool paused = compute_end_ns_ != no_time && activity.start_ns - compute_end_ns_ > pause_ns;
    if (!open_ || before.other >= 0 || paused || compute_slack == no_bound) {
      close();
      open_.emplace();
      open_->start_ns = activity.start_ns;
      open_->after_compute_ns = compute_slack;
      open_->after_host_ns = host_slack;
      open_->after_other_ns = before.slack_of(before.other_ns);
      open_->waits_for = before.other;
      open_->host_ns = host_until(launched.launch_ns);
    } else {
      open_->after_compute_ns = sum_of_slacks(open_->after_compute_ns, compute_slack);
      const std::uint32_t earlier_slack = sum_of_slacks(open_->after_host_ns, compute_slack);
      if (host_slack < earlier_slack) open_->host_ns = sum_of_slacks(open_->host_ns, host_until(launched.launch_ns));
      open_->after_host_ns = std::min(earlier_slack, host_slack);
      open_->after_other_ns = sum_of_slacks(open_->after_other_ns, compute_slack);
    }
    open_->after_last_launch_ns = host_slack;
    add_busy(activity.kind, activity.end_ns - activity.start_ns);
    open_->end_ns = activity.end_ns;
  }

  void collective(const LaunchedActivity& launched, const GpuActivity& activity, std::size_t i) {
    close();
    const Arrival& arrival = arrivals_[i];
    std::int32_t& latest = latest_of_stream_[arrival.stream];
    Predecessors before{compute_end_ns_, launched_ns(launched, activity), no_time, latest};
    if (latest >= 0) before.other_ns = pieces_[static_cast<std::size_t>(latest)].end_ns;
    before.leave_out_after(arrival.enter_ns);
    find_collective_before(arrival.enter_ns, before);
    ActivityPiece piece;
    piece.kind = PieceKind::collective;
    piece.start_ns = arrival.enter_ns;
    piece.end_ns = arrival.exit_ns;
    piece.arrival = static_cast<std::int32_t>(i);
    piece.after_compute_ns = before.slack_of(before.compute_ns);
    piece.after_host_ns = before.slack_of(before.host_ns);
    piece.after_other_ns = before.slack_of(before.other_ns);
    if (piece.after_other_ns != no_bound) piece.waits_for = before.other;
    piece.host_ns = host_until(launched.launch_ns);
    latest = static_cast<std::int32_t>(pieces_.size());
    collectives_.push_back(pieces_.size());
    add(piece);
  }

  /// A call in which the host waited, if it did.
  void wait_for_gpu(const ApiCall& call) {
    close();
    const WorkPart part = parts_.of(call);
    const std::size_t ahead = launched_ahead_of(call.end_ns);
    if (part == WorkPart::launching ? ahead < queue_is_full : part == WorkPart::allocation && ahead > 0) return;
    constexpr std::size_t looked_at = 2048;  // pieces; the driver's queue holds 1,024 launches
    Nanoseconds reached_ns = call.start_ns;
    ActivityPiece piece;
    piece.kind = PieceKind::host_wait;
    const std::size_t first = pieces_.size() > looked_at ? pieces_.size() - looked_at : 0;
    for (std::size_t p = pieces_.size(); p-- > first;) {
      const ActivityPiece& earlier = pieces_[p];
      if (earlier.kind == PieceKind::host_wait) continue;
      // The latest that was over when the call returned, or, to make room in a full queue, was under way.
      const Nanoseconds here_ns = part == WorkPart::launching && earlier.kind == PieceKind::compute
                                      ? std::min(earlier.end_ns, std::max(call.end_ns, earlier.start_ns))
                                      : earlier.end_ns;
      if (here_ns > call.end_ns || here_ns <= reached_ns) continue;
      reached_ns = here_ns;
      piece.waits_for = static_cast<std::int32_t>(p);
    }
    if (piece.waits_for < 0) return;
    piece.host_ns = host_until(call.start_ns);
    piece.start_ns = piece.end_ns = call.end_ns;
    piece.after_host_ns = saturated_slack(reached_ns - call.start_ns);
    piece.after_other_ns = 0;
    piece.after_ns = saturated_slack(call.end_ns - reached_ns);
    add(piece);
    host_ns_ = call.end_ns;
  }

  /// Activities launched that were not over at some time.
  std::size_t launched_ahead_of(Nanoseconds time_ns) const {
    std::size_t ahead = 0;
    for (std::size_t p = pieces_.size(); p-- > 0 && ahead < queue_is_full;) {
      if (pieces_[p].kind == PieceKind::host_wait) continue;
      if (pieces_[p].end_ns <= time_ns) break;
      ahead += activities_[p];
    }
    return ahead;
  }

  void add(const ActivityPiece& piece, std::uint32_t activities = 1) {
    pieces_.push_back(piece);
    activities_.push_back(activities);
  }

  void close() {
    if (open_) add(*open_, open_activities_);
    open_.reset();
    open_activities_ = 0;
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
  std::span<const Arrival> arrivals_;
  CallParts parts_;
  std::vector<bool> is_known_;
  std::vector<std::int32_t> latest_of_stream_;  ///< number of the piece of its latest collective
  std::vector<std::size_t> collectives_;        ///< numbers of their pieces
  std::vector<ActivityPiece> pieces_;
  std::vector<std::uint32_t> activities_;  ///< in each piece
  std::optional<ActivityPiece> open_;
  std::uint32_t open_activities_ = 0;
  Nanoseconds compute_end_ns_ = no_time;
  Nanoseconds host_ns_ = 0;  ///< the host has been followed until here
};

}  // namespace

std::vector<ActivityPiece> fold_activity(const RankEvents& events, std::span<const Arrival> arrivals) {
  return ActivityFolder(events, arrivals).fold();
}

}  // namespace nsys_explain::analysis
