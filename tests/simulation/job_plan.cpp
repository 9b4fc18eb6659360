#include "simulation/job_plan.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "simulation/kernel_catalogue.hpp"
#include "simulation/keys.hpp"
#include "simulation/schema.hpp"
#include "simulation/topology.hpp"

namespace nsys_explain::synth {
namespace {

struct FaultType {
  FaultKind kind;
  const char* name;
  const char* cause;
  const char* help;
};

constexpr std::array<FaultType, 12> fault_types{{
    {FaultKind::slow_gpu, "slow_gpu", "slow_kernel",
     "rank=R,factor=1.3: every kernel of the rank takes longer; spread=0.15: each family by a factor of its own; large_only: small grids by none"},
    {FaultKind::slow_node, "slow_node", "slow_kernel", "node=N,factor=1.3: every kernel of the node takes longer"},
    {FaultKind::late_host, "late_host", "launch_starved",
     "rank=R,pause=3ms,kind=sleep|gc|data_loading|file_read|module_load|descheduled|computing|mpi_wait: the host pauses before the step's first launch; with count=4 as often, in the forward pass"},
    {FaultKind::extra_work, "extra_work", "extra_work",
     "rank=R,factor=1.3,mode=larger|more: larger GEMMs (more blocks), or more of them; stage=S,mode=layers,count=1: so many layers more; mode=evaluation,count=1: so many forward passes after the step"},
    {FaultKind::sync_stall, "sync_stall", "sync_stall",
     "rank=R,pause=3ms,count=1: cudaDeviceSynchronize in the forward pass returns late"},
    {FaultKind::blocking_copy, "blocking_copy", "blocking_copy",
     "rank=R,bytes=24MB,count=1: cudaMemcpy from pageable memory in the forward pass"},
    {FaultKind::allocation, "allocation", "allocation",
     "rank=R,pause=3ms,count=1: cudaFree and cudaMalloc in the forward pass"},
    {FaultKind::slow_link, "slow_link", "slow_link",
     "rank=R | ranks=A+B | nodes=A+B,factor=1.3: transfers of groups that contain all of them take longer"},
    {FaultKind::profiler_overhead, "profiler_overhead", "profiler_overhead",
     "rank=R,pause=3ms: the profiler flushes its buffers before the step's first launch"},
    {FaultKind::rotating_jitter, "rotating_jitter", "launch_starved",
     "pause=3ms: in each step another rank, at random, pauses before its first launch"},
    {FaultKind::uneven_work, "uneven_work", "uneven_work",
     "rank=R,factor=2: an expert gets more tokens, so two kinds of GEMMs take longer on equal grids; factor=0.4 without a place: sequence lengths of all ranks are drawn in each step, and GEMMs and attention are exp(0.4 z) times as large"},
    {FaultKind::checkpoint, "checkpoint", "launch_starved",
     "rank=R,bytes=24MB,pause=3ms,kind=file_read: after the step, a copy to the host, then the host pauses"},
}};

const FaultType& type_of(FaultKind kind) {
  return fault_types[static_cast<std::size_t>(kind)];
}

Keys fault_keys(Fault& fault) {
  Keys keys("--fault", "the fault cannot be planted");
  for (const char* key : {"rank", "ranks"}) keys.places(key, fault.ranks, "");
  for (const char* key : {"node", "nodes"}) keys.places(key, fault.nodes, "");
  keys.places("stage", fault.stages, "");
  keys.places("tensor", fault.tensor_indices, "");
  keys.places("data", fault.data_indices, "");
  keys.quantity(
      "factor", [&](double value) { fault.factor = value; }, {{"", 1}}, "a factor such as 1.3");
  keys.quantity(
      "pause", [&](double value) { fault.pause_ns = static_cast<Nanoseconds>(value); },
      {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}, "a duration with unit, such as 3ms or 500us");
  keys.quantity(
      "bytes", [&](double value) { fault.bytes = static_cast<std::int64_t>(value); },
      {{"", 1}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}},
      "a size such as 24MB");
  keys.count("count", fault.count, "");
  keys.choice<HostPause>("kind", fault.pause,
                         {{"sleep", HostPause::sleep},
                          {"gc", HostPause::garbage_collection},
                          {"data_loading", HostPause::data_loading},
                          {"file_read", HostPause::file_reading},
                          {"module_load", HostPause::module_loading},
                          {"descheduled", HostPause::descheduled},
                          {"computing", HostPause::computing},
                          {"mpi_wait", HostPause::mpi_wait}},
                         "");
  keys.choice<MoreWork>("mode", fault.more_work,
                        {{"larger", MoreWork::larger},
                         {"more", MoreWork::more},
                         {"layers", MoreWork::layers},
                         {"evaluation", MoreWork::evaluation}},
                        "");
  keys.count("first_step", fault.first_step, "");
  keys.count("last_step", fault.last_step, "");
  keys.count("period", fault.period, "");
  keys.number("chance", fault.chance, "");
  keys.number("spread", fault.spread, "");
  keys.flag("large_only", fault.large_only, "");
  keys.choice<Law>("law", fault.law, laws(), "");
  return keys;
}

void check_fault(const Fault& fault, const JobPlan& plan) {
  const std::string name = fault_kind_name(fault.kind);
  for (const std::int32_t rank : fault.ranks)
    if (rank >= plan.layout.ranks())
      throw PlanError(fmt::format("fault {} names rank {}, but the job has ranks 0 to {}; name one of these", name,
                                  rank, plan.layout.ranks() - 1));
  for (const std::int32_t node : fault.nodes)
    if (node >= plan.layout.nodes)
      throw PlanError(fmt::format("fault {} names node {}, but the job has nodes 0 to {}; name one of these", name,
                                  node, plan.layout.nodes - 1));
  const Layout& layout = plan.layout;
  const auto check_places = [&](const char* what, const std::vector<std::int32_t>& places, std::int32_t count) {
    for (const std::int32_t place : places)
      if (place >= count)
        throw PlanError(fmt::format("fault {} names {} {}, but the job has 0 to {}; name one of these", name, what,
                                    place, count - 1));
  };
  check_places("stage", fault.stages, layout.pipeline_parallel);
  check_places("tensor index", fault.tensor_indices, layout.tensor_parallel);
  check_places("data index", fault.data_indices, layout.data_parallel);
  const bool in_layout = !fault.stages.empty() || !fault.tensor_indices.empty() || !fault.data_indices.empty();
  if (fault.kind == FaultKind::slow_link && in_layout)
    throw PlanError("a slow link lies between ranks or nodes; name these instead of a stage or index");
  if (fault.kind == FaultKind::extra_work && fault.more_work == MoreWork::layers && fault.stages.empty())
    throw PlanError("layers belong to a whole pipeline stage, and others would wait for ever; add stage=S");
  const bool needs_place = fault.kind != FaultKind::rotating_jitter && fault.kind != FaultKind::uneven_work;
  if (needs_place && !in_layout && fault.ranks.empty() && fault.nodes.empty())
    throw PlanError(
        fmt::format("fault {} names no rank and no node, so nothing would be planted; add rank=R or node=N", name));
  if (fault.factor <= 0)
    throw PlanError(fmt::format("fault {} has factor 0, and nothing takes no time; use a factor above 0", name));
}

}  // namespace

