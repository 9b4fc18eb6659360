#include "synth/step_program.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "synth/random.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::uint32_t planted_keys = 1U << 20;  // ops that only exist because of a fault
constexpr double pinned_bytes_per_ns = 24;
constexpr double pageable_bytes_per_ns = 6;
constexpr std::int64_t batch_bytes = 4 << 20;

bool is_gemm(KernelId kernel) {
  return kernel == KernelId::gemm_qkv || kernel == KernelId::gemm_projection || kernel == KernelId::gemm_up ||
         kernel == KernelId::gemm_down || kernel == KernelId::gemm_data_gradient ||
         kernel == KernelId::gemm_weight_gradient;
}

/// Writes one step of one rank down, phase by phase.
class StepBuilder {
 public:
  StepBuilder(const JobPlan& plan, const Topology& topology, std::int32_t rank, std::int32_t step)
      : plan_(plan),
        work_(plan.workload),
        topology_(topology),
        rank_(rank),
        step_(step),
        generation_(work_.restart_at_step >= 0 && step >= work_.restart_at_step ? 1 : 0),
        at_(topology.coordinates(rank)),
        catalogue_(catalogue()) {
    for (const Fault& fault : plan.faults) {
      if (!fault.active(step)) continue;
      const std::vector<std::int32_t> ranks = faulty_ranks(fault, plan.layout);
      if (std::binary_search(ranks.begin(), ranks.end(), rank)) faults_.push_back(&fault);
      if (fault.kind == FaultKind::rotating_jitter && rotation_picks_me()) faults_.push_back(&fault);
      if (fault.kind == FaultKind::uneven_work && ranks.empty()) sequence_length_ *= drawn_length(fault.factor);
    }
  }

  std::vector<Op> build() {
    if (step_ == 0 || step_ == work_.restart_at_step) communicators();
    range(RangeLabel::step, step_);
    load_batch();
    if (work_.graph_mode != GraphMode::none) {
      for (const Fault* fault : faults_) mid_step_fault(*fault);  // a graph holds no host calls: before it
      add(OpKind::graph_begin);
    }
    schedule();
    if (work_.graph_mode != GraphMode::none) add(OpKind::graph_end);
    optimizer();
    finish();
    add(OpKind::pop_range);
    return std::move(ops_);
  }

 private:
  /// Kernel durations and grids do not depend on the NCCL version, so any version serves.
  static const std::vector<KernelType>& catalogue() {
    static const std::vector<KernelType> types = kernel_catalogue("2.27");
    return types;
  }

  bool rotation_picks_me() const {
    Draw draw(plan_.seed, Purpose::rotation, static_cast<std::uint64_t>(step_));
    return draw.integer(0, plan_.layout.ranks() - 1) == rank_;
  }

  double drawn_length(double spread) const {
    Draw draw(plan_.seed, Purpose::sequence_length, static_cast<std::uint64_t>(step_),
              static_cast<std::uint64_t>(rank_));
    return std::exp(spread * draw.normal());
  }

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

  double slowdown() const {
    double factor = 1;
    for (const Fault* fault : faults_)
      if (fault->kind == FaultKind::slow_gpu || fault->kind == FaultKind::slow_node) factor *= fault->factor;
    return factor;
  }

