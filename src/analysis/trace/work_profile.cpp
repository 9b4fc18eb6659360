#include "analysis/trace/work_profile.hpp"

#include <queue>

#include "analysis/trace/host_activity.hpp"
#include "analysis/trace/launches.hpp"
#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

WorkPart part_of_activity(const RankEvents& events, const GpuActivity& activity) {
  switch (activity.kind) {
    case ActivityKind::kernel:
      return events.is_communication(events.device.kernels[activity.index]) ? WorkPart::communication
                                                                            : WorkPart::compute;
    case ActivityKind::memory_operation: {
      // A copy that its launching call outlasts is one that the host waited for, whatever the call's name.
      const auto call = events.launches.find(activity.correlation_id, activity.start_ns);
      return call && call->end_ns >= activity.end_ns ? WorkPart::blocking_copy : WorkPart::copy;
    }
    case ActivityKind::graph_launch:
      break;
  }
  return WorkPart::opaque_graph;
}

constexpr std::array<WorkPart, 5> busy_parts{WorkPart::compute, WorkPart::communication, WorkPart::blocking_copy,
                                             WorkPart::copy, WorkPart::opaque_graph};

/// Joins pieces of one part that touch before it hands them on.
class Joiner {
 public:
  explicit Joiner(const UsePiece& use) : use_(use) {}
  void add(const WorkPiece& piece) {
    if (piece.end_ns <= piece.start_ns) return;
    if (open_ && open_->part == piece.part) {
      open_->end_ns = piece.end_ns;
      return;
    }
    finish();
    open_ = piece;
  }
  void finish() {
    if (open_) use_(*open_);
    open_.reset();
  }

 private:
  const UsePiece& use_;
  std::optional<WorkPiece> open_;
};

/// What runs on the device, while its activities come by start.
class Running {
 public:
  void start(WorkPart part, Nanoseconds end_ns) {
    ++running_[static_cast<std::size_t>(part)];
    ends_.emplace(end_ns, part);
  }
  bool any() const { return !ends_.empty(); }
  Nanoseconds next_end_ns() const { return ends_.top().first; }
  void end_next() {
    --running_[static_cast<std::size_t>(ends_.top().second)];
    ends_.pop();
  }
  WorkPart part() const {
    return *std::find_if(busy_parts.begin(), busy_parts.end(),
                         [&](WorkPart part) { return running_[static_cast<std::size_t>(part)] > 0; });
  }

 private:
  using End = std::pair<Nanoseconds, WorkPart>;
  std::array<int, work_part_count> running_{};
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

void for_each_work_piece(const RankEvents& events, const HostActivity& host, const UsePiece& use) {
  Joiner pieces(use);
  Running running;
  HostActivity::IdlePieces idle;
  std::optional<Nanoseconds> at_ns;  // pieces are made until here
  const auto advance = [&](Nanoseconds to_ns) {
    // What starts as something else ends leaves no gap.
    while (running.any() && running.next_end_ns() < to_ns) {
      pieces.add({*at_ns, running.next_end_ns(), running.part()});
      at_ns = running.next_end_ns();
      running.end_next();
    }
    if (running.any() && *at_ns < to_ns) {
      pieces.add({*at_ns, to_ns, running.part()});
      at_ns = to_ns;
    }
  };
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (activity.end_ns <= activity.start_ns) return;
    if (!at_ns) at_ns = activity.start_ns;
    advance(activity.start_ns);
    if (*at_ns < activity.start_ns) {
      const auto launch = events.launches.find(activity.correlation_id, activity.start_ns);
      if (!launch) {
        pieces.add({*at_ns, activity.start_ns, WorkPart::pending});
      } else {
        host.explain({*at_ns, activity.start_ns}, *launch, idle);
        for (const WorkPiece& piece : idle.pieces) pieces.add(piece);
      }
      at_ns = activity.start_ns;
    }
    running.start(part_of_activity(events, activity), activity.end_ns);
  });
  if (at_ns) advance(std::numeric_limits<Nanoseconds>::max());
  pieces.finish();
}

std::vector<WorkPiece> work_timeline(const RankEvents& events) {
  std::vector<WorkPiece> pieces;
  for_each_work_piece(events, HostActivity(events), [&](const WorkPiece& piece) { pieces.push_back(piece); });
  return pieces;
}

namespace {

template <class Small>
Small saturated(std::int64_t value) {
  return static_cast<Small>(
      std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(std::numeric_limits<Small>::max())));
}