std::string fault_kind_name(FaultKind kind) {
  return type_of(kind).name;
}

Fault parse_fault(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  const auto type =
      std::find_if(fault_types.begin(), fault_types.end(), [&](const FaultType& t) { return kind == t.name; });
  if (type == fault_types.end()) {
    std::vector<std::string> names;
    names.reserve(fault_types.size());
    for (const FaultType& t : fault_types) names.emplace_back(t.name);
    throw PlanError(
        fmt::format("unknown fault '{}', so it cannot be planted; known are {}", kind, fmt::join(names, ", ")));
  }
  Fault fault;
  fault.kind = type->kind;
  if (colon == std::string::npos) return fault;
  fault_keys(fault).set(text.substr(colon + 1));
  if (fault.period == 0) throw PlanError("a fault with period 0 would never strike; use a number of steps, 1 or more");
  return fault;
}

std::string fault_help() {
  std::string text;
  for (const FaultType& type : fault_types) text += fmt::format("  {}:{}\n", type.name, type.help);
  text += "  Instead of rank=R, all ranks of a place in the layout: stage=S, tensor=T or data=D.\n";
  text +=
      "  Every kind also takes first_step=S, last_step=S and period=N (every N-th step), chance=P (of striking in each of\n";
  text +=
      "  these) and law=log_normal|pareto|bimodal|wandering (how pauses, bytes and factors vary from step to step).\n";
  return text;
}

std::string expected_cause(const Fault& fault) {
  const bool larger = fault.kind == FaultKind::extra_work && fault.more_work == MoreWork::larger;
  return larger ? "uneven_work" : type_of(fault.kind).cause;
}

std::string expected_pattern(const Fault& fault, std::int32_t steps) {
  const bool has_places = !fault.ranks.empty() || !fault.nodes.empty() || !fault.stages.empty() ||
                          !fault.tensor_indices.empty() || !fault.data_indices.empty();
  if (fault.kind == FaultKind::rotating_jitter || (fault.kind == FaultKind::uneven_work && !has_places))
    return "rotating";
  if (fault.period > 1) return "periodic";
  const bool whole_run = fault.first_step == 0 && (fault.last_step < 0 || fault.last_step + 1 >= steps);
  return whole_run ? "persistent" : "transient";
}

