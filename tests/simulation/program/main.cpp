// nsys-explain-synth: arguments into a JobPlan, then simulate and write.

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "pipeline/read/record_maker.hpp"
#include "simulation/exports.hpp"
#include "simulation/job_plan.hpp"
#include "simulation/simulated_job.hpp"

namespace synth = nsys_explain::synth;
using nsys_explain::Nanoseconds;

namespace {

enum class Truth { full, summary, none };

struct Arguments {
  synth::JobPlan plan;
  std::string directory;
  std::vector<std::string> faults;
  std::string twin;  ///< the fault that the job beside it lacks, as given; "all"; empty: no such job
  Truth truth = Truth::full;
  bool force = false;
  bool records = false;
  // Options whose unit or sense differs from the plan's.
  double utc_offset_ms = 20, start_spread_ms = 500, pause_mean_ms = 1, metrics_period_us = 100, metrics_lag_us = 0,
         end_bias_us = 0, clock_step_us = 0, clock_change_at_ms = 500, clock_slew_for_ms = 1000;
  double cpu_sampling_us = 0;
  double gradient_mib = 32, activation_mib = 16;
  bool no_nvtx = false, no_domain_row = false, no_device_tables = false, eager_tables = false;
};

template <typename T>
CLI::Option* add_choice(CLI::App& app, const std::string& name, T& value, const std::map<std::string, T>& choices,
                        const std::string& help) {
  std::string names, chosen;
  for (const auto& [text, meaning] : choices) {
    names += (names.empty() ? "" : "|") + text;
    if (meaning == value) chosen = text;
  }
  return app.add_option(name, value, help)
      ->transform(CLI::CheckedTransformer(choices, CLI::ignore_case).description(""))
      ->type_name(names)
      ->default_str(chosen);
}

/// Options added by the last function of a group get that group's heading.
class Group {
 public:
  Group(CLI::App& app, std::string name) : app_(app), name_(std::move(name)) {}
  template <typename T>
  void option(const std::string& name, T& value, const std::string& help) {
    app_.add_option(name, value, help)->capture_default_str()->group(name_);
  }
  void flag(const std::string& name, bool& value, const std::string& help) {
    app_.add_flag(name, value, help)->group(name_);
  }
  template <typename T>
  void choice(const std::string& name, T& value, const std::map<std::string, T>& choices, const std::string& help) {
    add_choice(app_, name, value, choices, help)->group(name_);
  }

 private:
  CLI::App& app_;
  std::string name_;
};

void add_output_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--out", arguments.directory, "Directory to write into; created if missing")
      ->required()
      ->type_name("DIR")
      ->group("Output");
  Group group(app, "Output");
  group.flag("--force", arguments.force,
             "Write into a directory that is not empty; files of the same name are replaced");
  group.choice<Truth>("--truth", arguments.truth,
                      {{"full", Truth::full}, {"summary", Truth::summary}, {"none", Truth::none}},
                      "truth.json: everything, without the instances (big jobs), or none");
  group.flag("--records", arguments.records,
             "Instead of exports, DIR/shards with what nsys-explain-mpi keeps of each, for jobs whose exports fit no "
             "disk; nsys-explain-mpi merge DIR/shards analyses them");
}

