#include "analysis/trace/launches.hpp"

#include <algorithm>
#include <numeric>

#include "model/hash.hpp"
#include "nsys_explain/model/algorithms.hpp"
#include "nsys_explain/model/run_map.hpp"

namespace nsys_explain::analysis {
ThreadLaunches::Extent ThreadLaunches::join(const Extent& a, const Extent& b) {
  return {std::min(a.gpu_start_ns, b.gpu_start_ns), std::max(a.gpu_end_ns, b.gpu_end_ns),
          std::max(a.call_end_ns, b.call_end_ns)};
}

void ThreadLaunches::add(std::uint32_t call, const GpuActivity& activity) {
  in_order_ = in_order_ && call >= latest_call_;
  latest_call_ = call;
  added_.push_back(static_cast<std::uint32_t>(activity.index << 2 | static_cast<std::size_t>(activity.kind)));
}

void ThreadLaunches::finish() {
  // Calls are sorted by start; what one call launched keeps the order in which it ran.
  if (!in_order_) sort_nearly_sorted(added_, [&](std::uint32_t a, std::uint32_t b) { return call_of(a) < call_of(b); });
  launches_ = NearbyNumbers(added_.size());
  for (std::size_t i = 0; i < added_.size(); ++i) launches_.set(i, added_[i]);
  release(added_);
  const std::size_t blocks = launches_.size() / block;
  tree_.resize(2 * blocks);
  for (std::size_t b = 0; b < blocks; ++b) tree_[blocks + b] = extent_of(b * block, (b + 1) * block);
  for (std::size_t i = blocks; i-- > 1;) tree_[i] = join(tree_[2 * i], tree_[2 * i + 1]);
}

ThreadLaunches::Extent ThreadLaunches::extent_of(std::size_t first, std::size_t last) const {
  Extent extent{std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min(),
                std::numeric_limits<Nanoseconds>::min()};
  for (std::size_t i = first; i < last; ++i) {
    const Launch launch = (*this)[i];
    extent = join(extent, {launch.gpu_start_ns, launch.gpu_end_ns, launch.call_end_ns});
  }
  return extent;
}

Projection ThreadLaunches::project(Nanoseconds start_ns, Nanoseconds end_ns, std::size_t& hint) const {
  const std::size_t n = launches_.size();
  std::size_t first = hint;
  if (first > n || (first > 0 && call(first - 1).start_ns >= start_ns)) first = 0;  // ranges out of order
  while (first < n && call(first).start_ns < start_ns) ++first;
  hint = first;
  // Most ranges hold one launch or none, or few: these are looked at one by one.
  constexpr std::size_t few = 8;
  if (first == n || call(first).start_ns > end_ns) return {};
  if (first + few >= n || call(first + few).start_ns > end_ns)
    return project_each(first, std::min(first + few, n), end_ns);
  std::size_t step = few;
  while (first + step < n && call(first + step).start_ns <= end_ns) step *= 2;
  std::size_t last = std::min(first + step / 2, n);
  for (std::size_t after = std::min(first + step, n); last < after;) {
    const std::size_t middle = last + (after - last) / 2;
    if (call(middle).start_ns <= end_ns) {
      last = middle + 1;
    } else {
      after = middle;
    }
  }
  while (last > first && call(last - 1).end_ns > end_ns) --last;  // the call that the end cuts
  if (last == first) return {};

  const std::size_t blocks = tree_.size() / 2, first_block = (first + block - 1) / block, last_block = last / block;
  Extent extent = extent_of(first, std::min(first_block * block, last));
  if (first_block < last_block) {
    for (std::size_t l = first_block + blocks, r = last_block + blocks; l < r; l /= 2, r /= 2) {
      if (l % 2 == 1) extent = join(extent, tree_[l++]);
      if (r % 2 == 1) extent = join(extent, tree_[--r]);
    }
  }
  extent = join(extent, extent_of(std::max(first, std::max(first_block, last_block) * block), last));
  if (extent.call_end_ns <= end_ns)
    return {static_cast<std::int64_t>(last - first), extent.gpu_start_ns, extent.gpu_end_ns};
  return project_each(first, last, end_ns);  // calls nested in one that outlasts the range: rare
}

Projection ThreadLaunches::project_each(std::size_t first, std::size_t last, Nanoseconds end_ns) const {
  Projection result{0, std::numeric_limits<Nanoseconds>::max(), std::numeric_limits<Nanoseconds>::min()};
  for (std::size_t i = first; i < last; ++i) {
    const Launch launch = (*this)[i];
    if (launch.call_start_ns > end_ns) break;
    if (launch.call_end_ns > end_ns) continue;
    ++result.operations;
    result.start_ns = std::min(result.start_ns, launch.gpu_start_ns);
    result.end_ns = std::max(result.end_ns, launch.gpu_end_ns);
  }
  return result.operations == 0 ? Projection() : result;
}

DeviceLaunches collect_launches(const RankEvents& events) {
  DeviceLaunches result;
  RunMap<std::uint32_t, std::size_t> calls;  // by thread: about as many as it launches
  for (const ApiCall& call : events.process.api_calls) ++calls[call.thread_id];
  ThreadLaunches* thread = nullptr;  // the one of the last operation: they come in long runs
  std::uint32_t thread_id = 0;
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    const std::uint32_t number = events.launches.number_of(activity.correlation_id, activity.start_ns);
    if (number == LaunchIndex::no_call) {
      if (activity.kind == ActivityKind::kernel) {
        ++result.kernels_without_call;
        result.kernel_ns_without_call += activity.end_ns - activity.start_ns;
      }
      return;
    }
    const std::uint32_t caller = events.process.api_calls[number].thread_id;
    if (thread == nullptr || thread_id != caller) {
      thread_id = caller;
      const auto [entry, is_new] = result.threads.try_emplace(thread_id, events);
      thread = &entry->second;
      if (is_new) thread->reserve(calls[thread_id]);
    }
    thread->add(number, activity);
  });
  for (auto& [id, launches] : result.threads) launches.finish();
  return result;
}

