#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "analysis/trace/gpu_activity.hpp"
#include "analysis/trace/host_activity.hpp"
#include "analysis/trace/work_profile.hpp"

namespace nsys_explain::analysis {
namespace {

WorkPart part_of_activity(const RankEvents& events, const GpuActivity& activity) {
  switch (activity.kind) {
    case ActivityKind::kernel:
      return events.is_communication(events.device.kernels[activity.index]) ? WorkPart::communication
                                                                            : WorkPart::compute;
    case ActivityKind::memory_operation: {
      // A copy that its launching call outlasts is one that the host waited for, whatever the call's name.
      const auto call = events.launches.find(activity.correlation_id, activity.start_ns);
      return call && call->end_ns >= activity.end_ns ? WorkPart::blocking_copy : WorkPart::copy;
    }
    case ActivityKind::graph_launch:
      break;
  }
  return WorkPart::opaque_graph;
}

constexpr std::array<WorkPart, 5> busy_parts{WorkPart::compute, WorkPart::communication, WorkPart::blocking_copy,
                                             WorkPart::copy, WorkPart::opaque_graph};

/// Joins pieces of one part that touch before it hands them on.
class Joiner {
 public:
  explicit Joiner(const UsePiece& use) : use_(use) {}
  void add(const WorkPiece& piece) {
    if (piece.end_ns <= piece.start_ns) return;
    if (open_ && open_->part == piece.part) {
      open_->end_ns = piece.end_ns;
      return;
    }
    finish();
    open_ = piece;
  }
  void finish() {
    if (open_) use_(*open_);
    open_.reset();
  }

 private:
  const UsePiece& use_;
  std::optional<WorkPiece> open_;
};

/// What runs on the device, while its activities come by start.
class Running {
 public:
  void start(WorkPart part, Nanoseconds end_ns) {
    ++running_[static_cast<std::size_t>(part)];
    ends_.emplace(end_ns, part);
  }
  bool any() const { return !ends_.empty(); }
  Nanoseconds next_end_ns() const { return ends_.top().first; }
  void end_next() {
    --running_[static_cast<std::size_t>(ends_.top().second)];
    ends_.pop();
  }
  WorkPart part() const {
    return *std::find_if(busy_parts.begin(), busy_parts.end(),
                         [&](WorkPart part) { return running_[static_cast<std::size_t>(part)] > 0; });
  }

 private:
  using End = std::pair<Nanoseconds, WorkPart>;
  std::array<int, work_part_count> running_{};
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

void for_each_work_piece(const RankEvents& events, const HostActivity& host, const UsePiece& use) {
  Joiner pieces(use);
  Running running;
  HostActivity::IdlePieces idle;
  std::optional<Nanoseconds> at_ns;  // pieces are made until here
  const auto advance = [&](Nanoseconds to_ns) {
    // What starts as something else ends leaves no gap.
    while (running.any() && running.next_end_ns() < to_ns) {
      pieces.add({*at_ns, running.next_end_ns(), running.part()});
      at_ns = running.next_end_ns();
      running.end_next();
    }
    if (running.any() && *at_ns < to_ns) {
      pieces.add({*at_ns, to_ns, running.part()});
      at_ns = to_ns;
    }
  };
  for_each_gpu_activity(events.device, [&](const GpuActivity& activity) {
    if (activity.end_ns <= activity.start_ns) return;
    if (!at_ns) at_ns = activity.start_ns;
    advance(activity.start_ns);
    if (*at_ns < activity.start_ns) {
      const auto launch = events.launches.find(activity.correlation_id, activity.start_ns);
      if (!launch) {
        pieces.add({*at_ns, activity.start_ns, WorkPart::pending});
      } else {
        host.explain({*at_ns, activity.start_ns}, *launch, idle);
        for (const WorkPiece& piece : idle.pieces) pieces.add(piece);
      }
      at_ns = activity.start_ns;
    }
    running.start(part_of_activity(events, activity), activity.end_ns);
  });
  if (at_ns) advance(std::numeric_limits<Nanoseconds>::max());
  pieces.finish();
}

std::vector<WorkPiece> work_timeline(const RankEvents& events) {
  std::vector<WorkPiece> pieces;
  for_each_work_piece(events, HostActivity(events), [&](const WorkPiece& piece) { pieces.push_back(piece); });
  return pieces;
}

}  // namespace nsys_explain::analysis
