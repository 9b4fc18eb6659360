#include "nsys_explain/analysis/work_profile.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>

#include "host_activity.hpp"
#include "launch_order.hpp"

namespace nsys_explain::analysis {
namespace {

template <class Small>
Small saturated(std::int64_t value) {
  return static_cast<Small>(
      std::clamp<std::int64_t>(value, 0, static_cast<std::int64_t>(std::numeric_limits<Small>::max())));
}

/// Adds the parts of [start, end) to the profile.
void add_parts(const std::vector<WorkPiece>& pieces, Nanoseconds start_ns, Nanoseconds end_ns, WorkProfile& profile) {
  std::array<std::int64_t, work_part_count> sums{};
  auto piece = std::upper_bound(pieces.begin(), pieces.end(), start_ns,
                                [](Nanoseconds time_ns, const WorkPiece& p) { return time_ns < p.end_ns; });
  for (; piece != pieces.end() && piece->start_ns < end_ns; ++piece) {
    sums[static_cast<std::size_t>(piece->part)] +=
        std::min(piece->end_ns, end_ns) - std::max(piece->start_ns, start_ns);
  }
  for (std::size_t part = 0; part < work_part_count; ++part) {
    profile.parts_ns[part] = saturated<std::uint32_t>(sums[part]);
  }
}

}  // namespace

std::vector<WorkProfile> profile_work(const RankEvents& events, std::span<const Arrival> arrivals) {
  std::vector<WorkProfile> profiles;
  if (arrivals.empty()) return profiles;
  profiles.reserve(arrivals.size());
  const HostActivity host(events);
  const std::vector<WorkPiece> pieces = work_timeline(events, host);
  const LaunchOrder order(events);
  KernelHashes hashes(events.trace);
  for (const Arrival& arrival : arrivals) {
    WorkProfile profile;
    profile.enter_ns = arrival.enter_ns;
    if (arrival.work_ns != no_time) {
      add_parts(pieces, arrival.enter_ns - arrival.work_ns, arrival.enter_ns, profile);
    }
    if (const auto segment = order.before(arrival.enter_ns)) {
      std::int64_t kernel_ns = 0;
      for (const LaunchedKernel& launched : segment->kernels) {
        kernel_ns += launched.kernel->end_ns - launched.kernel->start_ns;
        profile.kernels_hash += hashes.of(*launched.kernel);
      }
      profile.kernels = saturated<std::uint32_t>(static_cast<std::int64_t>(segment->kernels.size()));
      profile.kernel_ns = saturated<std::uint32_t>(kernel_ns);
      profile.synchronisations = saturated<std::uint16_t>(host.synchronisations(segment->start_ns, segment->end_ns));
      profile.allocations = saturated<std::uint16_t>(host.allocations(segment->start_ns, segment->end_ns));
    }
    profiles.push_back(profile);
  }
  return profiles;
}

}  // namespace nsys_explain::analysis