void add_job_options(CLI::App& app, Arguments& arguments) {
  synth::Layout& layout = arguments.plan.layout;
  synth::Workload& work = arguments.plan.workload;
  Group group(app, "Job (ranks = nodes x GPUs per node = tp x pp x dp)");
  group.option("--nodes", layout.nodes, "Nodes");
  group.option("--gpus-per-node", layout.gpus_per_node, "GPUs, and ranks, per node");
  group.option("--tp", layout.tensor_parallel, "Tensor-parallel ranks");
  group.option("--pp", layout.pipeline_parallel, "Pipeline stages (1F1B schedule)");
  group.option("--dp", layout.data_parallel, "Data-parallel ranks; 0: what tp and pp leave over");
  group.option("--seed", arguments.plan.seed, "Same plan and seed, same job");
  group.option("--steps", work.steps, "Training steps");
  group.option("--layers", work.layers, "Layers per pipeline stage");
  group.option("--micro-batches", work.micro_batches,
               "Per step; 0: twice the stages with pipeline parallelism, else 1");
  group.option("--compute-scale", work.compute_scale, "Multiplies every kernel's nominal duration");
  group.option("--gradient-mib", arguments.gradient_mib, "Gradients per layer, MiB");
  group.option("--activation-mib", arguments.activation_mib, "Activations per exchange, MiB");
  group.choice<synth::DataParallelStyle>(
      "--dp-style", work.data_parallel_style,
      {{"all_reduce", synth::DataParallelStyle::all_reduce},
       {"fully_sharded", synth::DataParallelStyle::fully_sharded}},
      "Gradient buckets overlapped with backward (DDP), or gathered weights and scattered gradients (FSDP)");
  group.choice<synth::TensorParallelStyle>("--tp-style", work.tensor_parallel_style,
                                           {{"all_reduce", synth::TensorParallelStyle::all_reduce},
                                            {"sequence_parallel", synth::TensorParallelStyle::sequence_parallel}},
                                           "All-reduce of activations, or all-gather and reduce-scatter");
  group.flag("--moe", work.mixture_of_experts, "All-to-all among data-parallel ranks in every layer");
  group.flag("--nccl-on-compute-stream", work.nccl_on_compute_stream, "Collectives run on the compute stream");
  group.flag("--shared-nccl-stream", work.shared_nccl_stream, "All communicators share one stream");
  group.option("--sync-every", work.synchronise_every,
               "Steps between the host's waits for the GPU; 0: only at the end");
  group.option("--queue-depth", work.launch_queue_depth, "Launches the host can be ahead of the GPU");
  group.option("--reduce-every", work.reduce_every, "Steps between loss reductions to rank 0; 0: never");
  group.option("--restart-at", work.restart_at_step, "Step before which communicators are made anew; -1: never");
  group.choice<synth::GraphMode>(
      "--graph", work.graph_mode,
      {{"none", synth::GraphMode::none}, {"whole", synth::GraphMode::whole}, {"node", synth::GraphMode::node}},
      "Replay forward and backward from a CUDA graph, traced as a whole (opaque) or by node");
}

void add_machine_options(CLI::App& app, Arguments& arguments) {
  synth::JobPlan& plan = arguments.plan;
  Group network(app, "Network and noise");
  network.option("--latency-intra-ns", plan.network.latency_intra_ns, "Latency of a collective within a node");
  network.option("--latency-inter-ns", plan.network.latency_inter_ns, "Latency of a collective between nodes");
  network.option("--bandwidth-intra", plan.network.bandwidth_intra_gbs, "Bus bandwidth within a node, GB/s");
  network.option("--bandwidth-inter", plan.network.bandwidth_inter_gbs, "Bus bandwidth between nodes per GPU, GB/s");
  network.option("--transfer-noise", plan.network.transfer_noise, "Relative noise of transfer times");
  network.option("--end-jitter", plan.network.end_jitter_scale,
                 "Scale of the measured jitter of ends; 0: ends coincide");
  app.add_option_function<std::vector<std::string>>(
         "--end-jitter-of",
         [&plan](const std::vector<std::string>& all) {
           for (const std::string& one : all) synth::set_end_jitter(plan.network, one);
         },
         "Scale of the jitter of the ends of one operation, e.g. all_gather=50; may be repeated")
      ->type_name("OPERATION=FACTOR")
      ->allow_extra_args(false)
      ->group("Network and noise");
  network.flag("--heavy-tails", plan.network.heavy_tails, "Ends scatter by a law without a variance");
  network.option("--end-bias-us", arguments.end_bias_us, "Each member always leaves later by up to this");
  network.option("--kernel-noise", plan.noise.kernel_noise, "Relative noise of kernel durations");
  network.option("--speed-wander", plan.noise.speed_wander,
                 "Relative noise of the speed of each GPU, which wanders over some eight steps");
  network.option("--pause-probability", plan.noise.pause_probability, "Of a random host pause, per rank and step");
  network.option("--pause-mean-ms", arguments.pause_mean_ms, "Mean length of these pauses");
  Group clocks(app, "Clocks");
  clocks.option("--utc-offset-ms", arguments.utc_offset_ms, "Each session's UTC is off by up to this, either way");
  clocks.option("--drift-ppm", plan.clocks.drift_max_ppm, "Each node's clock drifts by up to this, either way");
  clocks.option("--clock-change-at-ms", arguments.clock_change_at_ms, "When the clock of the last node changes");
  clocks.option("--clock-step-us", arguments.clock_step_us, "It jumps forward by this");
  clocks.option("--clock-slew-ppm", plan.clocks.slew_ppm, "It runs faster by this");
  clocks.option("--clock-slew-for-ms", arguments.clock_slew_for_ms, "For so long");
  clocks.option("--start-spread-ms", arguments.start_spread_ms, "Sessions start within this span");
  clocks.option("--gpu-tick-ns", plan.clocks.gpu_tick_ns, "GPU times are multiples of this; 1: exact");
}

