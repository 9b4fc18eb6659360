#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "exchange/agree.hpp"
#include "exchange/session.hpp"
#include "help.hpp"
#include "pipeline/read/inputs.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/visible_lines.hpp"
#include "pipeline/tool_rank/watch.hpp"

namespace {

constexpr const char* merge_description =
    R"(Finishes a run that was cut off, from its shards: what each of its ranks had read

While a run goes on, OUT/shards holds a record of every trace that was read; they stay where the run is killed, loses a
host or reaches its time limit. merge takes the options of that run and these records; traces that are in no shard are
read if they can be. The results are those of a run that nothing disturbed. Runs under mpirun and srun, too.)";

constexpr const char* merge_footer = R"(
EXAMPLES
  nsys-explain-mpi merge report/shards --out report
  nsys-explain-mpi merge report/shards --out report --force      (there is a partial report already)
  nsys-explain-mpi merge node*/shards --out report               (a run whose --out was on the disks of its nodes)

EXIT CODES as of nsys-explain-mpi itself)";

/// What concerns the run and its outputs, not what the traces are taken for.
void add_run_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.option_defaults()->group("Results");
  app.add_option("-o,--out", job.output_directory, "Directory for the results; created")->capture_default_str();
  app.add_option("--title", job.title, "What to call this run, in its reports");
  app.add_flag("-f,--force", job.overwrite, "Replace the results of an earlier run there; other files stay");
  app.add_flag("--csv", job.write_csv, "Write the tables as CSV, too");
  app.add_flag("--gpu-trace", job.gpu_trace,
               "Also tables gpu_trace and communication_overlap_trace: a row per GPU activity");
  app.add_option("--perfetto", job.perfetto_path,
                 "File (.json.gz) for a timeline of all trace ranks on one clock: for ui.perfetto.dev");
  app.add_option("--perfetto-window", job.perfetto_window, "Only START/END of it, in job time, e.g. 5s/7s");
  app.add_option("--perfetto-events", job.perfetto_events, "Most events in it: what does not fit is cut at the end")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_flag("-q,--quiet", job.quiet, "Print problems only");
  app.add_flag("--timing", job.show_timing, "Print what each phase of the run took");
  app.add_flag("--summary-line", job.summary_line, "Print one line of JSON instead of the summary, for job logs");
  app.add_option("--prometheus", job.prometheus_path,
                 "Write metrics to this file, for the node exporter's textfile collector (NAME.prom)");
  app.option_defaults()->group("Limits");
  app.add_option("--timeout", job.timeout_s,
                 "End after so many seconds, with a partial report on what was read by then (up to 30 s more)")
      ->check(CLI::PositiveNumber);
  app.add_option("--threads", job.threads, "Threads of each tool rank (default: the cores that it may use)")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory-limit", job.memory_limit_bytes,
                 "Memory of each tool rank, e.g. 4G: events that do not fit lie in files under TMPDIR (default: none)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
}

void add_merge_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.add_option("shards", job.shard_directories, "Directories `shards` that the run left, on all its disks")
      ->required();
  add_run_options(app, job);
  app.add_flag("--only-shards", job.only_shards, "Open no trace: what is in no shard is missing");
}

void add_window_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.option_defaults()->group("A part of the run");
  app.add_option("--filter-time", job.filter_time,
                 "Only START/END since the job epoch, e.g. 5s/7s or 1s500ms/ (as nsys: h m s ms us ns)");
  app.add_option("--filter-nvtx", job.filter_nvtx, "Only within NVTX range RANGE[@DOMAIN][/INDEX] of each process");
  app.add_option("--steps", job.steps, "Only steps FIRST:LAST, both included, by their NVTX ranges");
  app.add_flag("--skip-warmup{1}", job.warmup_steps, "Leave out the first step (--skip-warmup=N: N) and all before")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--whole-run", job.whole_run,
               "All that was recorded, start-up and slow first steps included (default: the steady steps)");
}