/// The time before an arrival that its work took.
Interval work_span(const TraceArrival& arrival) {
  return {arrival.enter.ns - arrival.work_ns, arrival.enter.ns};
}

/// One that the timeline has come to, and what it was so far.
struct OpenSpan {
  Interval span;
  std::uint32_t profile = 0;
  std::array<std::int64_t, work_part_count> parts_ns{};
};

/// Numbers of the arrivals that have work before them, by when it began.
std::vector<std::uint32_t> by_start_of_work(std::span<const TraceArrival> arrivals) {
  std::vector<std::uint32_t> order;
  order.reserve(arrivals.size());
  for (std::uint32_t i = 0; i < arrivals.size(); ++i)
    if (arrivals[i].work_ns > 0) order.push_back(i);  // not no_time either
  sort_nearly_sorted(order, [&](std::uint32_t a, std::uint32_t b) {
    return work_span(arrivals[a]).start_ns < work_span(arrivals[b]).start_ns;
  });
  return order;
}

/// Of arrivals in order of enter: whether one began when the one before it on its stream had just ended.
class StreamQueues {
 public:
  bool followed_at_once(const TraceArrival& arrival) {
    constexpr Nanoseconds at_once_ns = 20'000;
    Nanoseconds& latest_exit_ns = latest_exit_ns_[arrival.stream];
    const bool at_once = latest_exit_ns != no_time && arrival.enter.ns - latest_exit_ns < at_once_ns;
    latest_exit_ns = std::max(latest_exit_ns, arrival.exit.ns);
    return at_once;
  }

 private:
  std::vector<Nanoseconds> latest_exit_ns_ = std::vector<Nanoseconds>(any_stream + 1, no_time);
};

/// By kernel kind: the mean duration of all kernels of the device with the same hash; 0 where there is none.
std::vector<double> mean_durations(const DeviceTrace& device, std::span<const std::uint64_t> hashes) {
  struct Sum {
    std::int64_t count = 0, total_ns = 0;
  };
  std::vector<Sum> of_kind(hashes.size());
  for (const Kernel& kernel : device.kernels) {
    ++of_kind[kernel.kind].count;
    of_kind[kernel.kind].total_ns += kernel.end_ns - kernel.start_ns;
  }
  std::unordered_map<std::uint64_t, Sum> of_hash;
  for (std::size_t k = 0; k < hashes.size(); ++k) {
    Sum& sum = of_hash[hashes[k]];
    sum.count += of_kind[k].count;
    sum.total_ns += of_kind[k].total_ns;
  }
  std::vector<double> means;
  for (const std::uint64_t hash : hashes) {
    const Sum& sum = of_hash.at(hash);
    means.push_back(sum.count > 0 ? static_cast<double>(sum.total_ns) / static_cast<double>(sum.count) : 0);
  }
  return means;
}

/// What the program launched for each arrival, by its kernels. Returns when the host did so, parallel to the arrivals;
/// an empty span where nothing is known.
std::vector<Interval> add_kernels(const RankEvents& events, std::span<const TraceArrival> arrivals,
                                  std::vector<WorkProfile>& profiles) {
  std::vector<Interval> launches(arrivals.size());
  std::vector<bool> is_known(arrivals.size());
  const std::vector<std::uint64_t> hashes = hash_kernel_kinds(events);
  const std::vector<double> usual_ns = mean_durations(events.device, hashes);
  for_each_launch_segment(events, [&](const Kernel& communication, const LaunchSegment& segment) {
    const auto first =
        std::lower_bound(arrivals.begin(), arrivals.end(), communication.start_ns,
                         [](const TraceArrival& a, Nanoseconds time_ns) { return a.enter.ns < time_ns; });
    auto i = static_cast<std::size_t>(first - arrivals.begin());
    const auto is_its = [&] { return i < arrivals.size() && arrivals[i].enter.ns == communication.start_ns; };
    while (is_its() && is_known[i]) ++i;  // several that start at once are in the order of their launches
    if (!is_its()) return;
    is_known[i] = true;
    launches[i] = {segment.start_ns, segment.end_ns};
    WorkProfile& profile = profiles[i];
    std::int64_t kernel_ns = 0;
    double usual_kernel_ns = 0;
    Nanoseconds ready_ns = segment.end_ns;
    for (const std::uint32_t number : segment.kernels) {
      const Kernel kernel = events.device.kernels[number];
      kernel_ns += kernel.end_ns - kernel.start_ns;
      usual_kernel_ns += usual_ns[kernel.kind];
      ready_ns = std::max(ready_ns, kernel.end_ns);
      profile.kernels_hash += hashes[kernel.kind];
    }
    profile.kernels = saturated<std::uint32_t>(static_cast<std::int64_t>(segment.kernels.size()));
    profile.kernel_ns = saturated<std::uint32_t>(kernel_ns);
    profile.usual_kernel_ns = saturated<std::uint32_t>(std::llround(usual_kernel_ns));
    if (!segment.kernels.empty()) profile.queued_ns = saturated<std::uint32_t>(arrivals[i].enter.ns - ready_ns);
  });
  StreamQueues streams;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    profiles[i].enter = arrivals[i].enter;
    if (!streams.followed_at_once(arrivals[i])) profiles[i].queued_ns = 0;  // it waited for its launch, not in a queue
  }
  return launches;
}

