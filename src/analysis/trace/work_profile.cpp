#include "analysis/trace/work_profile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <unordered_map>

#include "analysis/trace/compute_overlap.hpp"
#include "analysis/trace/host_activity.hpp"
#include "analysis/trace/launch_order.hpp"
#include "nsys_explain/model/release.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
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
    for (std::size_t part = 0; part < work_part_count; ++part) {
      profiles[finished.profile].parts_ns[part] = saturated<std::uint32_t>(finished.parts_ns[part]);
    }
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