  void kernel(KernelId id) {
    const KernelType& type = catalogue_[static_cast<std::size_t>(id)];
    const bool is_attention = id == KernelId::flash_forward || id == KernelId::flash_backward;
    double size = is_gemm(id) || is_attention ? sequence_length_ : 1, length = 1;
    for (const Fault* fault : faults_) {
      if (fault->kind == FaultKind::extra_work && fault->more_work == MoreWork::larger && is_gemm(id))
        size *= fault->factor;
      if (fault->kind == FaultKind::uneven_work && (id == KernelId::gemm_up || id == KernelId::gemm_down))
        length *= fault->factor;
    }
    Op& op = add(OpKind::kernel);
    op.kernel = id;
    op.duration_ns = static_cast<Nanoseconds>(static_cast<double>(type.nominal_ns) * work_.compute_scale * size *
                                              length * slowdown());
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
    op.kernel = nccl_kernel(operation);
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

  void communicators() {
    if (step_ > 0) add(OpKind::destroy_communicators);
    add(OpKind::make_communicators);
  }

  void load_batch() {
    for (const Fault* fault : faults_) {
      if (fault->kind == FaultKind::late_host || fault->kind == FaultKind::rotating_jitter) host_pause(*fault);
      if (fault->kind == FaultKind::profiler_overhead) planted(OpKind::profiler_pause, *fault);
    }
    Draw draw(plan_.seed, Purpose::pause, static_cast<std::uint64_t>(rank_), static_cast<std::uint64_t>(step_));
    if (draw.uniform() < plan_.noise.pause_probability) {
      planting_ = true;
      add(OpKind::host_pause).duration_ns =
          static_cast<Nanoseconds>(draw.exponential(static_cast<double>(plan_.noise.pause_mean_ns)));
      planting_ = false;
    }
    copy(batch_bytes, true, false);
    set(8 << 20);
    blocking_collective(Role::tensor, Operation::broadcast, 64 << 10, 0);
  }

  Op& planted(OpKind kind, const Fault& fault) {
    planting_ = true;
    Op& op = add(kind);
    planting_ = false;
    op.duration_ns = fault.pause_ns;
    op.bytes = fault.bytes;
    return op;
  }

  void host_pause(const Fault& fault) {
    const HostPause pause = fault.kind == FaultKind::late_host ? fault.pause : HostPause::sleep;
    const bool named = pause == HostPause::garbage_collection || pause == HostPause::data_loading;
    planting_ = true;
    if (named)
      range(pause == HostPause::garbage_collection ? RangeLabel::garbage_collection : RangeLabel::data_loading);
    planting_ = false;
    planted(kind_of_pause(pause), fault);
    planting_ = true;
    if (named) pop();
    planting_ = false;
  }

  static OpKind kind_of_pause(HostPause pause) {
    switch (pause) {
      case HostPause::file_reading:
        return OpKind::file_read;
      case HostPause::module_loading:
        return OpKind::module_load;
      case HostPause::descheduled:
        return OpKind::deschedule;
      case HostPause::computing:
        return OpKind::compute_on_host;
      case HostPause::mpi_wait:
        return OpKind::mpi_wait;
      default:
        return OpKind::host_pause;
    }
  }

  /// A fault that hits within a step. All of them drain the GPU, so that the host's time shows.
  void mid_step_fault(const Fault& fault) {
    if (fault.kind == FaultKind::sync_stall) planted(OpKind::device_synchronize, fault);
    if (fault.kind == FaultKind::allocation) {
      planted(OpKind::free, fault).duration_ns = fault.pause_ns / 3;
      planted(OpKind::allocate, fault).duration_ns = fault.pause_ns - fault.pause_ns / 3;
    }
    if (fault.kind == FaultKind::blocking_copy) {
      Op& op = planted(OpKind::blocking_copy, fault);
      op.pageable = true;
      op.duration_ns = static_cast<Nanoseconds>(static_cast<double>(fault.bytes) / pageable_bytes_per_ns);
    }
  }

  /// `fault.count` times per step, spread over the layers of the first micro-batch's forward pass.
  void layer_faults(std::int32_t layer) {
    if (work_.graph_mode != GraphMode::none) return;
    for (const Fault* fault : faults_) {
      const std::int32_t before = layer * fault->count / work_.layers;
      const std::int32_t after = (layer + 1) * fault->count / work_.layers;
      for (std::int32_t i = before; i < after; ++i) mid_step_fault(*fault);
    }
  }

  void extra_kernels() {
    for (const Fault* fault : faults_) {
      if (fault->kind != FaultKind::extra_work || fault->more_work != MoreWork::more) continue;
      // One more GEMM per started fraction of the layer's 10 forward kernels.
      const int extra = std::max(1, static_cast<int>(std::lround((fault->factor - 1) * 10)));
      planting_ = true;
      for (int i = 0; i < extra; ++i) kernel(KernelId::gemm_up);
      planting_ = false;
    }
  }

  void tensor_exchange_before() {
    if (work_.tensor_parallel_style == TensorParallelStyle::sequence_parallel && communicator(Role::tensor) >= 0)
      blocking_collective(Role::tensor, Operation::all_gather, work_.activation_bytes / size_of(Role::tensor));
  }

  void tensor_exchange_after() {
    if (communicator(Role::tensor) < 0) return;
    if (work_.tensor_parallel_style == TensorParallelStyle::sequence_parallel)
      blocking_collective(Role::tensor, Operation::reduce_scatter, work_.activation_bytes / size_of(Role::tensor));
    else
      blocking_collective(Role::tensor, Operation::all_reduce, work_.activation_bytes);
  }

  /// Experts live on the data-parallel ranks. NCCL has its own all-to-all from 2.28; before, it is grouped send/recv.
  void exchange_tokens() {
    if (!work_.mixture_of_experts || communicator(Role::data) < 0) return;
    const std::int32_t channel = communicator(Role::data);
    start_collective(channel, Operation::all_to_all, work_.activation_bytes / size_of(Role::data)).grouped =
        version_number(plan_.export_style.nccl_version) < 228;
    join(channel);
  }

  bool sharded() const {
    return work_.data_parallel_style == DataParallelStyle::fully_sharded && communicator(Role::data) >= 0;
  }

  std::int64_t shard_bytes() const { return work_.gradient_bytes_per_layer / size_of(Role::data); }

  /// Weights of one layer, fetched while the layer before it computes. Returns the event to wait for.
  std::uint32_t gather_weights() {
    collective(Role::data, Operation::all_gather, shard_bytes());
    return record(stream_of(communicator(Role::data)));
  }

  void forward_layer(std::int32_t layer, std::int32_t micro_batch) {
    if (micro_batch == 0) layer_faults(layer);
    tensor_exchange_before();
    kernels({KernelId::layer_norm, KernelId::gemm_qkv, KernelId::flash_forward, KernelId::gemm_projection});
    tensor_exchange_after();
    kernels({KernelId::residual_add, KernelId::layer_norm});
    exchange_tokens();
    tensor_exchange_before();
    kernels({KernelId::gemm_up, KernelId::gelu, KernelId::gemm_down});
    tensor_exchange_after();
    exchange_tokens();
    kernel(KernelId::residual_add);
    extra_kernels();
  }

  void backward_layer() {
    tensor_exchange_before();
    kernels({KernelId::gemm_data_gradient, KernelId::gemm_weight_gradient, KernelId::gelu_backward,
             KernelId::gemm_data_gradient, KernelId::gemm_weight_gradient});
    tensor_exchange_after();
    exchange_tokens();
    kernels({KernelId::layer_norm_backward, KernelId::residual_add});
    tensor_exchange_before();
    kernels({KernelId::gemm_data_gradient, KernelId::gemm_weight_gradient, KernelId::flash_backward,
             KernelId::gemm_data_gradient, KernelId::gemm_weight_gradient});
    tensor_exchange_after();
    kernels({KernelId::layer_norm_backward, KernelId::residual_add, KernelId::cast});
  }

  void forward(std::int32_t micro_batch) {
    range(RangeLabel::forward);
    if (at_.pipeline == 0) kernel(KernelId::embedding);
    std::uint32_t weights = sharded() ? gather_weights() : 0;
    for (std::int32_t layer = 0; layer < layers(); ++layer) {
      if (sharded()) {
        wait(0, weights);
        if (layer + 1 < layers()) weights = gather_weights();
      }
      forward_layer(layer, micro_batch);
    }
    if (at_.pipeline + 1 == plan_.layout.pipeline_parallel) kernel(KernelId::cross_entropy);
    pop();
  }

  void backward(std::int32_t micro_batch) {
    range(RangeLabel::backward);
    thread_ = work_.graph_mode == GraphMode::none ? 1 : 0;
    std::uint32_t weights = sharded() ? gather_weights() : 0;
    for (std::int32_t layer = layers() - 1; layer >= 0; --layer) {
      if (sharded()) {
        wait(0, weights);
        if (layer > 0) weights = gather_weights();
      }
      backward_layer();
      if (sharded())
        collective(Role::data, Operation::reduce_scatter, shard_bytes());
      else if (micro_batch + 1 == work_.micro_batches)
        collective(Role::data, Operation::all_reduce, work_.gradient_bytes_per_layer);
    }
    thread_ = 0;
    pop();
  }

  /// Exchanges activations and gradients with a neighbouring stage; the compute stream waits for it.
  void exchange(bool with_next, bool sends, bool receives) {
    if (with_next ? at_.pipeline + 1 == plan_.layout.pipeline_parallel : at_.pipeline == 0) return;
    Coordinates lower = at_;
    if (!with_next) --lower.pipeline;
    const std::int32_t channel = topology_.next_stage_channel(rank_at(plan_.layout, lower), generation_);
    Op& op = start_collective(channel, Operation::send_recv, work_.activation_bytes);
    op.grouped = true;
    op.sends = sends;
    op.receives = receives;
    op.root = with_next ? at_.pipeline + 1 : at_.pipeline - 1;
    join(channel);
  }

  /// One forward, one backward ("1F1B"): the schedule of Narayanan et al. 2021 (Megatron-LM), without interleaving.
  void schedule() {
    const std::int32_t batches = work_.micro_batches;
    const std::int32_t warm_up = std::min(plan_.layout.pipeline_parallel - at_.pipeline - 1, batches);
    const std::int32_t steady = batches - warm_up;
    for (std::int32_t i = 0; i < warm_up; ++i) {
      exchange(false, false, true);
      forward(i);
      exchange(true, true, false);
    }
    if (steady > 0) exchange(false, false, true);
    for (std::int32_t i = 0; i < steady; ++i) {
      forward(warm_up + i);
      exchange(true, true, true);
      backward(i);
      exchange(false, true, i + 1 < steady);
    }
    for (std::int32_t i = 0; i < warm_up; ++i) {
      exchange(true, false, true);
      backward(steady + i);
      exchange(false, true, false);
    }
  }

  void optimizer() {
    range(RangeLabel::optimizer);
    if (communicator(Role::data) >= 0) join(communicator(Role::data));
    kernels({KernelId::gradient_norm, KernelId::gradient_norm});
    blocking_collective(Role::world, Operation::all_reduce, 4);
    for (std::int32_t i = 0; i < (layers() + 1) / 2; ++i) kernel(KernelId::adam);
    pop();
  }

  /// Loss to the log, then, where asked, the host waits for it.
  void finish() {
    if (work_.reduce_every > 0 && (step_ + 1) % work_.reduce_every == 0)
      blocking_collective(Role::world, Operation::reduce, 4, 0);
    const bool last = step_ + 1 == work_.steps;
    if (!last && (work_.synchronise_every == 0 || (step_ + 1) % work_.synchronise_every != 0)) return;
    copy(4, false, true);
    add(OpKind::stream_synchronize);
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

}  // namespace

std::vector<Op> step_program(const JobPlan& plan, const Topology& topology, std::int32_t rank, std::int32_t step) {
  return StepBuilder(plan, topology, rank, step).build();
}

}  // namespace nsys_explain::synth
