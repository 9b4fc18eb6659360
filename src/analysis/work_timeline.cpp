#include <algorithm>
#include <array>
#include <tuple>

#include "host_activity.hpp"
#include "nsys_explain/analysis/work_profile.hpp"

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

/// A copy that its launching call outlasts is one that the host waited for, whatever the call's name.
WorkPart part_of_copy(const RankEvents& events, const MemoryOperation& copy) {
  const ApiCall* call = events.launches.find(copy.correlation_id, copy.start_ns);
  return call != nullptr && call->end_ns >= copy.end_ns ? WorkPart::blocking_copy : WorkPart::copy;
}

std::vector<Edge> edges_of(const RankEvents& events) {
  std::vector<Edge> edges;
  const DeviceTrace& device = events.device;
  edges.reserve(2 * (device.kernels.size() + device.memory_operations.size() + device.graph_launches.size()));
  const auto add = [&](const auto& activity, WorkPart part) {
    if (activity.end_ns <= activity.start_ns) return;
    edges.push_back({activity.start_ns, part, true, activity.correlation_id});
    edges.push_back({activity.end_ns, part, false, activity.correlation_id});
  };
  for (const Kernel& kernel : device.kernels) {
    add(kernel, events.is_communication(kernel) ? WorkPart::communication : WorkPart::compute);
  }
  for (const MemoryOperation& copy : device.memory_operations) add(copy, part_of_copy(events, copy));
  for (const GraphLaunch& launch : device.graph_launches) add(launch, WorkPart::opaque_graph);
  std::sort(edges.begin(), edges.end());
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
