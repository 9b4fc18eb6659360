#include "launch_order.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

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
  std::vector<LaunchedKernel> all;
  all.reserve(events.device.kernels.size());
  for (const Kernel& kernel : events.device.kernels) {
    const ApiCall* call = events.launches.find(kernel.correlation_id, kernel.start_ns);
    all.push_back({&kernel, call == nullptr ? kernel.start_ns : call->start_ns});
  }
  // Kernels of one graph launch share the launch: they keep the order in which they ran.
  sort_nearly_sorted(all, [](const LaunchedKernel& a, const LaunchedKernel& b) { return a.launch_ns < b.launch_ns; });
  std::size_t first = 0;
  Nanoseconds previous_ns = all.empty() ? 0 : all.front().launch_ns;
  for (const LaunchedKernel& launched : all) {
    if (!events.is_communication(*launched.kernel)) {
      kernels_.push_back(launched);
      continue;
    }
    communications_.push_back({launched.kernel->start_ns, previous_ns, launched.launch_ns, first, kernels_.size()});
    first = kernels_.size();
    previous_ns = launched.launch_ns;
  }
  sort_nearly_sorted(communications_,
                     [](const Communication& a, const Communication& b) { return a.enter_ns < b.enter_ns; });
}

std::optional<LaunchSegment> LaunchOrder::before(Nanoseconds enter_ns) const {
  const auto found = std::lower_bound(communications_.begin(), communications_.end(), enter_ns,
                                      [](const Communication& c, Nanoseconds time_ns) { return c.enter_ns < time_ns; });
  if (found == communications_.end() || found->enter_ns != enter_ns) return std::nullopt;
  return LaunchSegment{found->previous_launch_ns, found->launch_ns,
                       std::span(kernels_).subspan(found->first, found->last - found->first)};
}

std::uint64_t KernelHashes::of(const Kernel& kernel) {
  std::uint64_t& name = of_name_[kernel.demangled_name];
  if (name == 0) name = fnv1a(trace_.strings[kernel.demangled_name]) | 1;
  std::uint64_t hash = name;
  for (const std::int32_t extent :
       {kernel.grid_x, kernel.grid_y, kernel.grid_z, kernel.block_x, kernel.block_y, kernel.block_z}) {
    hash = mixed(hash + static_cast<std::uint32_t>(extent));
  }
  return hash;
}

}  // namespace nsys_explain::analysis
