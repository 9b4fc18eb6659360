#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "simulation/random.hpp"
#include "simulation/simulated_job.hpp"
#include "simulation/step_program.hpp"
#include "simulation/topology.hpp"

namespace nsys_explain::synth {

/// One rank: a host thread that runs ahead of its GPU, and the GPU's streams. Executes step programs and records what
/// happens. A device activity starts when it is launched, its stream is free and the events its stream waits for have
/// completed. The machine stops at each collective until the job tells it when the rank leaves; that order of
/// simulation is not an order of time: the host's clock does not wait for the collective.
class RankMachine {
 public:
  RankMachine(const JobPlan& plan, const Topology& topology, const RankPlace& place, std::int32_t rank,
              RankEvents& events);

  /// Runs to the next collective and launches it. nullptr: the program has ended.
  const Op* run_to_collective();

  /// When this rank entered the collective it stands at.
  Nanoseconds collective_enter_ns() const { return events_.activities.back().start_ns; }

  /// The collective ends here at `exit_ns`; returns the index of its activity.
  std::uint32_t finish_collective(Nanoseconds exit_ns, std::uint32_t arrival);

  std::int32_t step() const { return step_; }

 private:
  void execute(const Op& op);
  void run_on_device(const Op& op);
  void push_range(const Op& op);
  void pop_range();
  std::uint32_t call(ApiFunction function, Nanoseconds duration_ns, std::uint8_t thread);
  DeviceActivity& launch(const Op& op, ApiFunction function, Nanoseconds duration_ns);
  void finish_activity(const Op& op, Nanoseconds end_ns);
  void launch_collective(const Op& op);
  void copy_blocking(const Op& op);
  void synchronise(const Op& op, bool device);
  void record_event(const Op& op);
  void wait_event(const Op& op);
  void begin_graph();
  std::uint32_t captured_graph();
  void capture(const Op& op);
  void end_graph();
  void communicator_calls(const Op& op);
  void nccl_range(const NcclCallRecord& call, Nanoseconds start_ns, Nanoseconds end_ns, std::uint8_t thread);
  NcclCallRecord payload_of(const Op& op) const;
  void grouped_calls(const Op& op);
  Nanoseconds device_idle_ns() const;
  double slowness() const;
  Nanoseconds cost(Purpose purpose, Nanoseconds low_ns, Nanoseconds high_ns);

  const JobPlan& plan_;
  const Topology& topology_;
  const RankPlace& place_;
  RankEvents& events_;
  std::vector<Op> program_;
  std::size_t cursor_ = 0;
  std::int32_t rank_;
  std::int32_t step_ = -1;
  double slowness_ = 1;     ///< of this step
  Nanoseconds now_ns_ = 0;  ///< the host's clock
  std::array<Nanoseconds, 5> stream_free_ns_{};
  struct EventSlot {
    std::uint32_t record = no_index;
    Nanoseconds done_ns = 0;
  };
  std::vector<EventSlot> event_slots_;  ///< of this step
  std::vector<std::uint32_t> open_ranges_;
  std::uint32_t op_key_ = 0;       ///< of the op being executed: names its random draws
  std::uint32_t costs_drawn_ = 0;  ///< by this op
  bool in_graph_ = false;
  GraphReplay replay_;  ///< while in_graph_
  /// What each captured graph holds: kernels with grid and stream, collectives with their channels.
  std::vector<std::vector<std::array<std::uint64_t, 2>>> graph_contents_;
};

}  // namespace nsys_explain::synth