/// Adds up the pieces of the device's timeline that lie in the work before each arrival.
void add_parts(const RankEvents& events, const HostActivity& host, std::span<const TraceArrival> arrivals,
               std::vector<WorkProfile>& profiles) {
  const std::vector<std::uint32_t> order = by_start_of_work(arrivals);
  std::vector<OpenSpan> open;  // those that the next piece may lie in
  std::size_t next = 0;
  const auto close = [&](const OpenSpan& finished) {
    for (std::size_t part = 0; part < work_part_count; ++part)
      profiles[finished.profile].parts_ns[part] = saturated<std::uint32_t>(finished.parts_ns[part]);
  };
  for_each_work_piece(events, host, [&](const WorkPiece& piece) {
    std::erase_if(open, [&](const OpenSpan& o) {
      const bool is_over = o.span.end_ns <= piece.start_ns;
      if (is_over) close(o);
      return is_over;
    });
    for (; next < order.size(); ++next) {
      const Interval span = work_span(arrivals[order[next]]);
      if (span.start_ns >= piece.end_ns) break;
      if (span.end_ns > piece.start_ns) open.push_back({span, order[next], {}});
    }
    for (OpenSpan& o : open) {
      o.parts_ns[static_cast<std::size_t>(piece.part)] +=
          std::min(piece.end_ns, o.span.end_ns) - std::max(piece.start_ns, o.span.start_ns);
    }
  });
  for (const OpenSpan& o : open) close(o);
}

/// Compute that pauses for no longer than between two launches goes on.
void add_compute_beside(const RankEvents& events, std::span<const TraceArrival> arrivals,
                        std::vector<WorkProfile>& profiles) {
  constexpr Nanoseconds longest_pause_ns = 50'000;
  std::vector<Interval> under_way;
  under_way.reserve(arrivals.size());
  for (std::size_t i = 0; i < profiles.size(); ++i)
    under_way.push_back({arrivals[i].enter.ns - Nanoseconds{profiles[i].queued_ns}, arrivals[i].exit.ns});
  const std::vector<Nanoseconds> beside_ns = compute_within(events, under_way, longest_pause_ns);
  for (std::size_t i = 0; i < profiles.size(); ++i)
    profiles[i].compute_beside_ns = saturated<std::uint32_t>(beside_ns[i]);
}

}  // namespace

std::vector<WorkProfile> profile_work(const RankEvents& events, std::span<const TraceArrival> arrivals) {
  std::vector<WorkProfile> profiles(arrivals.size());
  if (arrivals.empty()) return profiles;
  std::vector<Interval> launches = add_kernels(events, arrivals, profiles);
  const HostActivity host(events);
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    profiles[i].synchronisations =
        saturated<std::uint16_t>(host.synchronisations(launches[i].start_ns, launches[i].end_ns));
    profiles[i].allocations = saturated<std::uint16_t>(host.allocations(launches[i].start_ns, launches[i].end_ns));
  }
  release(launches);
  add_parts(events, host, arrivals, profiles);
  add_compute_beside(events, arrivals, profiles);
  return profiles;
}

Nanoseconds host_idle_ns(const WorkProfile& profile) {
  Nanoseconds idle_ns = profile.part(WorkPart::blocking_copy);
  for (auto part = static_cast<std::size_t>(WorkPart::profiling); part <= static_cast<std::size_t>(WorkPart::unseen);
       ++part)
    idle_ns += profile.parts_ns[part];
  return idle_ns;
}

}  // namespace nsys_explain::analysis