void add_evidence_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.option_defaults()->group("Other evidence");
  app.add_option("--elapsed-unprofiled", job.elapsed_unprofiled,
                 "Run time in seconds without the profiler: what is not GPU time of it counts as CPU time")
      ->check(CLI::PositiveNumber);
  app.add_option("--ncu", job.ncu_path, "CSV of Nsight Compute: FLOPs, bytes and unit use of kernels");
  app.add_option("--cublas-log", job.cublas_log_path, "Log of cuBLAS or cuBLASLt: shapes of matrix multiplications");
  app.add_option("--weights", job.weights_path, "File with lines 'BYTES PATTERN': weights that kernels read");
  app.add_option("--gpu-peaks", job.gpu_peaks_path, "File with peaks of GPUs, before the built-in ones");
  app.add_option("--link-peaks", job.link_peaks_path,
                 "File with lines 'GBS GPU-NAME': NVLink peak per direction, for estimates in GB/s");
  app.add_option("--inspector", job.inspector_directory,
                 "Directory with logs of NCCL Inspector: exact keys of collectives (verbose logs tell most)");
  app.add_option("--nvml", job.nvml_path, "CSV of nvidia-smi, NVML or DCGM: clocks, power, temperature over time");
  app.add_option("--nvml-utc-offset", job.nvml_utc_offset_hours,
                 "Hours that calendar times in it are ahead of UTC (nvidia-smi writes local time)");
  app.add_option(
      "--requests", job.requests_path,
      "CSV with a line per request, a result of vLLM's or SGLang's benchmark, or a Triton server's /metrics");
  app.add_option("--trt-profile", job.trt_profile_path, "JSON of trtexec --exportProfile: layers of a TensorRT engine");
  app.add_option("--memory-snapshot", job.memory_snapshot_path,
                 "JSON of torch.cuda.memory._snapshot(): memory over time, and who held the peak");
  app.add_option("--nccl-log", job.nccl_log_paths,
                 "Log of NCCL_DEBUG=INFO: transports, channels, algorithms; may be repeated")
      ->allow_extra_args(false);
}

void add_category_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.option_defaults()->group("Phases and categories");
  app.add_option("--communication-kernels", job.communication_kernels,
                 "PATTERN: kernels of such names communicate, besides those known; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--phase-map", job.phase_map_path, "File that says which NVTX ranges are which phase");
  app.add_option(
      "--categories", job.categories,
      "Map from kernels to categories: llm (default), vllm/llama, vllm/ds, vllm/gpt-oss, or one of the file");
  app.add_option("--category-map", job.category_map_path, "JSON file with such maps, as gputrc2graph reads them");
  app.add_option("--categories-of", job.categories_of,
                 "PATTERN=MAP[,SECONDS]: inputs whose path matches have another map, and run time without the profiler")
      ->take_all()
      ->allow_extra_args(false);
}

void add_export_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job) {
  app.add_flag("--export", job.export_reports, "Let the nsys on PATH export reports that have no export beside them");
  app.add_option_function<std::string>(
      "--nsys-command",
      [&job](const std::string& program) {
        job.nsys_command = program;
        job.export_reports = true;
      },
      "PROGRAM: likewise, with this nsys (a path, or a name on PATH)");
}

/// What only prints something, and needs no traces. Returns an exit code; empty: nothing of that was asked for.
using Print = std::function<int(std::ostream& out, std::ostream& problems)>;

