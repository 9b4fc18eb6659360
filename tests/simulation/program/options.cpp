#include "simulation/program/options.hpp"

#include <map>
#include <utility>

#include <fmt/format.h>

namespace nsys_explain::synth {
namespace {

template <typename T>
void add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                const std::string& help, const std::string& group) {
  std::string names, chosen;
  for (const auto& [text, meaning] : choices) {
    names += (names.empty() ? "" : "|") + text;
    if (meaning == value) chosen = text;
  }
  app.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices, CLI::ignore_case).description(""))
      ->type_name(names)
      ->default_str(chosen)
      ->group(group);
}

constexpr double us = 1e3, ms = 1e6;

}  // namespace

Options::Options(CLI::App& app, Arguments& arguments) : arguments_(arguments) {
  add_output_options(app);
  add_job_options(app);
  add_keyed_options(app);
}

void Options::add_output_options(CLI::App& app) {
  const char* group = "Output";
  app.add_option("--out", arguments_.directory, "Directory to write into; created if missing")
      ->required()
      ->type_name("DIR")
      ->group(group);
  app.add_flag("--force", arguments_.force,
               "Write into a directory that is not empty; files of the same name are replaced")
      ->group(group);
  add_choice<Truth>(app, "--truth", arguments_.truth,
                    {{"full", Truth::full}, {"summary", Truth::summary}, {"none", Truth::none}},
                    "truth.json: everything, without the instances (big jobs), or none", group);
  app.add_flag(
         "--records", arguments_.records,
         "Instead of exports, DIR/shards with what nsys-explain-mpi keeps of each, for jobs whose exports fit no disk; nsys-explain-mpi merge DIR/shards analyses them")
      ->group(group);
}

void Options::add_job_options(CLI::App& app) {
  Layout& layout = arguments_.plan.layout;
  Workload& work = arguments_.plan.workload;
  const char* group = "Job (ranks = nodes x GPUs per node = tp x pp x dp)";
  const auto option = [&](const char* name, auto& value, const char* help) {
    app.add_option(name, value, help)->capture_default_str()->group(group);
  };
  option("--nodes", layout.nodes, "Nodes");
  option("--gpus-per-node", layout.gpus_per_node, "GPUs, and ranks, per node");
  option("--tp", layout.tensor_parallel, "Tensor-parallel ranks");
  option("--pp", layout.pipeline_parallel, "Pipeline stages (1F1B schedule)");
  option("--dp", layout.data_parallel, "Data-parallel ranks; 0: what tp and pp leave over");
  option("--seed", arguments_.plan.seed, "Same plan and seed, same job");
  option("--steps", work.steps, "Training steps");
  option("--layers", work.layers, "Layers per pipeline stage");
  option("--micro-batches", work.micro_batches, "Per step; 0: twice the stages with pipeline parallelism, else 1");
  option("--compute-scale", work.compute_scale, "Multiplies every kernel's nominal duration");
  option("--gradient-mib", arguments_.gradient_mib, "Gradients per layer, MiB");
  option("--activation-mib", arguments_.activation_mib, "Activations per exchange, MiB");
  add_choice<DataParallelStyle>(
      app, "--dp-style", work.data_parallel_style,
      {{"all_reduce", DataParallelStyle::all_reduce}, {"fully_sharded", DataParallelStyle::fully_sharded}},
      "Gradient buckets overlapped with backward (DDP), or gathered weights and scattered gradients (FSDP)", group);
  add_choice<TensorParallelStyle>(
      app, "--tp-style", work.tensor_parallel_style,
      {{"all_reduce", TensorParallelStyle::all_reduce}, {"sequence_parallel", TensorParallelStyle::sequence_parallel}},
      "All-reduce of activations, or all-gather and reduce-scatter", group);
  add_choice<PipelineStyle>(
      app, "--pp-style", work.pipeline_style,
      {{"1f1b", PipelineStyle::one_forward_one_backward}, {"sends_ahead", PipelineStyle::sends_ahead}},
      "One forward, one backward, or all forwards first and every send and receive a kernel of its own (as PyTorch does; needs a law of ends in which senders do not wait)",
      group);
  app.add_flag("--moe", work.mixture_of_experts, "All-to-all among data-parallel ranks in every layer")->group(group);
  app.add_flag("--nccl-on-compute-stream", work.nccl_on_compute_stream, "Collectives run on the compute stream")
      ->group(group);
  app.add_flag("--shared-nccl-stream", work.shared_nccl_stream, "All communicators share one stream")->group(group);
  option("--sync-every", work.synchronise_every, "Steps between the host's waits for the GPU; 0: only at the end");
  option("--restart-at", work.restart_at_step, "Step before which communicators are made anew; -1: never");
  add_choice<GraphMode>(app, "--graph", work.graph_mode,
                        {{"none", GraphMode::none}, {"whole", GraphMode::whole}, {"node", GraphMode::node}},
                        "Replay forward and backward from a CUDA graph, traced as a whole (opaque) or by node", group);
}