Nanoseconds last_time(const Trace& trace) {
  Nanoseconds last = std::numeric_limits<Nanoseconds>::min();
  const auto see = [&](const auto& events) {
    for (const auto& event : events) last = std::max({last, event.start_ns, event.end_ns});
  };
  for (const ProcessTrace& process : trace.processes) {
    see(process.api_calls);
    see(process.nvtx_ranges);
    for (const DeviceTrace& device : process.devices) {
      see(device.kernels);
      see(device.memory_operations);
      see(device.graph_launches);
    }
  }
  return last;
}

namespace {

using LaunchMoment = std::pair<Nanoseconds, std::uint64_t>;  ///< launch, node of a graph

/// What kernels are ordered by; of equal ones the order of start decides.
class LaunchKeys {
 public:
  explicit LaunchKeys(const RankEvents& events)
      : events_(events),
        has_graphs_(std::any_of(events.device.kernel_kinds.begin(), events.device.kernel_kinds.end(),
                                [](const KernelKind& kind) { return kind.graph_node_id != 0; })) {}

  /// Kernels of one graph launch share the launch. Which of two streams' ran first is a matter of time, and differs
  /// from rank to rank; nodes are numbered in the order in which the program made them.
  LaunchMoment of(std::uint32_t number) const {
    const Kernel kernel = events_.device.kernels[number];
    return {launch_time_ns(events_, kernel), has_graphs_ ? events_.device.kind_of(kernel).graph_node_id : 0};
  }

 private:
  const RankEvents& events_;
  const bool has_graphs_;
};

/// Calls `use(number, kernel)` for each kernel in the order of launches.
template <class Use>
void for_each_launched(const RankEvents& events, const Use& use) {
  const LaunchKeys keys(events);
  std::pmr::vector<std::uint32_t> order(events.device.kernels.size());
  std::iota(order.begin(), order.end(), 0U);
  sort_nearly_sorted(order, [&](std::uint32_t a, std::uint32_t b) { return keys.of(a) < keys.of(b); });
  for (const std::uint32_t k : order) use(k, events.device.kernels[k]);
}

}  // namespace

void for_each_launch_segment(const RankEvents& events,
                             const std::function<void(const Kernel&, const LaunchSegment&)>& use) {
  if (events.device.kernels.empty()) return;
  std::optional<Nanoseconds> previous_ns;
  std::vector<std::uint32_t> segment;
  for_each_launched(events, [&](std::uint32_t number, const Kernel& kernel) {
    if (!previous_ns) previous_ns = launch_time_ns(events, kernel);
    if (!events.is_communication(kernel)) return segment.push_back(number);
    const Nanoseconds launch_ns = launch_time_ns(events, kernel);
    use(kernel, {*previous_ns, launch_ns, segment});
    segment.clear();
    previous_ns = launch_ns;
  });
}

std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events) {
  std::vector<std::uint64_t> hashes;
  for (const KernelKind& kind : events.device.kernel_kinds) {
    std::uint64_t hash = fnv1a(events.trace.strings[kind.demangled_name]);
    for (const std::int32_t extent :
         {kind.grid_x, kind.grid_y, kind.grid_z, kind.block_x, kind.block_y, kind.block_z}) {
      hash = mix_bits(hash + static_cast<std::uint32_t>(extent));
    }
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace nsys_explain::analysis
