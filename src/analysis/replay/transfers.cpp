#include "analysis/replay/transfers.hpp"

#include <algorithm>
#include <tuple>

#include "nsys_explain/model/algorithms.hpp"

namespace nsys_explain::analysis {
namespace {

struct MeasuredTransfer {
  std::uint64_t kind = 0;
  std::int64_t communicator = 0;
  std::uint32_t instance = 0;
  Nanoseconds transfer_ns = 0;
};

std::vector<MeasuredTransfer> measure_transfers(const JobGraph& graph) {
  std::vector<MeasuredTransfer> transfers;
  for (std::uint32_t i = 0; i < graph.instances(); ++i) {
    const std::span<const JobGraph::Member> members = graph.members_of(i);
    const ReplayArrival& first = graph.arrival_of(members.front().piece);
    if (first.instance < 0 || first.kind == 0) continue;
    JobTime exit(no_time);
    for (const JobGraph::Member& member : members)
      if (member.exit > members.back().enter) exit = exit.ns == no_time ? member.exit : std::min(exit, member.exit);
    if (exit.ns == no_time) continue;
    transfers.push_back({first.kind, first.instance >> 32, i, exit - members.back().enter});
  }
  std::sort(transfers.begin(), transfers.end(), [](const MeasuredTransfer& a, const MeasuredTransfer& b) {
    return std::tie(a.kind, a.communicator, a.instance) < std::tie(b.kind, b.communicator, b.instance);
  });
  return transfers;
}

Nanoseconds median_of(std::span<const MeasuredTransfer> transfers) {
  std::vector<Nanoseconds> times;
  for (const MeasuredTransfer& transfer : transfers) times.push_back(transfer.transfer_ns);
  return lower_median(times);
}

/// Of the communicator that has the least; they are sorted by communicator.
Nanoseconds best_median_of(std::span<const MeasuredTransfer> transfers) {
  Nanoseconds best_ns = no_time;
  for (std::size_t first = 0, end = 0; first < transfers.size(); first = end) {
    while (end < transfers.size() && transfers[end].communicator == transfers[first].communicator) ++end;
    const Nanoseconds median_ns = median_of(transfers.subspan(first, end - first));
    best_ns = best_ns == no_time ? median_ns : std::min(best_ns, median_ns);
  }
  return best_ns;
}

}  // namespace

TransferExcesses find_transfer_excess(const JobGraph& graph) {
  TransferExcesses excess;
  excess.of_instance.resize(graph.instances());
  const std::vector<MeasuredTransfer> transfers = measure_transfers(graph);
  for (std::size_t first = 0, end = 0; first < transfers.size(); first = end) {
    while (end < transfers.size() && transfers[end].kind == transfers[first].kind) ++end;
    const std::span<const MeasuredTransfer> alike = std::span(transfers).subspan(first, end - first);
    const Nanoseconds usual_ns = median_of(alike);
    const bool has_groups = alike.front().communicator != alike.back().communicator;
    excess.has_groups_alike = excess.has_groups_alike || has_groups;
    const Nanoseconds best_ns = has_groups ? best_median_of(alike) : no_time;
    for (const MeasuredTransfer& one : alike) {
      excess.of_instance[one.instance].usual_ns = one.transfer_ns - usual_ns;
      if (has_groups) excess.of_instance[one.instance].best_ns = std::max<Nanoseconds>(0, one.transfer_ns - best_ns);
    }
  }
  return excess;
}

}  // namespace nsys_explain::analysis