Keys Options::network_keys() {
  Network& network = arguments_.plan.network;
  Keys keys("--network", "the network would be another");
  keys.time("latency_intra_ns", network.latency_intra_ns, 1, "latency of a collective within a node");
  keys.time("latency_inter_ns", network.latency_inter_ns, 1, "latency of a collective between nodes");
  keys.number("bandwidth_intra", network.bandwidth_intra_gbs, "bus bandwidth within a node, GB/s");
  keys.number("bandwidth_inter", network.bandwidth_inter_gbs, "bus bandwidth between nodes per GPU, GB/s");
  keys.number("noise", network.transfer_noise, "relative noise of transfer times");
  return keys;
}

Keys Options::ends_keys() {
  Network& network = arguments_.plan.network;
  Keys keys("--ends", "members would leave otherwise than meant");
  keys.custom("law", network.ends.name,
              "of ends.json: nvlink and infiniband are assumed, loopback_sockets is measured; or such a file",
              [&network](const std::string& name) { network.ends = ends_law(name); });
  keys.number("scale", network.end_jitter_scale, "multiplies what the law gives; 0: ends coincide");
  keys.time("bias_us", network.end_bias_max_ns, us, "beyond the law, each member always leaves later by up to this");
  keys.flag("heavy_tails", network.heavy_tails, "ends scatter by a law without a variance");
  for (int code = 0; code <= static_cast<int>(Operation::barrier); ++code) {
    const auto operation = static_cast<Operation>(code);
    keys.number(operation_name(operation).data(), network.end_jitter_of.try_emplace(operation, 1).first->second, "");
  }
  return keys;
}

Keys Options::noise_keys() {
  Noise& noise = arguments_.plan.noise;
  Keys keys("--noise", "ranks would vary otherwise than meant");
  keys.number("kernels", noise.kernel_noise, "relative noise of kernel durations");
  keys.choice<Law>("law", noise.law, laws(), "of kernel durations; steady: normal");
  keys.number("wander", noise.speed_wander, "likewise of the speed of each GPU, which wanders over some eight steps");
  keys.number("pauses", noise.pause_probability, "probability of a random host pause, per rank and step");
  keys.time("pause_ms", noise.pause_mean_ns, ms, "mean length of these pauses");
  return keys;
}

Keys Options::clock_keys() {
  Clocks& clocks = arguments_.plan.clocks;
  Keys keys("--clocks", "clocks would run otherwise than meant");
  keys.time("utc_offset_ms", clocks.utc_offset_max_ns, ms, "each session's UTC is off by up to this, either way");
  keys.number("drift_ppm", clocks.drift_max_ppm, "each node's clock drifts by up to this, either way");
  keys.time("change_at_ms", clocks.change_at_ns, ms, "when the clock of the last node changes");
  keys.time("step_us", clocks.step_ns, us, "it jumps forward by this");
  keys.number("slew_ppm", clocks.slew_ppm, "it runs faster by this");
  keys.time("slew_for_ms", clocks.slew_for_ns, ms, "for so long");
  return keys;
}

Keys Options::capture_keys() {
  Capture& capture = arguments_.plan.capture;
  Keys keys("--capture", "the job would be recorded otherwise than meant");
  keys.number("drop", capture.drop_share, "share of kernels and copies lost at random");
  keys.number("ragged", capture.ragged_share, "each rank's window loses up to this share of the run at either end");
  keys.places("missing_rank", capture.missing_ranks, "ranks that were never captured, such as 3+5");
  keys.number("orphans", capture.lost_call_share, "share of launch calls lost, so that their kernels have none");
  keys.flag("no_nvtx", capture.nvtx, "no NVTX was captured", false);
  keys.time("cpu_sampling_us", arguments_.plan.export_style.cpu_sampling_ns, us,
            "period of CPU samples of the main threads; 0: none");
  return keys;
}