void add_capture_options(CLI::App& app, Arguments& arguments) {
  synth::Capture& capture = arguments.plan.capture;
  Group group(app, "Capture");
  group.option("--drop", capture.drop_share, "Share of kernels and copies lost at random");
  group.option("--ragged", capture.ragged_share, "Each rank's window loses up to this share of the run at either end");
  app.add_option("--missing-rank", capture.missing_ranks, "Rank that was never captured; may be repeated")
      ->type_name("INT")
      ->allow_extra_args(false)
      ->group("Capture");
  group.option("--orphans", capture.lost_call_share, "Share of launch calls lost, so that their kernels have none");
  group.flag("--no-nvtx", arguments.no_nvtx, "No NVTX was captured");
  group.option("--cpu-sampling-us", arguments.cpu_sampling_us, "Period of CPU samples of the main threads; 0: none");
}

void add_export_options(CLI::App& app, Arguments& arguments) {
  synth::ExportStyle& style = arguments.plan.export_style;
  Group group(app, "Export");
  group.choice<synth::FileLayout>(
      "--files", style.files, {{"per_rank", synth::FileLayout::per_rank}, {"per_node", synth::FileLayout::per_node}},
      "One report per rank, or per node with one process per rank in it");
  group.choice<synth::PayloadStyle>("--payload", style.payload,
                                    {{"none", synth::PayloadStyle::none},
                                     {"blob", synth::PayloadStyle::blob},
                                     {"hex", synth::PayloadStyle::hex_text},
                                     {"json", synth::PayloadStyle::json},
                                     {"dynamic", synth::PayloadStyle::dynamic_tables}},
                                    "Where NCCL's payloads are; blob and hex need nsys 2024.5, dynamic 2026.4");
  group.choice<synth::RankHint>("--rank-hint", style.rank_hint,
                                {{"file_name", synth::RankHint::file_name},
                                 {"mpi_ranks", synth::RankHint::mpi_ranks},
                                 {"slurm", synth::RankHint::slurm},
                                 {"open_mpi", synth::RankHint::open_mpi},
                                 {"torchrun", synth::RankHint::torchrun},
                                 {"nothing", synth::RankHint::nothing}},
                                "What tells ranks apart besides NCCL's payload");
  group.option("--nsys", style.nsys_version, "nsys release: 2022.4, 2023.3, 2024.5, 2025.5, 2026.2 or 2026.4");
  group.option("--nccl", style.nccl_version, "NCCL release, 2.16 to 2.30: payload layouts and kernel names");
  group.flag(
      "--nccl-trace", style.advanced_nccl_trace,
      "NCCL's ranges are those of nsys' own NCCL trace (-t nccl): a category per communicator and, unless --payload "
      "is none, ranks and sequence numbers as JSON");
  group.choice<synth::CommunicatorNames>("--communicator-names", style.communicator_names,
                                         {{"none", synth::CommunicatorNames::none},
                                          {"purpose", synth::CommunicatorNames::purpose},
                                          {"group", synth::CommunicatorNames::group}},
                                         "With --nccl-trace, what those categories are called");
  group.choice<synth::InspectorLogs>("--inspector-logs", style.inspector_logs,
                                     {{"none", synth::InspectorLogs::none},
                                      {"terse", synth::InspectorLogs::terse},
                                      {"verbose", synth::InspectorLogs::verbose}},
                                     "Logs of NCCL Inspector in DIR/inspector, without or with the ends of kernels");
  group.flag("--isolated-devices", style.isolated_devices, "Every process sees one GPU, as device 0");
  group.flag("--single-process", style.single_process_per_node, "One process drives all GPUs of a node");
  group.flag("--shuffled-rows", style.shuffled_rows, "Rows in no order of time");
  group.flag("--eager-tables", arguments.eager_tables, "Empty tables exist, too (nsys export --lazy=false)");
  group.flag("--utc-timestamps", style.utc_timestamps, "Times are UTC (nsys export --ts-normalize=true)");
  group.flag("--no-domain-row", arguments.no_domain_row, "The NVTX row that names NCCL's domain is missing");
  group.flag("--no-device-tables", arguments.no_device_tables,
             "TARGET_INFO_GPU and TARGET_INFO_CUDA_DEVICE are missing");
  group.flag("--operator-ranges", style.operator_ranges,
             "A range of its own text around every other launch, as PyTorch's emit_nvtx writes them");
  group.option("--repeat", style.repeats,
               "Write the rows this often, one job after the other; memory stays that of one job. GPU metrics and "
               "truth.json cover the first");
  group.flag("--gpu-metrics", style.gpu_metrics, "NVLink throughput samples");
  group.option("--gpu-metrics-period-us", arguments.metrics_period_us, "Sampling period");
  group.option("--gpu-metrics-lag-us", arguments.metrics_lag_us, "Samples show the traffic this much later");
  group.choice<synth::LinkCounters>("--link-counters", style.link_counters,
                                    {{"traffic", synth::LinkCounters::traffic},
                                     {"unrelated", synth::LinkCounters::unrelated},
                                     {"idle_artefact", synth::LinkCounters::idle_artefact}},
                                    "What NVLink samples show: the traffic, bursts that have nothing to do with it, "
                                    "or full utilisation while links are idle");
  group.flag("--nic-metrics", style.nic_metrics, "Bytes sent and received by a NIC per GPU");
  group.flag("--switch-metrics", style.switch_metrics,
             "Bytes sent and received by the InfiniBand switch port of each NIC");
}

