#include "simulation/rank_machine.hpp"

#include <algorithm>
#include <cmath>

namespace nsys_explain::synth {
namespace {

constexpr Nanoseconds launch_latency_ns = 4'500;    // launch call to kernel start on an idle GPU
constexpr Nanoseconds wake_up_ns = 12'000;          // GPU idle to return of a synchronising call
constexpr Nanoseconds first_event_ns = 20'000'000;  // set-up between the last session's start and the job's first call

}  // namespace

RankMachine::RankMachine(const JobPlan& plan, const Topology& topology, const RankPlace& place, std::int32_t rank,
                         RankEvents& events)
    : plan_(plan), topology_(topology), place_(place), events_(events), rank_(rank) {
  Draw draw(plan.seed, Purpose::host_gap, static_cast<std::uint64_t>(rank));
  now_ns_ = plan.clocks.session_start_spread_ns + first_event_ns + draw.integer(0, 2'000'000);
  events_.stream_count = 1;
  for (const TrueCommunicator& communicator : topology.communicators)
    events_.stream_count = std::max<std::uint8_t>(events_.stream_count, communicator.stream + 1);
}

Nanoseconds RankMachine::cost(Purpose purpose, Nanoseconds low_ns, Nanoseconds high_ns) {
  Draw draw(plan_.seed, purpose, static_cast<std::uint64_t>(rank_), (static_cast<std::uint64_t>(step_) << 32) | op_key_,
            costs_drawn_++);
  return draw.integer(low_ns, high_ns);
}

const Op* RankMachine::run_to_collective() {
  while (true) {
    if (cursor_ == program_.size()) {
      if (step_ + 1 == plan_.workload.steps) return nullptr;
      program_ = step_program(plan_, topology_, rank_, ++step_);
      slowness_ = slowness();
      cursor_ = 0;
      event_slots_.clear();
    }
    const Op& op = program_[cursor_++];
    op_key_ = op.key;
    costs_drawn_ = 0;
    if (op.kind == OpKind::collective) {
      launch_collective(op);
      return &op;
    }
    execute(op);
  }
}

void RankMachine::execute(const Op& op) {
  switch (op.kind) {
    case OpKind::kernel:
    case OpKind::copy:
    case OpKind::set:
      return run_on_device(op);
    case OpKind::blocking_copy:
      return copy_blocking(op);
    case OpKind::record_event:
      return record_event(op);
    case OpKind::wait_event:
      return wait_event(op);
    case OpKind::stream_synchronize:
      return synchronise(op, false);
    case OpKind::device_synchronize:
      return synchronise(op, true);
    case OpKind::host_pause:
      now_ns_ += op.duration_ns;
      return;
    case OpKind::file_read:
      events_.file_reads.push_back({now_ns_, now_ns_ + op.duration_ns});
      now_ns_ += op.duration_ns;
      return;
    case OpKind::module_load:
      call(ApiFunction::module_load, op.duration_ns, op.thread);
      return;
    case OpKind::deschedule:
      events_.descheduled.push_back({now_ns_, now_ns_ + op.duration_ns});
      now_ns_ += op.duration_ns;
      return;
    case OpKind::compute_on_host:
      events_.computing.push_back({now_ns_, now_ns_ + op.duration_ns});
      now_ns_ += op.duration_ns;
      return;
    case OpKind::mpi_wait:
      events_.mpi_waits.push_back({now_ns_, now_ns_ + op.duration_ns});
      now_ns_ += op.duration_ns;
      return;
    case OpKind::free:  // cudaFree waits for the device
      call(ApiFunction::free, std::max<Nanoseconds>(0, device_idle_ns() - now_ns_) + op.duration_ns, op.thread);
      return;
    case OpKind::allocate:
      call(ApiFunction::malloc, op.duration_ns, op.thread);
      return;
    case OpKind::profiler_pause:
      events_.overheads.push_back({now_ns_, now_ns_ + op.duration_ns});
      now_ns_ += op.duration_ns;
      return;
    case OpKind::push_range:
      return push_range(op);
    case OpKind::pop_range:
      return pop_range();
    case OpKind::graph_begin:
      return begin_graph();
    case OpKind::graph_end:
      return end_graph();
    case OpKind::make_communicators:
    case OpKind::destroy_communicators:
      return communicator_calls(op);
    case OpKind::collective:
      return;  // run_to_collective() stops there
  }
}

void RankMachine::run_on_device(const Op& op) {
  Nanoseconds duration = op.duration_ns;
  ApiFunction function = ApiFunction::memcpy_async;
  if (op.kind == OpKind::set) function = ApiFunction::memset_async;
  if (op.kind == OpKind::kernel) {
    function = ApiFunction::launch_kernel;
    Draw noise(plan_.seed, Purpose::kernel_noise, static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(step_),
               op.key);
    const Law law = plan_.noise.law;
    const double deviation = law == Law::steady
                                 ? noise.normal()
                                 : strength(law, plan_.seed, static_cast<std::uint64_t>(rank_) + 1'000'000,
                                            static_cast<std::uint64_t>(step_), op.key) -
                                       1;
    const double factor = slowness_ * std::max(0.5, 1 + plan_.noise.kernel_noise * deviation);
    duration = std::max<Nanoseconds>(1'000, static_cast<Nanoseconds>(static_cast<double>(duration) * factor));
  }
  const DeviceActivity& activity = launch(op, function, cost(Purpose::api_cost, 3'000, 6'000));
  finish_activity(op, activity.start_ns + duration);
}

/// A moving average, so that steps next to each other are alike.
double RankMachine::slowness() const {
  constexpr std::int32_t remembered = 8;
  double sum = 0;
  for (std::int32_t back = 0; back < remembered; ++back)
    sum += Draw(plan_.seed, Purpose::speed, static_cast<std::uint64_t>(rank_),
                static_cast<std::uint64_t>(step_ - back + remembered))
               .normal();
  return std::max(0.5, 1 + plan_.noise.speed_wander * sum / std::sqrt(static_cast<double>(remembered)));
}

void RankMachine::push_range(const Op& op) {
  if (in_graph_) return;  // a replay runs no host code
  open_ranges_.push_back(static_cast<std::uint32_t>(events_.ranges.size()));
  events_.ranges.push_back({now_ns_, now_ns_, no_index, static_cast<std::uint16_t>(op.label), op.number, op.thread});
  now_ns_ += 300;
}

void RankMachine::pop_range() {
  if (in_graph_) return;
  now_ns_ += 300;
  events_.ranges[open_ranges_.back()].end_ns = now_ns_;
  open_ranges_.pop_back();
}

std::uint32_t RankMachine::call(ApiFunction function, Nanoseconds duration_ns, std::uint8_t thread) {
  events_.calls.push_back({now_ns_, now_ns_ + duration_ns, function, thread});
  now_ns_ += duration_ns;
  return static_cast<std::uint32_t>(events_.calls.size() - 1);
}

/// Appends an activity with its start; the end is not known yet.
DeviceActivity& RankMachine::launch(const Op& op, ApiFunction function, Nanoseconds duration_ns) {
  DeviceActivity activity;
  if (in_graph_) {
    activity.call = replay_.call;
    activity.graph_node = 1 + events_.graphs[replay_.graph].first_node +
                          static_cast<std::uint32_t>(events_.activities.size()) - replay_.first_activity;
  } else {
    now_ns_ += cost(Purpose::host_gap, 2'000, 6'000);
    // The launch queue is bounded: with it full, the launch call waits until the GPU has taken one entry.
    const std::size_t depth = static_cast<std::size_t>(plan_.workload.launch_queue_depth);
    const Nanoseconds room_ns =
        events_.activities.size() >= depth ? events_.activities[events_.activities.size() - depth].start_ns : 0;
    activity.call = call(function, std::max(duration_ns, room_ns - now_ns_), op.thread);
  }
  const HostCall& launching = events_.calls[activity.call];
  // Launched when the call hands over to the driver: near its end, but not after a wait for room began.
  const Nanoseconds handed_over =
      std::max(launching.start_ns, launching.end_ns - std::min<Nanoseconds>(duration_ns, 3'000));
  activity.start_ns = std::max(handed_over + launch_latency_ns, stream_free_ns_[op.stream]);
  activity.stream = op.stream;
  activity.kernel = static_cast<std::uint16_t>(op.kernel);
  activity.grid_x = op.grid_x;
  activity.step = step_;
  activity.bytes = op.bytes;
  activity.pageable = op.pageable;
  activity.to_device = op.to_device;
  if (op.kind == OpKind::copy || op.kind == OpKind::blocking_copy) activity.kind = ActivityKind::copy;
  if (op.kind == OpKind::set) activity.kind = ActivityKind::set;
  events_.activities.push_back(activity);
  return events_.activities.back();
}

void RankMachine::finish_activity(const Op& op, Nanoseconds end_ns) {
  events_.activities.back().end_ns = end_ns;
  stream_free_ns_[op.stream] = end_ns + 800;  // the front end needs about a microsecond between kernels
}

std::uint32_t RankMachine::finish_collective(Nanoseconds exit_ns, std::uint32_t arrival) {
  finish_activity(program_[cursor_ - 1], exit_ns);
  events_.activities.back().arrival = arrival;
  return static_cast<std::uint32_t>(events_.activities.size() - 1);
}

void RankMachine::copy_blocking(const Op& op) {
  // cudaMemcpy on the default stream: earlier work first, then the copy, and the host waits for both.
  const DeviceActivity& activity = launch(op, ApiFunction::memcpy, 5'000);
  const Nanoseconds end = activity.start_ns + op.duration_ns;
  HostCall& blocked = events_.calls[activity.call];
  finish_activity(op, end);
  blocked.end_ns = end + wake_up_ns;
  now_ns_ = blocked.end_ns;
}

Nanoseconds RankMachine::device_idle_ns() const {
  return *std::max_element(stream_free_ns_.begin(), stream_free_ns_.end());
}

/// Returns when the stream or device is idle; op.duration_ns later with a stalled wake-up.
void RankMachine::synchronise(const Op& op, bool device) {
  const Nanoseconds start = now_ns_;
  const Nanoseconds idle = device ? device_idle_ns() : stream_free_ns_[op.stream];
  const Nanoseconds end = std::max(start + 2'000, idle + wake_up_ns) + op.duration_ns;
  Synchronisation record;
  record.start_ns = start + 500;
  record.end_ns = end - 500;
  record.call =
      call(device ? ApiFunction::device_synchronize : ApiFunction::stream_synchronize, end - start, op.thread);
  record.type = device ? 4 : 3;
  record.stream = op.stream;
  events_.synchronisations.push_back(record);
}

void RankMachine::record_event(const Op& op) {
  if (event_slots_.size() <= op.event) event_slots_.resize(op.event + 1);
  EventSlot& slot = event_slots_[op.event];
  if (in_graph_) {
    slot = {no_index, stream_free_ns_[op.stream]};
    return;
  }
  EventRecord record;
  record.call = call(ApiFunction::event_record, cost(Purpose::api_cost, 800, 1'600), op.thread);
  record.stream = op.stream;
  record.completed_ns = std::max(now_ns_, stream_free_ns_[op.stream]);
  slot = {static_cast<std::uint32_t>(events_.event_records.size()), record.completed_ns};
  events_.event_records.push_back(record);
}

void RankMachine::wait_event(const Op& op) {
  const EventSlot& slot = event_slots_[op.event];
  stream_free_ns_[op.stream] = std::max(stream_free_ns_[op.stream], slot.done_ns);
  if (in_graph_) return;
  Synchronisation record;
  record.start_ns = now_ns_ + 200;
  record.call = call(ApiFunction::stream_wait_event, cost(Purpose::api_cost, 800, 1'600), op.thread);
  record.end_ns = now_ns_ - 200;
  record.type = 2;
  record.stream = op.stream;
  record.event_record = slot.record;
  events_.synchronisations.push_back(record);
}

/// Host code runs, and NCCL's ranges appear, while the graph is captured; no kernel runs.
void RankMachine::capture(const Op& op) {
  const bool is_collective = op.kind == OpKind::collective;
  const Nanoseconds start_ns = now_ns_;
  if (is_collective) now_ns_ += 1'500;
  const ApiFunction function = is_collective ? ApiFunction::launch_kernel_ex : ApiFunction::launch_kernel;
  events_.graph_nodes.push_back({now_ns_ + 500, op.thread});
  call(function, 2'000, op.thread);
  now_ns_ += 500;
  if (!is_collective) return;
  NcclCallRecord record = payload_of(op);
  if (op.grouped) {
    record = {};
    record.function = NcclFunction::group_end;
  }
  nccl_range(record, start_ns, now_ns_, op.thread);
}

/// The graph of what comes next in the program: one that holds the same, else it is captured now, as frameworks do when
/// shapes change.
std::uint32_t RankMachine::captured_graph() {
  std::vector<Op> ops;
  std::vector<std::array<std::uint64_t, 2>> content;
  for (std::size_t i = cursor_; program_[i].kind != OpKind::graph_end; ++i) {
    const Op& op = program_[i];
    if (op.kind != OpKind::kernel && op.kind != OpKind::collective) continue;
    ops.push_back(op);
    content.push_back({static_cast<std::uint64_t>(op.kernel) << 32 | op.grid_x,
                       static_cast<std::uint64_t>(op.stream) << 32 | static_cast<std::uint32_t>(op.channel)});
  }
  const auto known = std::find(graph_contents_.begin(), graph_contents_.end(), content);
  if (known != graph_contents_.end()) return static_cast<std::uint32_t>(known - graph_contents_.begin());
  CapturedGraph graph;
  graph.begin_ns = now_ns_;
  graph.first_node = static_cast<std::uint32_t>(events_.graph_nodes.size());
  graph.nodes = static_cast<std::uint32_t>(ops.size());
  for (const Op& op : ops) {
    if (op.grouped) grouped_calls(op);
    capture(op);
  }
  now_ns_ += 200'000;
  graph.instantiated_ns = now_ns_;
  events_.graphs.push_back(graph);
  graph_contents_.push_back(std::move(content));
  return static_cast<std::uint32_t>(events_.graphs.size() - 1);
}

void RankMachine::begin_graph() {
  replay_ = {};
  replay_.graph = captured_graph();
  replay_.call = call(ApiFunction::graph_launch, cost(Purpose::api_cost, 15'000, 30'000), 0);
  replay_.first_activity = static_cast<std::uint32_t>(events_.activities.size());
  in_graph_ = true;
}

void RankMachine::end_graph() {
  in_graph_ = false;
  replay_.activities = static_cast<std::uint32_t>(events_.activities.size()) - replay_.first_activity;
  if (replay_.activities == 0) return;
  replay_.start_ns = events_.activities[replay_.first_activity].start_ns;
  for (std::size_t i = replay_.first_activity; i < events_.activities.size(); ++i) {
    replay_.start_ns = std::min(replay_.start_ns, events_.activities[i].start_ns);
    replay_.end_ns = std::max(replay_.end_ns, events_.activities[i].end_ns);
  }
  // Work after the launch waits for the whole graph.
  for (Nanoseconds& free_ns : stream_free_ns_) free_ns = std::max(free_ns, replay_.end_ns);
  events_.graph_replays.push_back(replay_);
}

}  // namespace nsys_explain::synth