Keys Options::export_keys() {
  ExportStyle& style = arguments_.plan.export_style;
  Keys keys("--export", "the exports would be others");
  keys.choice<FileLayout>("files", style.files,
                          {{"per_rank", FileLayout::per_rank}, {"per_node", FileLayout::per_node}},
                          "one report per rank, or per node with one process per rank in it");
  keys.choice<PayloadStyle>("payload", style.payload,
                            {{"none", PayloadStyle::none},
                             {"blob", PayloadStyle::blob},
                             {"hex", PayloadStyle::hex_text},
                             {"json", PayloadStyle::json},
                             {"dynamic", PayloadStyle::dynamic_tables}},
                            "where NCCL's payloads are; blob and hex need nsys 2024.5, dynamic 2026.4");
  keys.choice<RankHint>("rank_hint", style.rank_hint,
                        {{"file_name", RankHint::file_name},
                         {"mpi_ranks", RankHint::mpi_ranks},
                         {"slurm", RankHint::slurm},
                         {"open_mpi", RankHint::open_mpi},
                         {"torchrun", RankHint::torchrun},
                         {"nothing", RankHint::nothing}},
                        "what tells ranks apart besides NCCL's payload");
  keys.text("nsys", style.nsys_version, "nsys release: 2022.4, 2023.3, 2024.5, 2025.5, 2026.2 or 2026.4");
  keys.text("nccl", style.nccl_version, "NCCL release, 2.16 to 2.30: payload layouts and kernel names");
  keys.flag("nccl_trace", style.advanced_nccl_trace,
            "NCCL's ranges are those of nsys' own NCCL trace (-t nccl): a category per communicator");
  keys.choice<CommunicatorNames>(
      "communicator_names", style.communicator_names,
      {{"none", CommunicatorNames::none}, {"purpose", CommunicatorNames::purpose}, {"group", CommunicatorNames::group}},
      "with nccl_trace, what those categories are called");
  keys.choice<InspectorLogs>(
      "inspector_logs", style.inspector_logs,
      {{"none", InspectorLogs::none}, {"terse", InspectorLogs::terse}, {"verbose", InspectorLogs::verbose}},
      "logs of NCCL Inspector in DIR/inspector, without or with the ends of kernels");
  keys.flag("isolated_devices", style.isolated_devices, "every process sees one GPU, as device 0");
  keys.flag("shuffled", style.shuffled_rows, "rows in no order of time");
  keys.flag("operator_ranges", style.operator_ranges,
            "a range of its own text around every other launch, as PyTorch's emit_nvtx writes them");
  keys.count("repeat", style.repeats,
             "write the rows this often, one job after the other; GPU metrics and truth.json cover the first");
  return keys;
}

Keys Options::metrics_keys() {
  ExportStyle& style = arguments_.plan.export_style;
  Keys keys("--metrics", "samples would show something else");
  keys.flag("nvlink", style.gpu_metrics, "NVLink throughput");
  keys.time("period_us", style.gpu_metrics_period_ns, us, "its sampling period");
  keys.time("lag_us", style.gpu_metrics_lag_ns, us, "it shows the traffic this much later");
  keys.choice<LinkCounters>(
      "shows", style.link_counters,
      {{"traffic", LinkCounters::traffic},
       {"unrelated", LinkCounters::unrelated},
       {"idle_artefact", LinkCounters::idle_artefact}},
      "the traffic, bursts that have nothing to do with it, or full utilisation while links are idle");
  keys.flag("nic", style.nic_metrics, "bytes sent and received by a NIC per GPU");
  keys.flag("switch", style.switch_metrics, "bytes sent and received by the InfiniBand switch port of each NIC");
  return keys;
}

void Options::add_keyed_options(CLI::App& app) {
  app.add_option("--fault", arguments_.faults, "Plant a fault (see below); may be repeated")
      ->type_name("KIND:key=value,...")
      ->allow_extra_args(false)
      ->group("Faults");
  app.add_option(
         "--twin", arguments_.twin,
         "Write the same job without this fault, named by the text of its --fault, or without all, into DIR-twin as well")
      ->type_name("FAULT|all")
      ->group("Faults");
  keyed_ = {{"--network", {network_keys(), {}, "Latency and bandwidth"}},
            {"--ends", {ends_keys(), {}, "How members of a collective leave"}},
            {"--noise", {noise_keys(), {}, "What ranks do by nobody's doing"}},
            {"--clocks", {clock_keys(), {}, "What clocks say"}},
            {"--capture", {capture_keys(), {}, "What was recorded"}},
            {"--export", {export_keys(), {}, "How nsys wrote it"}},
            {"--metrics", {metrics_keys(), {}, "Samples of links"}}};
  std::string footer = "Faults:\n" + fault_help();
  for (auto& [name, option] : keyed_) {
    app.add_option(name, option.texts, option.meaning + " (keys below); may be repeated")
        ->type_name("key=value,...")
        ->allow_extra_args(false)
        ->group("Machine and recording");
    footer += fmt::format("\n{}: {}\n{}", name, option.meaning, option.keys.help());
    if (name == "--ends")
      footer += fmt::format("  {:<28} {}\n", "OPERATION=1", "scale for one operation, such as all_gather=50");
  }
  app.footer(footer +
             "\nExamples:\n"
             "  nsys-explain-synth --out job --fault slow_gpu:rank=5,factor=1.3\n"
             "  nsys-explain-synth --out job --nodes 4 --tp 4 --pp 2 --export files=per_node,rank_hint=slurm\n"
             "  nsys-explain-synth --out job --export payload=none --ends law=loopback_sockets,scale=3\n"
             "\nExit status: 0 written, 2 wrong usage or a plan that makes no sense, 5 a file could not be written.");
}

JobPlan Options::plan() {
  for (const auto& [name, option] : keyed_)
    for (const std::string& text : option.texts) option.keys.set(text);
  JobPlan plan = arguments_.plan;
  plan.workload.gradient_bytes_per_layer = static_cast<std::int64_t>(arguments_.gradient_mib * 0x1p20);
  plan.workload.activation_bytes = static_cast<std::int64_t>(arguments_.activation_mib * 0x1p20);
  for (const std::string& text : arguments_.faults) plan.faults.push_back(parse_fault(text));
  return complete_plan(plan);
}

}  // namespace nsys_explain::synth
