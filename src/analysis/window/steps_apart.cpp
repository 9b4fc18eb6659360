#include "analysis/window/steps_apart.hpp"

#include <algorithm>

#include "analysis/trace/gpu_activity.hpp"
#include "analysis/trace/gpu_parts.hpp"
#include "nsys_explain/model/lower_median.hpp"

namespace nsys_explain::analysis {

std::vector<Nanoseconds> own_lengths(const RankEvents& events, const Steps& steps) {
  std::vector<Nanoseconds> own_ns;
  for (std::size_t i = 0; i < steps.start_ns.size(); ++i)
    own_ns.push_back((i + 1 < steps.start_ns.size() ? steps.start_ns[i + 1] : steps.end_ns) - steps.start_ns[i]);
  if (own_ns.empty()) return own_ns;
  std::size_t step = 0;
  for_each_gpu_part(events.device, events.communication_kinds, [&](GpuPart part, const Interval& interval) {
    if (part != GpuPart::communication) return;
    for (Interval left = interval; left.start_ns < left.end_ns;) {
      while (step + 1 < own_ns.size() && steps.start_ns[step + 1] <= left.start_ns) ++step;
      const bool is_last = step + 1 == own_ns.size();
      const Nanoseconds end_ns = is_last ? left.end_ns : std::min(left.end_ns, steps.start_ns[step + 1]);
      if (left.start_ns >= steps.start_ns[step]) own_ns[step] -= end_ns - left.start_ns;
      left.start_ns = end_ns;
    }
  });
  return own_ns;
}

Nanoseconds usual_length(std::span<const Nanoseconds> own_ns) {
  if (own_ns.empty()) return 1;
  std::vector<Nanoseconds> last(own_ns.begin() + static_cast<std::ptrdiff_t>(own_ns.size() / 3), own_ns.end());
  return std::max<Nanoseconds>(1, lower_median(last));
}

std::vector<std::int32_t> steps_with_more(const RankEvents& events, const Steps& steps) {
  const std::vector<Nanoseconds> own_ns = own_lengths(events, steps);
  const Nanoseconds usual_ns = usual_length(own_ns);
  std::vector<std::int64_t> activities(own_ns.size(), 0);
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (const std::int32_t step = steps.index_of(activity.start_ns); step >= 0)
      ++activities[static_cast<std::size_t>(step)];
  });
  std::int64_t most = 0;
  for (std::size_t i = 0; i < own_ns.size(); ++i)
    if (!is_long(own_ns[i], usual_ns)) most = std::max(most, activities[i]);
  std::vector<std::int32_t> with_more;
  for (std::size_t i = 0; i < own_ns.size(); ++i)
    if (is_long(own_ns[i], usual_ns) && activities[i] > most) with_more.push_back(static_cast<std::int32_t>(i));
  return with_more;
}

}  // namespace nsys_explain::analysis
