#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <vector>

#include "simulation/kernel_catalogue.hpp"
#include "simulation/random.hpp"
#include "simulation/step_program.hpp"

namespace nsys_explain::synth {

inline constexpr std::uint32_t planted_keys = 1U << 20;  // ops that only exist because of a fault
inline constexpr double pinned_bytes_per_ns = 24;
inline constexpr double pageable_bytes_per_ns = 6;

inline bool is_gemm(KernelId kernel) {
  return kernel == KernelId::gemm_qkv || kernel == KernelId::gemm_projection || kernel == KernelId::gemm_up ||
         kernel == KernelId::gemm_down || kernel == KernelId::gemm_data_gradient ||
         kernel == KernelId::gemm_weight_gradient;
}

/// Writes the operations of one step of one rank down, with the faults that are active in it; what a step is made of is
/// the business of those that derive from it.
class OpWriter {
 public:
  OpWriter(const JobPlan& plan, const Topology& topology, std::int32_t rank, std::int32_t step)
      : plan_(plan),
        work_(plan.workload),
        topology_(topology),
        rank_(rank),
        step_(step),
        generation_(work_.restart_at_step >= 0 && step >= work_.restart_at_step ? 1 : 0),
        at_(topology.coordinates(rank)),
        catalogue_(catalogue()) {
    for (const Fault& fault : plan.faults) {
      if (!fault.active(step) || !strikes(fault)) continue;
      const std::vector<std::int32_t> ranks = faulty_ranks(fault, plan.layout);
      if (std::binary_search(ranks.begin(), ranks.end(), rank)) faults_.push_back(&fault);
      if (fault.kind == FaultKind::rotating_jitter && rotation_picks_me()) faults_.push_back(&fault);
      if (fault.kind == FaultKind::uneven_work && ranks.empty()) sequence_length_ *= drawn_length(fault);
    }
  }

 protected:
  /// Kernel durations and grids do not depend on the NCCL version, so any version serves.
  static const std::vector<KernelType>& catalogue() {
    static const std::vector<KernelType> types = kernel_catalogue("2.27", true);
    return types;
  }

  bool rotation_picks_me() const {
    Draw draw(plan_.seed, Purpose::rotation, static_cast<std::uint64_t>(step_));
    return draw.integer(0, plan_.layout.ranks() - 1) == rank_;
  }

  double drawn_length(const Fault& fault) const {
    if (fault.law != Law::steady) return std::max(0.1, 1 + fault.factor * (strength_of(fault) - 1));
    Draw draw(plan_.seed, Purpose::sequence_length, static_cast<std::uint64_t>(step_),
              static_cast<std::uint64_t>(rank_));
    return std::exp(fault.factor * draw.normal());
  }

  bool strikes(const Fault& fault) const {
    Draw draw(plan_.seed, Purpose::chance, static_cast<std::uint64_t>(fault.kind), static_cast<std::uint64_t>(step_));
    return draw.uniform() < fault.chance;
  }

  double strength_of(const Fault& fault) const {
    return strength(fault.law, plan_.seed, static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(step_));
  }

  Nanoseconds pause_of(const Fault& fault) const {
    return static_cast<Nanoseconds>(static_cast<double>(fault.pause_ns) * strength_of(fault));
  }

  double factor_of(const Fault& fault) const { return fault.factor_at(strength_of(fault)); }

  Op& add(OpKind kind) {
    Op op;
    op.kind = kind;
    op.thread = thread_;
    op.key = planting_ ? planted_keys + next_planted_++ : next_key_++;
    ops_.push_back(op);
    return ops_.back();
  }

  void range(RangeLabel label, std::int32_t number = -1) {
    Op& op = add(OpKind::push_range);
    op.label = label;
    op.number = number;
    op.thread = 0;
  }

  void pop() { add(OpKind::pop_range).thread = 0; }

  std::int32_t layers() const {
    std::int32_t count = work_.layers;
    for (const Fault* fault : faults_)
      if (fault->kind == FaultKind::extra_work && fault->more_work == MoreWork::layers) count += fault->count;
    return count;
  }

  double slowdown(KernelId id) const {
    constexpr std::uint32_t multiprocessors = 132;
    double factor = 1;
    for (const Fault* fault : faults_) {
      if (fault->kind != FaultKind::slow_gpu && fault->kind != FaultKind::slow_node) continue;
      if (fault->large_only && catalogue_[static_cast<std::size_t>(id)].grid_x < multiprocessors) continue;
      Draw family(plan_.seed, Purpose::family, static_cast<std::uint64_t>(id));
      factor *= factor_of(*fault) + family.uniform(-fault->spread, fault->spread);
    }
    return factor;
  }

