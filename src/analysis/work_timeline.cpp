#include <algorithm>
#include <array>
#include <functional>
#include <tuple>

#include "host_activity.hpp"
#include "nsys_explain/analysis/gpu_activity.hpp"
#include "nsys_explain/analysis/work_profile.hpp"
#include "nsys_explain/model/sorting.hpp"

namespace nsys_explain::analysis {
namespace {

/// Start or end of a GPU activity.
struct Edge {
  Nanoseconds time_ns = 0;
  WorkPart part = WorkPart::compute;
  bool starts = false;
  std::uint32_t correlation_id = 0;

  friend bool operator<(const Edge& a, const Edge& b) {
    // Starts first, so that activities that touch leave no gap.
    return std::tuple(a.time_ns, !a.starts, a.part, a.correlation_id) <
           std::tuple(b.time_ns, !b.starts, b.part, b.correlation_id);
  }
};

WorkPart part_of_activity(const RankEvents& events, const GpuActivity& activity) {
  switch (activity.kind) {
    case ActivityKind::kernel:
      return events.is_communication(events.device.kernels[activity.index]) ? WorkPart::communication
                                                                            : WorkPart::compute;
    case ActivityKind::memory_operation: {
      // A copy that its launching call outlasts is one that the host waited for, whatever the call's name.
      const ApiCall* call = events.launches.find(activity.correlation_id, activity.start_ns);
      return call != nullptr && call->end_ns >= activity.end_ns ? WorkPart::blocking_copy : WorkPart::copy;
    }
    case ActivityKind::graph_launch:
      break;
  }
  return WorkPart::opaque_graph;
}

std::vector<Edge> edges_of(const RankEvents& events) {
  const DeviceTrace& device = events.device;
  const std::size_t activities = device.kernels.size() + device.memory_operations.size() + device.graph_launches.size();
  std::vector<Edge> starts, ends;  // each nearly in order by itself, since activities are
  starts.reserve(activities);
  ends.reserve(activities);
  for_each_gpu_activity(device, [&](const GpuActivity& activity) {
    if (activity.end_ns <= activity.start_ns) return;
    const WorkPart part = part_of_activity(events, activity);
    starts.push_back({activity.start_ns, part, true, activity.correlation_id});
    ends.push_back({activity.end_ns, part, false, activity.correlation_id});
  });
  sort_nearly_sorted(starts, std::less<>());
  sort_nearly_sorted(ends, std::less<>());
  std::vector<Edge> edges(starts.size() + ends.size());
  std::merge(starts.begin(), starts.end(), ends.begin(), ends.end(), edges.begin());
  return edges;
}

constexpr std::array<WorkPart, 5> busy_parts{WorkPart::compute, WorkPart::communication, WorkPart::blocking_copy,
                                             WorkPart::copy, WorkPart::opaque_graph};

void append(std::vector<WorkPiece>& pieces, const WorkPiece& piece) {
  if (piece.end_ns <= piece.start_ns) return;
  if (!pieces.empty() && pieces.back().part == piece.part) {
    pieces.back().end_ns = piece.end_ns;
  } else {
    pieces.push_back(piece);
  }
}

}  // namespace

std::vector<WorkPiece> work_timeline(const RankEvents& events) {
  return work_timeline(events, HostActivity(events));
}

std::vector<WorkPiece> work_timeline(const RankEvents& events, const HostActivity& host) {
  const std::vector<Edge> edges = edges_of(events);
  std::vector<WorkPiece> pieces, idle_pieces;
  std::array<int, work_part_count> running{};
  Nanoseconds at_ns = edges.empty() ? 0 : edges.front().time_ns;
  for (const Edge& edge : edges) {
    if (edge.time_ns > at_ns) {
      const auto busy = std::find_if(busy_parts.begin(), busy_parts.end(),
                                     [&](WorkPart part) { return running[static_cast<std::size_t>(part)] > 0; });
      if (busy != busy_parts.end()) {
        append(pieces, {at_ns, edge.time_ns, *busy});
      } else {
        // Nothing runs, so this edge starts what runs next.
        const ApiCall* launch = events.launches.find(edge.correlation_id, edge.time_ns);
        idle_pieces.clear();
        if (launch == nullptr) {
          idle_pieces.push_back({at_ns, edge.time_ns, WorkPart::pending});
        } else {
          host.explain({at_ns, edge.time_ns}, *launch, idle_pieces);
        }
        for (const WorkPiece& piece : idle_pieces) append(pieces, piece);
      }
      at_ns = edge.time_ns;
    }
    running[static_cast<std::size_t>(edge.part)] += edge.starts ? 1 : -1;
  }
  return pieces;
}

}  // namespace nsys_explain::analysis