void add_options(CLI::App& app, nsys_explain::pipeline::JobSpecification& job, Print& print) {
  app.add_option("traces", job.inputs, "Exports (.sqlite), directories of them, or quoted patterns")->required();
  add_run_options(app, job);
  app.option_defaults()->group("Reading");
  add_export_options(app, job);
  const std::map<std::string, nsys_explain::ingest::Reader> readers{{"auto", nsys_explain::ingest::Reader::automatic},
                                                                    {"pages", nsys_explain::ingest::Reader::pages},
                                                                    {"sqlite", nsys_explain::ingest::Reader::sqlite}};
  app.add_option("--reader", job.reader,
                 "How rows are read: from the pages of the file, through SQLite (slower), or whatever can (default)")
      ->transform(CLI::CheckedTransformer(readers, CLI::ignore_case).description("auto|pages|sqlite"));
  app.add_option("--cache", job.cache_directory,
                 "Directory that keeps what was read of each trace: an unchanged trace is not read again");
  app.option_defaults()->group("Ranks and hosts");
  app.add_option("--job-of", job.job_of,
                 "FILE or FILE:PID: of several jobs in the traces, the one it belongs to (default: the largest)");
  app.add_option("--rank-map", job.rank_map_path, "File that says which trace is which rank");
  app.add_option("--rank-regex", job.rank_regex, "Regular expression on the path; its first group is the rank");
  app.add_option("--topology", job.topology_path, "File that says which host is in which rack");
  app.add_option("--require-ranks", job.require_ranks,
                 "Exit with 4 where fewer trace ranks are seen; before reading where traces are missing")
      ->check(CLI::PositiveNumber);
  add_window_options(app, job);
  add_category_options(app, job);
  add_evidence_options(app, job);
  const std::map<std::string, nsys_explain::ClockMethod> methods{
      {"utc", nsys_explain::ClockMethod::utc},
      {"host", nsys_explain::ClockMethod::host_clock},
      {"collectives", nsys_explain::ClockMethod::collectives}};
  app.option_defaults()->group("Clock");
  app.add_option("--clock", job.clock_method, "What may relate the clocks of different traces (default: whatever does)")
      ->transform(CLI::CheckedTransformer(methods, CLI::ignore_case).description("utc|host|collectives"));
  app.add_option("--ptp-uncertainty-ns", job.ptp_uncertainty_ns,
                 "One standard uncertainty of UTC between the nodes, where PTP keeps it")
      ->check(CLI::NonNegativeNumber);
  app.option_defaults()->group("Options");
  app.add_flag_callback(
      "--print-schema",
      [&print] {
        print = [](std::ostream& out, std::ostream&) {
          nsys_explain::pipeline::print_schema(out);
          return 0;
        };
        throw CLI::Success();
      },
      "Print every table and column that a run writes, with unit and meaning");
  app.add_option_function<std::string>(
      "--print-input-schema",
      [&print](const std::string& path) {
        print = [path](std::ostream& out, std::ostream& problems) {
          return nsys_explain::pipeline::print_input_schema(path, out, problems);
        };
        throw CLI::Success();
      },
      "Print the tables and columns of an export, how many rows they have, and which are read");
  app.set_config("--job", "", "Read options from a file (TOML or INI)");
}

/// What parsing the command line has come to on this tool rank.
struct Parsed {
  std::optional<int> code;             ///< to end with, after `output` and `problems`; empty: go on
  std::string outcome = "no problem";  ///< in a few words
  std::string output, problems;
};

Parsed parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, problems;
    const bool fails = app.exit(error, output, problems) != 0;
    const std::vector<std::string> unknown = app.remaining();
    if (fails && !unknown.empty()) {
      std::vector<std::string> known;
      for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
      }
      const std::string word = unknown.front().substr(0, unknown.front().find('='));
      problems.str(fmt::format("there is no option {}{}\nRun with --help for all of them.\n", word,
                               nsys_explain::suggestion(word, known)));
    }
    return {fails ? nsys_explain::pipeline::wrong_usage : 0, fails ? error.what() : "it is only to print something",
            output.str(), problems.str()};
  }
}

/// What MPI does with all tool ranks before and after the run: where one of them stands still, the others wait for it
/// no longer than --timeout, and end with `code`.
template <class Work>
void in_time(const nsys_explain::pipeline::JobSpecification& job, const char* phase, int code, const Work& work) {
  using nsys_explain::pipeline::Watch;
  if (!job.timeout_s || !nsys_explain::exchange::launched_by_mpi()) return work();
  Watch watch({job.timeout_s, "a tool rank on " + nsys_explain::pipeline::host_name(), true, [code] { return code; }});
  watch.doing(phase, false);
  work();
}

