#include "simulation/step_program.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "simulation/op_writer.hpp"
#include "simulation/random.hpp"

namespace nsys_explain::synth {
namespace {

constexpr std::int64_t batch_bytes = 4 << 20;

/// Writes one step of one rank down, phase by phase.
class StepBuilder : OpWriter {
 public:
  using OpWriter::OpWriter;

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
    after_step();
    finish();
    add(OpKind::pop_range);
    return std::move(ops_);
  }

 private:
  void communicators() {
    if (step_ > 0) add(OpKind::destroy_communicators);
    add(OpKind::make_communicators);
  }

  void load_batch() {
    for (const Fault* fault : faults_) {
      const bool is_late = fault->kind == FaultKind::late_host && fault->count == 1;
      if (is_late || fault->kind == FaultKind::rotating_jitter) host_pause(*fault);
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
    op.duration_ns = pause_of(fault);
    op.bytes = static_cast<std::int64_t>(static_cast<double>(fault.bytes) * strength_of(fault));
    return op;
  }

  void host_pause(const Fault& fault, std::int32_t pieces = 1) {
    const HostPause pause = fault.kind == FaultKind::rotating_jitter ? HostPause::sleep : fault.pause;
    const bool named = pause == HostPause::garbage_collection || pause == HostPause::data_loading;
    planting_ = true;
    if (named)
      range(pause == HostPause::garbage_collection ? RangeLabel::garbage_collection : RangeLabel::data_loading);
    planting_ = false;
    planted(kind_of_pause(pause), fault).duration_ns /= pieces;
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
      planted(OpKind::free, fault).duration_ns /= 3;
      Op& op = planted(OpKind::allocate, fault);
      op.duration_ns -= op.duration_ns / 3;
    }
    if (fault.kind == FaultKind::blocking_copy) blocking_copy(fault);
    if (fault.kind == FaultKind::late_host && fault.count > 1) host_pause(fault, fault.count);
  }

  Op& blocking_copy(const Fault& fault) {
    Op& op = planted(OpKind::blocking_copy, fault);
    op.pageable = true;
    op.duration_ns = static_cast<Nanoseconds>(static_cast<double>(op.bytes) / pageable_bytes_per_ns);
    return op;
  }

  void planted_range(RangeLabel label) {
    planting_ = true;
    range(label);
    planting_ = false;
  }

  void planted_pop() {
    planting_ = true;
    pop();
    planting_ = false;
  }

  /// Checkpoints and evaluations, between the optimizer and the host's wait.
  void after_step() {
    for (const Fault* fault : faults_) {
      if (fault->kind == FaultKind::checkpoint) {
        planted_range(RangeLabel::checkpoint);
        blocking_copy(*fault).to_device = false;
        host_pause(*fault);
        planted_pop();
      }
      if (fault->kind == FaultKind::extra_work && fault->more_work == MoreWork::evaluation) evaluate(*fault);
    }
  }

  void evaluate(const Fault& fault) {
    const auto passes = std::max<std::int64_t>(1, std::lround(fault.count * strength_of(fault)));
    planted_range(RangeLabel::evaluate);
    planting_ = true;
    for (std::int64_t i = 0; i < passes * work_.layers; ++i)
      kernels({KernelId::layer_norm, KernelId::gemm_qkv, KernelId::flash_forward, KernelId::gemm_projection,
               KernelId::residual_add, KernelId::gemm_up, KernelId::gelu, KernelId::gemm_down});
    planting_ = false;
    planted_pop();
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

  void send_ahead() {
    const bool is_last = at_.pipeline + 1 == plan_.layout.pipeline_parallel;
    const auto go_back = [&](std::int32_t batch) {
      exchange(true, false, true);
      backward(batch);
      exchange(false, true, false);
    };
    for (std::int32_t i = 0; i < work_.micro_batches; ++i) {
      exchange(false, false, true);
      forward(i);
      exchange(true, true, false);
      if (is_last) go_back(i);
    }
    for (std::int32_t i = 0; i < work_.micro_batches && !is_last; ++i) go_back(i);
  }

  /// One forward, one backward ("1F1B"): the schedule of Narayanan et al. 2021 (Megatron-LM), without interleaving.
  void schedule() {
    if (work_.pipeline_style == PipelineStyle::sends_ahead) return send_ahead();
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
};

}  // namespace

std::vector<Op> step_program(const JobPlan& plan, const Topology& topology, std::int32_t rank, std::int32_t step) {
  return StepBuilder(plan, topology, rank, step).build();
}

}  // namespace nsys_explain::synth
