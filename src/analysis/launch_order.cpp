#include "launch_order.hpp"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

/// The finaliser of SplitMix64: sums of hashes must not cancel out.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace

LaunchOrder::LaunchOrder(const RankEvents& events) {
  const Kernels& kernels = events.device.kernels;
  const std::vector<KernelKind>& kinds = events.device.kernel_kinds;
  const bool has_graphs =
      std::any_of(kinds.begin(), kinds.end(), [](const KernelKind& kind) { return kind.graph_node_id != 0; });
  // Kernels of one graph launch share the launch. Which of two streams' ran first is a matter of time, and differs from
  // rank to rank; nodes are numbered in the order in which the program made them.
  const auto key = [&](const Kernel& kernel) {
    return std::pair(launch_time_ns(events, kernel), has_graphs ? kinds[kernel.kind].graph_node_id : 0);
  };
  kernels_.reserve(kernels.size());
  bool in_order = true;  // looked at here: to look up all launches once more takes as long as all this
  std::pair latest(std::numeric_limits<Nanoseconds>::min(), std::uint64_t{0});
  for (std::uint32_t k = 0; k < kernels.size(); ++k) {
    kernels_.push_back(k);
    const std::pair launched = key(kernels[k]);
    in_order = in_order && launched >= latest;
    latest = launched;
  }
  if (!in_order)
    sort_nearly_sorted(kernels_, [&](std::uint32_t a, std::uint32_t b) { return key(kernels[a]) < key(kernels[b]); });
  Nanoseconds previous_ns = kernels_.empty() ? 0 : launch_time_ns(events, kernels[kernels_.front()]);
  std::size_t first = 0, kept = 0;
  for (const std::uint32_t launched : kernels_) {
    const Kernel kernel = kernels[launched];
    if (!events.is_communication(kernel)) {
      kernels_[kept++] = launched;
      continue;
    }
    const Nanoseconds launch_ns = launch_time_ns(events, kernel);
    communications_.push_back({kernel.start_ns, previous_ns, launch_ns, first, kept});
    first = kept;
    previous_ns = launch_ns;
  }
  kernels_.resize(kept);
  sort_nearly_sorted(communications_,
                     [](const Communication& a, const Communication& b) { return a.enter_ns < b.enter_ns; });
}

std::optional<LaunchSegment> LaunchOrder::before(Nanoseconds enter_ns, std::size_t which) const {
  const auto first = std::lower_bound(communications_.begin(), communications_.end(), enter_ns,
                                      [](const Communication& c, Nanoseconds time_ns) { return c.enter_ns < time_ns; });
  if (static_cast<std::size_t>(communications_.end() - first) <= which) return std::nullopt;
  const auto found = first + static_cast<std::ptrdiff_t>(which);
  if (found->enter_ns != enter_ns) return std::nullopt;
  return LaunchSegment{found->previous_launch_ns, found->launch_ns,
                       std::span(kernels_).subspan(found->first, found->last - found->first)};
}

std::vector<std::uint64_t> hash_kernel_kinds(const RankEvents& events) {
  std::vector<std::uint64_t> hashes;
  for (const KernelKind& kind : events.device.kernel_kinds) {
    std::uint64_t hash = fnv1a(events.trace.strings[kind.demangled_name]);
    for (const std::int32_t extent :
         {kind.grid_x, kind.grid_y, kind.grid_z, kind.block_x, kind.block_y, kind.block_z}) {
      hash = mixed(hash + static_cast<std::uint32_t>(extent));
    }
    hashes.push_back(hash);
  }
  return hashes;
}

}  // namespace nsys_explain::analysis