/// The plan with the options whose unit or sense differs folded in.
synth::JobPlan plan_of(const Arguments& arguments) {
  synth::JobPlan plan = arguments.plan;
  const auto ms = [](double value) { return static_cast<Nanoseconds>(value * 1e6); };
  plan.clocks.utc_offset_max_ns = ms(arguments.utc_offset_ms);
  plan.network.end_bias_max_ns = ms(arguments.end_bias_us / 1000);
  plan.clocks.step_ns = ms(arguments.clock_step_us / 1000);
  plan.clocks.change_at_ns = ms(arguments.clock_change_at_ms);
  plan.clocks.slew_for_ns = ms(arguments.clock_slew_for_ms);
  plan.clocks.session_start_spread_ns = ms(arguments.start_spread_ms);
  plan.noise.pause_mean_ns = ms(arguments.pause_mean_ms);
  plan.workload.gradient_bytes_per_layer = static_cast<std::int64_t>(arguments.gradient_mib * 0x1p20);
  plan.workload.activation_bytes = static_cast<std::int64_t>(arguments.activation_mib * 0x1p20);
  plan.capture.nvtx = !arguments.no_nvtx;
  plan.export_style.nccl_domain_row = !arguments.no_domain_row;
  plan.export_style.device_tables = !arguments.no_device_tables;
  plan.export_style.lazy = !arguments.eager_tables;
  plan.export_style.cpu_sampling_ns = static_cast<Nanoseconds>(arguments.cpu_sampling_us * 1e3);
  plan.export_style.gpu_metrics_period_ns = static_cast<Nanoseconds>(arguments.metrics_period_us * 1e3);
  plan.export_style.gpu_metrics_lag_ns = static_cast<Nanoseconds>(arguments.metrics_lag_us * 1e3);
  for (const std::string& text : arguments.faults) plan.faults.push_back(synth::parse_fault(text));
  return synth::complete_plan(plan);
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error(
        fmt::format("{} cannot be written, so the job has no truth; check the disk and rerun", path.string()));
}

void check_directory(const std::filesystem::path& directory, bool force) {
  if (std::filesystem::exists(directory) && !force &&
      (!std::filesystem::is_directory(directory) || !std::filesystem::is_empty(directory)))
    throw synth::PlanError(
        fmt::format("{} exists and is not an empty directory, so files of two jobs could mix; name "
                    "another directory or add --force",
                    directory.string()));
}

/// The same job and seed without a fault, or without all. No random number of the job depends on its faults.
synth::JobPlan twin_of(synth::JobPlan plan, const Arguments& arguments) {
  if (arguments.twin == "all") {
    plan.faults.clear();
    return plan;
  }
  const auto left_out = std::find(arguments.faults.begin(), arguments.faults.end(), arguments.twin);
  if (left_out == arguments.faults.end())
    throw synth::PlanError(
        fmt::format("--twin {} is none of the faults of the job, so the twin would be the job itself; repeat the text "
                    "of one --fault, or write all",
                    arguments.twin));
  plan.faults.erase(plan.faults.begin() + (left_out - arguments.faults.begin()));
  return plan;
}

