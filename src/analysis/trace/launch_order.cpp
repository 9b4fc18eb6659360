#include "analysis/trace/launch_order.hpp"

#include <algorithm>
#include <memory_resource>
#include <numeric>
#include <optional>
#include <utility>

#include "model/hash.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
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
