#include "analysis/trace/work_profile.hpp"

#include <iterator>
#include <numeric>

#include "analysis/trace/host_activity.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/intervals.hpp"

namespace nsys_explain::analysis {
void mark_blocking(const RankEvents& events, std::span<TraceArrival> arrivals) {
  constexpr Nanoseconds looked_at_ns = 50'000;
  std::vector<Interval> ends;
  ends.reserve(arrivals.size());
  for (const TraceArrival& arrival : arrivals)
    ends.push_back({std::max(arrival.enter.ns, arrival.exit.ns - looked_at_ns), arrival.exit.ns});
  const std::vector<Nanoseconds> overlapped_ns = compute_within(events, ends);
  for (std::size_t i = 0; i < arrivals.size(); ++i)
    arrivals[i].blocking = 2 * overlapped_ns[i] <= ends[i].end_ns - ends[i].start_ns;
}

std::vector<Nanoseconds> compute_within(const RankEvents& events, std::span<const Interval> intervals,
                                        Nanoseconds longest_pause_ns) {
  std::vector<Nanoseconds> overlaps_ns(intervals.size(), 0);
  std::vector<std::size_t> order(intervals.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  sort_nearly_sorted(order,
                     [&](std::size_t a, std::size_t b) { return intervals[a].start_ns < intervals[b].start_ns; });
  std::vector<std::size_t> open;  // intervals that compute may still come to lie in
  std::size_t next = 0;
  // `resumed_ns`: when kernels run again, where compute begins with a pause.
  const auto take = [&](const Interval& compute, Nanoseconds resumed_ns) {
    for (; next < order.size() && intervals[order[next]].start_ns < compute.end_ns; ++next) open.push_back(order[next]);
    for (const std::size_t i : open) {
      if (intervals[i].end_ns <= resumed_ns) continue;
      const Nanoseconds from_ns = std::max(intervals[i].start_ns, compute.start_ns);
      overlaps_ns[i] += std::max<Nanoseconds>(0, std::min(intervals[i].end_ns, compute.end_ns) - from_ns);
    }
    std::erase_if(open, [&](std::size_t i) { return intervals[i].end_ns <= compute.end_ns; });
  };
  bool any = false;
  Interval busy;
  Nanoseconds resumed_ns = 0;
  for (const Kernel& kernel : events.device.kernels) {
    if (open.empty() && next == order.size()) return overlaps_ns;
    if (events.is_communication(kernel)) continue;
    if (any && kernel.start_ns <= busy.end_ns) {
      busy.end_ns = std::max(busy.end_ns, kernel.end_ns);
      continue;
    }
    if (any && (!open.empty() || intervals[order[next]].start_ns < busy.end_ns)) take(busy, resumed_ns);
    const bool went_on = any && kernel.start_ns <= busy.end_ns + longest_pause_ns;
    busy = {went_on ? busy.end_ns : kernel.start_ns, kernel.end_ns};
    any = true;
    resumed_ns = kernel.start_ns;
  }
  if (any) take(busy, resumed_ns);
  return overlaps_ns;
}

namespace {

/// Kernels that follow each other lie up to this far apart though nothing holds them up.
constexpr Nanoseconds beside_each_other_ns = 5'000;

/// What starts within this time of an exit had waited for it (as in waits/rank_timeline.cpp); stretches that lie no
/// further apart are one.
constexpr Nanoseconds stretch_gap_ns = 20'000;

/// When the host waited for the GPU: merged.
std::vector<Interval> host_waits(const RankEvents& events) {
  std::vector<Interval> waits;
  CallParts parts(events.trace);
  for (const ApiCall& call : events.process.api_calls) {
    const WorkPart part = parts.of(call);
    if (part == WorkPart::synchronising || part == WorkPart::blocking_copy)
      waits.push_back({call.start_ns, call.end_ns});
  }
  return merge_intervals(std::move(waits));
}

/// Goes through the exposed time of a device, which ascends.
class ExposedTeller {
 public:
  ExposedTeller(const RankEvents& events, std::span<const TraceArrival> arrivals)
      : events_(events), arrivals_(arrivals), host_waits_(host_waits(events)) {
    for (const TraceArrival& arrival : arrivals) exits_.push_back(arrival.exit.ns);
    std::sort(exits_.begin(), exits_.end());
  }

  void tell(const Interval& exposed) {
    find_next_compute(exposed.start_ns);
    for (Nanoseconds at_ns = exposed.start_ns; at_ns < exposed.end_ns;) {
      const TraceArrival* const owner = owner_at(at_ns);
      const Nanoseconds until_ns =
          std::min(exposed.end_ns, owner != nullptr ? owner->exit.ns : next_enter_after(at_ns, exposed.end_ns));
      tell_reasons(owner, {at_ns, until_ns});
      at_ns = until_ns;
    }
  }
  std::vector<ExposedStretch> stretches() && { return std::move(stretches_); }

 private:
  /// The compute kernel that ran next, and when its launch returned.
  void find_next_compute(Nanoseconds from_ns) {
    const Kernels& kernels = events_.device.kernels;
    while (next_kernel_ < kernels.size() &&
           (events_.is_communication(kernels[next_kernel_]) || kernels[next_kernel_].start_ns < from_ns))
      ++next_kernel_;
    compute_ns_.reset();
    launched_ns_.reset();
    if (next_kernel_ == kernels.size()) return;
    const Kernel kernel = kernels[next_kernel_];
    compute_ns_ = kernel.start_ns;
    const std::uint32_t call = events_.launches.number_of(kernel.correlation_id, kernel.start_ns);
    if (call != LaunchIndex::no_call) launched_ns_ = events_.process.api_calls[call].end_ns;
  }

  /// The first that entered of those under way.
  const TraceArrival* owner_at(Nanoseconds at_ns) {
    for (; next_arrival_ < arrivals_.size() && arrivals_[next_arrival_].enter.ns <= at_ns; ++next_arrival_)
      under_way_.push_back(&arrivals_[next_arrival_]);
    std::erase_if(under_way_, [&](const TraceArrival* arrival) { return arrival->exit.ns <= at_ns; });
    return under_way_.empty() ? nullptr : under_way_.front();
  }

  Nanoseconds next_enter_after(Nanoseconds at_ns, Nanoseconds until_ns) const {
    return next_arrival_ < arrivals_.size() && arrivals_[next_arrival_].enter.ns > at_ns
               ? arrivals_[next_arrival_].enter.ns
               : until_ns;
  }

  /// Until the launch of what runs next the host is the reason, or what the host waited for.
  void tell_reasons(const TraceArrival* owner, const Interval& exposed) {
    const Nanoseconds launched_ns = std::clamp(launched_ns_.value_or(compute_ns_ ? exposed.start_ns : exposed.end_ns),
                                               exposed.start_ns, exposed.end_ns);
    const StandstillReason by_host = launched_ns_ ? StandstillReason::launch_paced : StandstillReason::not_told;
    Nanoseconds at_ns = exposed.start_ns;
    while (next_wait_ < host_waits_.size() && host_waits_[next_wait_].end_ns <= at_ns) ++next_wait_;
    for (std::size_t w = next_wait_; w < host_waits_.size() && host_waits_[w].start_ns < launched_ns; ++w) {
      const Interval wait{std::max(at_ns, host_waits_[w].start_ns), std::min(launched_ns, host_waits_[w].end_ns)};
      add(owner, by_host, {at_ns, wait.start_ns});
      add(owner, StandstillReason::blocking, wait);
      at_ns = wait.end_ns;
    }
    add(owner, by_host, {at_ns, launched_ns});
    add(owner, waited_since(launched_ns) ? StandstillReason::blocking : StandstillReason::not_told,
        {launched_ns, exposed.end_ns});
  }

  /// Whether what runs next, launched by then, went on when a collective left: this one, or another.
  bool waited_since(Nanoseconds launched_ns) const {
    if (!compute_ns_) return false;
    const auto after = std::upper_bound(exits_.begin(), exits_.end(), *compute_ns_);
    return after != exits_.begin() && *std::prev(after) > launched_ns + beside_each_other_ns &&
           *compute_ns_ - *std::prev(after) <= stretch_gap_ns;
  }

  void add(const TraceArrival* owner, StandstillReason reason, const Interval& exposed) {
    if (exposed.end_ns <= exposed.start_ns) return;
    const std::int32_t arrival = owner == nullptr ? -1 : owner->index;
    if (!stretches_.empty()) {
      ExposedStretch& latest = stretches_.back();
      if (latest.arrival == arrival && latest.reason == reason && exposed.start_ns - latest.end_ns <= stretch_gap_ns) {
        latest.end_ns = exposed.end_ns;
        latest.exposed_ns += exposed.end_ns - exposed.start_ns;
        return;
      }
    }
    stretches_.push_back({exposed.start_ns, exposed.end_ns, exposed.end_ns - exposed.start_ns, arrival,
                          owner == nullptr ? Operation::unknown : owner->operation, reason});
  }

  const RankEvents& events_;
  std::span<const TraceArrival> arrivals_;
  std::vector<Interval> host_waits_;
  std::vector<Nanoseconds> exits_;  ///< ascending
  std::size_t next_kernel_ = 0, next_arrival_ = 0, next_wait_ = 0;
  std::optional<Nanoseconds> compute_ns_, launched_ns_;
  std::vector<const TraceArrival*> under_way_;  ///< by enter
  std::vector<ExposedStretch> stretches_;
};

}  // namespace

std::vector<ExposedStretch> exposed_stretches(const RankEvents& events, std::span<const TraceArrival> arrivals) {
  ExposedTeller teller(events, arrivals);
  for_each_gpu_part(events.device, events.communication_kinds, [&](GpuPart part, const Interval& interval) {
    if (part == GpuPart::communication) teller.tell(interval);
  });
  return std::move(teller).stretches();
}

}  // namespace nsys_explain::analysis