/// Each export is there only until its record is.
std::vector<synth::WrittenExport> write_records(const synth::SimulatedJob& job, const synth::JobPlan& plan,
                                                const std::string& directory) {
  nsys_explain::pipeline::RecordMaker maker(directory);
  std::vector<synth::WrittenExport> files =
      synth::write_exports(job, plan, directory, [&](const synth::WrittenExport& file) {
        maker.add(file.path);
        std::filesystem::remove(file.path);
      });
  maker.finish();
  return files;
}

void write_job(const synth::JobPlan& plan, const std::filesystem::path& directory, const Arguments& arguments) {
  const synth::SimulatedJob job = synth::simulate(plan);
  const std::vector<synth::WrittenExport> files = arguments.records
                                                      ? write_records(job, plan, directory.string())
                                                      : synth::write_exports(job, plan, directory.string());
  synth::write_inspector_logs(job, plan, (directory / "inspector").string());
  if (arguments.truth != Truth::none) {
    const auto detail = arguments.truth == Truth::full ? synth::TruthDetail::full : synth::TruthDetail::summary;
    write_text(directory / "truth.json", synth::truth_json(job, plan, detail));
  }
  std::int64_t kernels = 0, bytes = 0;
  for (const synth::WrittenExport& file : files) {
    kernels += file.kernels;
    bytes += file.bytes;
  }
  fmt::print("{}: {} ranks in {} {} ({:.1f} MB), {} kernels, {} collectives, {} faults, {:.2f} s of job time\n",
             directory.string(), plan.layout.ranks(), files.size(), arguments.records ? "records of exports" : "files",
             static_cast<double>(bytes) / 1e6, kernels, job.instances.size(), plan.faults.size(),
             static_cast<double>(job.end_ns) / 1e9);
}

void run(const Arguments& arguments) {
  const synth::JobPlan plan = plan_of(arguments);
  check_directory(arguments.directory, arguments.force);
  if (arguments.twin.empty()) return write_job(plan, arguments.directory, arguments);
  const synth::JobPlan twin = twin_of(plan, arguments);
  std::filesystem::path beside = std::filesystem::path(arguments.directory) / "";  // "job/" and "job" are the same
  beside = beside.parent_path();
  beside += "-twin";
  check_directory(beside, arguments.force);
  write_job(plan, arguments.directory, arguments);
  write_job(twin, beside, arguments);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app{
      "Writes Nsight Systems SQLite exports of a simulated multi-GPU training job with planted faults, and beside "
      "them\n"
      "truth.json: when every rank entered and left every collective, how each clock ran, which faults there are.\n"};
  app.set_version_flag("--version", NSYS_EXPLAIN_VERSION);
  app.get_formatter()->column_width(34);
  add_output_options(app, arguments);
  add_job_options(app, arguments);
  app.add_option("--fault", arguments.faults, "Plant a fault (see below); may be repeated")
      ->type_name("KIND:key=value,...")
      ->allow_extra_args(false)
      ->group("Faults");
  app.add_option("--twin", arguments.twin,
                 "Write the same job without this fault, named by the text of its --fault, or without all, into "
                 "DIR-twin as well")
      ->type_name("FAULT|all")
      ->group("Faults");
  add_machine_options(app, arguments);
  add_capture_options(app, arguments);
  add_export_options(app, arguments);
  app.footer("Faults:\n" + synth::fault_help() +
             "\nExamples:\n"
             "  nsys-explain-synth --out job --fault slow_gpu:rank=5,factor=1.3\n"
             "  nsys-explain-synth --out job --nodes 4 --tp 4 --pp 2 --files per_node --rank-hint slurm\n"
             "  nsys-explain-synth --out job --payload none --fault late_host:rank=2,pause=2ms,kind=gc,period=5\n"
             "\nExit status: 0 written, 2 wrong usage or a plan that makes no sense, 5 a file could not be written.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    run(arguments);
  } catch (const synth::PlanError& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "nsys-explain-synth: {}\n", error.what());
    return 5;
  }
  return 0;
}