std::vector<std::int32_t> faulty_ranks(const Fault& fault, const Layout& layout) {
  std::vector<std::int32_t> ranks;
  if (fault.kind == FaultKind::rotating_jitter) return ranks;
  ranks = fault.ranks;
  for (const std::int32_t node : fault.nodes)
    for (std::int32_t local = 0; local < layout.gpus_per_node; ++local)
      ranks.push_back(node * layout.gpus_per_node + local);
  const auto names = [](const std::vector<std::int32_t>& places, std::int32_t place) {
    return std::find(places.begin(), places.end(), place) != places.end();
  };
  for (std::int32_t rank = 0; rank < layout.ranks(); ++rank) {
    const Coordinates at = coordinates_of(layout, rank);
    if (names(fault.stages, at.pipeline) || names(fault.tensor_indices, at.tensor) ||
        names(fault.data_indices, at.data))
      ranks.push_back(rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

JobPlan complete_plan(JobPlan plan) {
  Layout& layout = plan.layout;
  Workload& work = plan.workload;
  if (layout.nodes < 1 || layout.gpus_per_node < 1 || layout.tensor_parallel < 1 || layout.pipeline_parallel < 1 ||
      layout.data_parallel < 0)
    throw PlanError("a job needs at least one node, one GPU per node and one rank per group; use positive numbers");
  if (plan.export_style.repeats < 1) throw PlanError("a job is written at least once; use 1 or more repeats");
  for (const double share :
       {plan.capture.drop_share, plan.capture.ragged_share, plan.capture.lost_call_share, plan.noise.pause_probability})
    if (share < 0 || share > 1)
      throw PlanError(
          fmt::format("a share of {} is not between 0 and 1, so it means nothing; write 0.1 for 10 %", share));
  if (plan.clocks.utc_offset_max_ns < 0 || plan.clocks.drift_max_ppm < 0 || plan.clocks.session_start_spread_ns < 0)
    throw PlanError("clock ranges are given as the positive end of +-range; leave out the minus sign");
  for (const std::int32_t rank : plan.capture.missing_ranks)
    if (rank < 0 || rank >= layout.ranks())
      throw PlanError(fmt::format("rank {} cannot be missing, the job has ranks 0 to {}; name one of these", rank,
                                  layout.ranks() - 1));
  const std::int32_t model = layout.tensor_parallel * layout.pipeline_parallel;
  if (layout.data_parallel == 0) layout.data_parallel = std::max(1, layout.ranks() / model);
  if (model * layout.data_parallel != layout.ranks())
    throw PlanError(fmt::format(
        "tp {} x pp {} x dp {} = {} does not equal {} nodes x {} GPUs = {}, so ranks have no place; change one of them, or leave out --dp to have it worked out",
        layout.tensor_parallel, layout.pipeline_parallel, layout.data_parallel, model * layout.data_parallel,
        layout.nodes, layout.gpus_per_node, layout.ranks()));
  if (work.steps < 1 || work.layers < 1 || work.micro_batches < 0 || work.launch_queue_depth < 1 ||
      work.compute_scale <= 0 || work.synchronise_every < 0)
    throw PlanError("steps, layers, queue depth and compute scale must be positive, or there is no job; raise them");
  if (work.micro_batches == 0) work.micro_batches = layout.pipeline_parallel > 1 ? 2 * layout.pipeline_parallel : 1;
  if (work.pipeline_style == PipelineStyle::sends_ahead && !no_sender_waits(plan.network.ends, work.activation_bytes))
    throw PlanError(
        "stages that send ahead would wait for each other for ever where senders wait for their receivers; choose a law of ends in which they do not, such as loopback_sockets");
  if (work.restart_at_step == 0 || work.restart_at_step >= work.steps)
    throw PlanError("communicators cannot restart before the first or after the last step; choose a step in between");
  if (plan.clocks.gpu_tick_ns < 1) throw PlanError("a GPU tick is at least 1 ns; use 1 for exact times");
  ExportStyle& style = plan.export_style;
  if (style.single_process_per_node && style.files != FileLayout::per_node)
    throw PlanError("one process that drives a whole node is in one file; use one file per node");
  if (style.single_process_per_node && style.isolated_devices)
    throw PlanError("one process that drives several GPUs sees all of them; leave out isolated devices");
  const int release = nsys_release(style.nsys_version).number;
  if (style.payload == PayloadStyle::dynamic_tables && release < 20264)
    throw PlanError(
        fmt::format("nsys {} cannot write one table per payload schema; choose 2026.4 or another payload style",
                    style.nsys_version));
  const int nccl = version_number(style.nccl_version);
  if (nccl < 216 || nccl > 230)
    throw PlanError(fmt::format("NCCL {} has no payload layout here; use 2.16 to 2.30", style.nccl_version));
  for (const Fault& fault : plan.faults) check_fault(fault, plan);
  return plan;
}

}  // namespace nsys_explain::synth
