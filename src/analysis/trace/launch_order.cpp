#include "analysis/trace/launch_order.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <memory_resource>
#include <optional>
#include <string_view>
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
  LaunchMoment of(const Kernel& kernel) const {
    return {launch_time_ns(events_, kernel), has_graphs_ ? events_.device.kind_of(kernel).graph_node_id : 0};
  }
  LaunchMoment of(std::uint32_t kernel) const { return of(events_.device.kernels[kernel]); }

 private:
  const RankEvents& events_;
  const bool has_graphs_;
};

/// By kernel kind of the device: whether it runs on the stream with most kernels.
std::vector<bool> kinds_of_main_stream(const DeviceTrace& device) {
  std::vector<std::size_t> counts(device.kernel_kinds.size());
  for (const Kernel& kernel : device.kernels) ++counts[kernel.kind];
  const auto stream_of = [](const KernelKind& kind) { return std::pair(kind.context_id, kind.stream_id); };
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> of_stream;
  for (std::size_t k = 0; k < counts.size(); ++k) of_stream[stream_of(device.kernel_kinds[k])] += counts[k];
  const auto main = std::max_element(of_stream.begin(), of_stream.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<bool> is_main;
  for (const KernelKind& kind : device.kernel_kinds) is_main.push_back(stream_of(kind) == main->first);
  return is_main;
}

/// Most kernels run in the order of their launches: those of one stream do. The others, told apart here, are sorted in.
class MainSequence {
 public:
  explicit MainSequence(const std::vector<bool>& is_main_kind) : is_main_kind_(is_main_kind) {}

  /// Whether the kernel goes on with the sequence. To be asked once for each, in order of start.
  bool takes(const Kernel& kernel, const LaunchMoment& key) {
    if (!is_main_kind_[kernel.kind] || key < latest_) return false;
    latest_ = key;
    return true;
  }

 private:
  const std::vector<bool>& is_main_kind_;
  LaunchMoment latest_{std::numeric_limits<Nanoseconds>::min(), 0};
};

/// Numbers of the kernels outside of the main sequence, by launch; none where all run in the order of their launches.
std::pmr::vector<std::uint32_t> kernels_out_of_order(const RankEvents& events, const LaunchKeys& keys,
                                                     MainSequence sequence) {
  std::pmr::vector<std::uint32_t> others;
  bool in_order = true;
  LaunchMoment latest{std::numeric_limits<Nanoseconds>::min(), 0};
  std::uint32_t number = 0;
  for (const Kernel& kernel : events.device.kernels) {
    const LaunchMoment key = keys.of(kernel);
    in_order = in_order && key >= latest;
    latest = key;
    if (!sequence.takes(kernel, key)) others.push_back(number);
    ++number;
  }
  if (in_order) return {};
  sort_nearly_sorted(others, [&](std::uint32_t a, std::uint32_t b) { return keys.of(a) < keys.of(b); });
  return others;
}

/// Calls `use(number, kernel)` for each kernel in the order of launches.
template <class Use>
void for_each_launched(const RankEvents& events, const LaunchKeys& keys, const Use& use) {
  const Kernels& kernels = events.device.kernels;
  const std::vector<bool> is_main_kind = kinds_of_main_stream(events.device);
  MainSequence sequence(is_main_kind);
  const std::pmr::vector<std::uint32_t> others = kernels_out_of_order(events, keys, sequence);
  if (others.empty()) {
    for (std::uint32_t k = 0; k < kernels.size(); ++k) use(k, kernels[k]);
    return;
  }
  std::size_t next = 0;
  LaunchMoment next_key = keys.of(others.front());
  const auto use_others_until = [&](const LaunchMoment& key, std::uint32_t number) {
    while (next < others.size() && std::pair(next_key, others[next]) < std::pair(key, number)) {
      use(others[next], kernels[others[next]]);
      if (++next < others.size()) next_key = keys.of(others[next]);
    }
  };
  for (std::uint32_t k = 0; k < kernels.size(); ++k) {
    const Kernel kernel = kernels[k];
    const LaunchMoment key = keys.of(kernel);
    if (!sequence.takes(kernel, key)) continue;
    use_others_until(key, k);
    use(k, kernel);
  }
  for (; next < others.size(); ++next) use(others[next], kernels[others[next]]);
}

}  // namespace

void for_each_launch_segment(const RankEvents& events,
                             const std::function<void(const Kernel&, const LaunchSegment&)>& use) {
  if (events.device.kernels.empty()) return;
  const LaunchKeys keys(events);
  std::optional<Nanoseconds> previous_ns;
  std::vector<std::uint32_t> segment;
  for_each_launched(events, keys, [&](std::uint32_t number, const Kernel& kernel) {
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