  void kernel(KernelId id) {
    const KernelType& type = catalogue_[static_cast<std::size_t>(id)];
    const bool is_attention = id == KernelId::flash_forward || id == KernelId::flash_backward;
    double size = is_gemm(id) || is_attention ? sequence_length_ : 1, length = 1;
    for (const Fault* fault : faults_) {
      if (fault->kind == FaultKind::extra_work && fault->more_work == MoreWork::larger && is_gemm(id))
        size *= factor_of(*fault);
      if (fault->kind == FaultKind::uneven_work && (id == KernelId::gemm_up || id == KernelId::gemm_down))
        length *= factor_of(*fault);
    }
    Op& op = add(OpKind::kernel);
    op.kernel = id;
    op.duration_ns = static_cast<Nanoseconds>(static_cast<double>(type.nominal_ns) * work_.compute_scale * size *
                                              length * slowdown(id));
    op.grid_x = std::max(1U, static_cast<std::uint32_t>(type.grid_x * size));
  }

  void kernels(std::initializer_list<KernelId> ids) {
    for (const KernelId id : ids) kernel(id);
  }

  void copy(std::int64_t bytes, bool to_device, bool pageable) {
    Op& op = add(OpKind::copy);
    op.bytes = bytes;
    op.to_device = to_device;
    op.pageable = pageable;
    op.duration_ns = 1'500 + static_cast<Nanoseconds>(static_cast<double>(bytes) /
                                                      (pageable ? pageable_bytes_per_ns : pinned_bytes_per_ns));
  }

  void set(std::int64_t bytes) {
    Op& op = add(OpKind::set);
    op.bytes = bytes;
    op.duration_ns = 1'200 + bytes / 1500;
  }

  std::uint32_t record(std::uint8_t stream) {
    Op& op = add(OpKind::record_event);
    op.stream = stream;
    op.event = next_event_;
    return next_event_++;
  }

  void wait(std::uint8_t stream, std::uint32_t event) {
    Op& op = add(OpKind::wait_event);
    op.stream = stream;
    op.event = event;
  }

  std::int32_t communicator(Role role) const { return topology_.communicator(role, rank_, generation_); }

  std::int64_t size_of(Role role) const {
    return static_cast<std::int64_t>(
        topology_.communicators[static_cast<std::size_t>(communicator(role))].ranks.size());
  }

  std::uint8_t stream_of(std::int32_t channel) const {
    return topology_.communicators[topology_.channels[static_cast<std::size_t>(channel)].communicator].stream;
  }

  /// The stream of `channel` waits for what the compute stream holds so far, then communicates.
  Op& start_collective(std::int32_t channel, Operation operation, std::int64_t bytes) {
    const std::uint8_t stream = stream_of(channel);
    if (stream != 0) wait(stream, record(0));
    Op& op = add(OpKind::collective);
    op.stream = stream;
    op.channel = channel;
    op.operation = operation;
    op.bytes = bytes;
    const std::size_t members = topology_.channels[static_cast<std::size_t>(channel)].ranks.size();
    op.kernel = nccl_kernel(operation, goes_by_tree(plan_.network.ends, operation, bytes, members));
    op.grid_x = catalogue_[static_cast<std::size_t>(op.kernel)].grid_x;
    return op;
  }

  /// Later compute waits for everything the channel's stream holds so far.
  void join(std::int32_t channel) {
    const std::uint8_t stream = stream_of(channel);
    if (stream != 0) wait(0, record(stream));
  }

  void collective(Role role, Operation operation, std::int64_t bytes, std::int32_t root = -1) {
    if (communicator(role) < 0) return;
    start_collective(communicator(role), operation, bytes).root = root;
  }

  void blocking_collective(Role role, Operation operation, std::int64_t bytes, std::int32_t root = -1) {
    if (communicator(role) < 0) return;
    collective(role, operation, bytes, root);
    join(communicator(role));
  }

  const JobPlan& plan_;
  const Workload& work_;
  const Topology& topology_;
  std::int32_t rank_, step_, generation_;
  Coordinates at_;
  const std::vector<KernelType>& catalogue_;
  std::vector<const Fault*> faults_;
  double sequence_length_ = 1;  ///< of this rank in this step, relative
  std::vector<Op> ops_;
  std::uint8_t thread_ = 0;
  bool planting_ = false;
  std::uint32_t next_key_ = 0, next_planted_ = 0, next_event_ = 0;
};

}  // namespace nsys_explain::synth