/// --help TOPIC.
Parsed tell_topic(const CLI::App& app, const std::string& name) {
  const auto text = nsys_explain::help_topic(name);
  if (!text) {
    return {nsys_explain::pipeline::wrong_usage, "no such topic", "",
            fmt::format("there is no topic {}{}; --help lists them\n", name,
                        nsys_explain::suggestion(name, nsys_explain::help_topics()))};
  }
  return {0, "it is only to print something", (name == "all" ? app.help() + '\n' : "") + *text, ""};
}

/// Collective: why the tool ranks do not run together: they were not told the same. Inputs count as they were given: a
/// pattern stands for other files on every node.
std::optional<std::string> disagreement(const nsys_explain::exchange::Communicator& world, const CLI::App& app,
                                        const Parsed& parsed) {
  std::vector<std::string> names{"what they are to do", "their command line"};
  std::vector<std::string> told{app.get_name(), parsed.outcome};
  for (const CLI::Option* option : app.get_options()) {
    names.push_back(option->get_name());
    told.push_back(fmt::format("{}", fmt::join(option->results(), " ")));
  }
  const auto difference = nsys_explain::exchange::find_difference(world, told);
  if (!difference) return std::nullopt;
  const auto quoted = [](const std::string& text) { return text.empty() ? "nothing" : '\'' + text + '\''; };
  return fmt::format(
      "tool rank {} differs from tool rank 0 in {}: {} instead of {} ({} of {} tool ranks differ), so they would mix two runs or wait for each other for ever; give all the same options and inputs, and a --job file that every node has (traces on the nodes' own disks by a quoted pattern, which every node expands by itself)",
      difference->rank, names[difference->text], quoted(difference->own), quoted(difference->of_root),
      difference->differing_ranks, world.size());
}

/// What the tool ranks do once they are all there. Returns the exit code.
int work_together(const nsys_explain::exchange::Session& session, const Parsed& parsed,
                  const std::optional<std::string>& problem, const nsys_explain::pipeline::JobSpecification& job,
                  const Print& print) {
  const nsys_explain::exchange::Communicator world = session.world();
  if (problem) {
    if (world.is_root()) std::cerr << "nsys-explain-mpi: " << *problem << '\n';
    return nsys_explain::pipeline::wrong_usage;
  }
  if (parsed.code) {
    if (!world.is_root()) return *parsed.code;
    std::cout << parsed.output;
    std::cerr << parsed.problems;
    return print ? print(std::cout, std::cerr) : *parsed.code;
  }
  if (const auto warning = session.launch_warning()) std::cerr << "nsys-explain-mpi: " << *warning << '\n';
  return nsys_explain::pipeline::run(job, world, std::cout, std::cerr);
}

}  // namespace

int main(int argc, char** argv) {
  // Messages hold names of files and hosts, in which anything may be.
  const nsys_explain::pipeline::VisibleLines visible(std::cerr);
  if (const auto code = nsys_explain::run_command(argc, argv)) return *code;
  const bool merges = argc > 1 && std::string_view(argv[1]) == "merge";
  nsys_explain::pipeline::JobSpecification job;
  CLI::App app(merges ? merge_description : nsys_explain::description,
               merges ? "nsys-explain-mpi merge" : "nsys-explain-mpi");
  Print print;
  if (merges) {
    app.footer(merge_footer);
    add_merge_options(app, job);
  } else {
    app.footer(nsys_explain::help_footer());
    app.set_version_flag("--version", "nsys-explain-mpi " NSYS_EXPLAIN_VERSION);
    add_options(app, job, print);
  }

  const bool asks_for_topic = !merges && argc == 3 && std::string_view(argv[1]) == "--help";
  const Parsed parsed =
      asks_for_topic ? tell_topic(app, argv[2]) : parse(app, merges ? argc - 1 : argc, merges ? argv + 1 : argv);
  std::optional<nsys_explain::exchange::Session> session;
  std::optional<std::string> problem;
  in_time(job, "starting MPI", nsys_explain::pipeline::results_not_written, [&] {
    session.emplace(argc, argv);
    problem = disagreement(session->world(), app, parsed);
  });
  const int code = work_together(*session, parsed, problem, job, print);
  in_time(job, "ending MPI", code, [&] { session.reset(); });
  return code;
}
