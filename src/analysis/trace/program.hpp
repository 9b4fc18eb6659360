#pragma once

#include <cstdint>
#include <map>
#include <memory_resource>
#include <utility>
#include <vector>

#include "analysis/trace/gpu_activity.hpp"
#include "analysis/trace/rank_events.hpp"

/// What a trace rank's program asked of the GPU, in the order of the host.
namespace nsys_explain::analysis {

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
