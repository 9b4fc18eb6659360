#pragma once

#include <map>
#include <memory_resource>
#include <utility>

#include "analysis/trace/activity_graph.hpp"

namespace nsys_explain::analysis {

inline std::uint32_t saturated_slack(Nanoseconds time_ns) {
  return static_cast<std::uint32_t>(std::clamp<Nanoseconds>(time_ns, 0, no_bound - 1));
}

/// What something may have waited for.
class Predecessors {
 public:
  /// `piece`: -1 the host. One that was not over by `start_ns` is none.
  Predecessors(Nanoseconds start_ns, Nanoseconds host_ns) : start_ns_(start_ns) {
    if (host_ns != no_time && host_ns <= start_ns) host_ns_ = latest_ns_ = host_ns;
  }

  void add_compute(std::int32_t piece, Nanoseconds end_ns) {
    if (end_ns == no_time || end_ns > start_ns_) return;
    compute_ = {piece, end_ns};
    latest_ns_ = std::max(latest_ns_, end_ns);
  }
  void add_other(std::int32_t piece, Nanoseconds end_ns) {
    if (piece < 0 || end_ns > start_ns_) return;
    others_.push_back({piece, end_ns});
    latest_ns_ = std::max(latest_ns_, end_ns);
  }

  bool has_others() const { return !others_.empty(); }
  Nanoseconds latest_ns() const { return latest_ns_; }  ///< no_time: of none
  std::uint32_t host_slack() const { return slack_of(host_ns_); }
  std::uint32_t compute_slack() const { return slack_of(compute_.end_ns); }

  /// Of many others those that were over last.
  std::array<PieceWait, 3> waits() {
    std::sort(others_.begin(), others_.end(), [](const Ended& a, const Ended& b) {
      return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.piece < b.piece;
    });
    std::array<PieceWait, 3> waits{};
    waits[0] = {compute_.piece, compute_slack()};
    for (std::size_t w = 1; w < waits.size() && w <= others_.size(); ++w)
      waits[w] = {others_[w - 1].piece, slack_of(others_[w - 1].end_ns)};
    return waits;
  }

 private:
  struct Ended {
    std::int32_t piece = -1;
    Nanoseconds end_ns = no_time;
  };
  std::uint32_t slack_of(Nanoseconds time_ns) const {
    return time_ns == no_time ? no_bound : saturated_slack(latest_ns_ - time_ns);
  }

  Nanoseconds start_ns_, host_ns_ = no_time, latest_ns_ = no_time;
  Ended compute_;
  std::vector<Ended> others_;
};

// What a trace rank's program asked of the GPU, in the order of the host.

/// A GPU activity, by when the host launched it. A trace has millions.
struct LaunchedActivity {
  Nanoseconds launch_ns = 0;
  std::uint32_t call = LaunchIndex::no_call;
  std::uint32_t what = 0;   ///< index of the activity times 4 plus ActivityKind
  std::uint32_t place = 0;  ///< among those launched at once: the graph's node; without calls the correlation id

  GpuActivity in(const DeviceTrace& device) const {
    return activity_at(device, static_cast<ActivityKind>(what % 4), what / 4);
  }
};

enum class HostEventKind : std::uint8_t {
  record,       ///< an event marks what its stream holds so far
  stream_wait,  ///< a stream waits for a record
  host_wait     ///< a call in which the host may have waited
};

struct HostEvent {
  static constexpr std::uint32_t none = 0xFFFFFFFF, every_stream = 0xFFFFFFFE;

  Nanoseconds time_ns = 0;
  std::uint32_t call = LaunchIndex::no_call;
  std::uint32_t stream = none;  ///< number; host_wait: that is waited for, every_stream, or none where nothing tells
  std::uint32_t record = none;  ///< number of the event record, or of the one waited for
  HostEventKind kind = HostEventKind::host_wait;
  bool contradicted = false;  ///< host_wait: its thread launched something meanwhile, and no thread does two things
};

/// Numbers of streams, in the order in which they come.
class StreamNumbers {
 public:
  std::uint32_t number_of(std::uint32_t context_id, std::uint32_t stream_id) {
    return numbers_.try_emplace({context_id, stream_id}, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers_;
};

struct Program {
  std::pmr::vector<LaunchedActivity> activities;  ///< several of one launch by place, then as they started
  std::vector<HostEvent> events;                  ///< by time; records that nothing waits for are left out
  /// Which stream waits for which is recorded: the waits of streams name records, and no graph was traced by node,
  /// whose inner edges are in no record.
  bool has_records = false;
  StreamNumbers streams;

  std::uint32_t stream_of(const DeviceTrace& device, const GpuActivity& activity);
};

Program program_of(const RankEvents& events);

/// When the thread that launched, or waited, first is heard of first. The program has activities.
Nanoseconds first_host_event(const RankEvents& events, const Program& program);

}  // namespace nsys_explain::analysis
