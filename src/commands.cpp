#include "commands.hpp"

#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>
#include <CLI/CLI.hpp>

#include "help.hpp"
#include "pipeline/commands/compare.hpp"
#include "pipeline/commands/show.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "serve/serve.hpp"

namespace nsys_explain {
namespace {

/// 0 to go on, or the code to end with; help and errors have been printed.
std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? pipeline::all_analysed : pipeline::wrong_usage;
  }
}

/// The store of a report, be it named by its directory.
std::string store_of(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? (std::filesystem::path(path) / "store.h5").string() : path;
}

int show(int argc, char** argv) {
  CLI::App app("Looks into a store.h5: tables in the terminal, as JSON or as CSV", "nsys-explain-mpi show");
  app.footer(R"(
EXAMPLES
  nsys-explain-mpi show report                    which tables there are
  nsys-explain-mpi show report findings
  nsys-explain-mpi show report ranks --limit 0
  nsys-explain-mpi show report rank 37            about one trace rank; `rank 37 kernels`: of one table
  nsys-explain-mpi show report collectives        the costliest first
  nsys-explain-mpi show report instance 1234 --json)");
  pipeline::ShowRequest request;
  bool json = false, csv = false;
  app.add_option("store", request.store_path, "The directory of a report, or its store.h5")->required();
  app.add_option("subject", request.subject,
                 "ranks, collectives, findings, any table; rank N, rank N TABLE; instance N")
      ->expected(0, 3);
  app.add_option("--limit", request.limit, "Most rows per table; 0: all")->capture_default_str();
  auto* as_json = app.add_flag("--json", json, "Print JSON");
  app.add_flag("--csv", csv, "Print CSV")->excludes(as_json);
  const std::map<std::string, report::TimeUnit> units{{"nsec", report::TimeUnit::nsec},
                                                      {"usec", report::TimeUnit::usec},
                                                      {"msec", report::TimeUnit::msec},
                                                      {"sec", report::TimeUnit::sec}};
  app.add_option("--timeunit", request.time_unit, "Print all times in this unit, and name columns by it")
      ->transform(CLI::CheckedTransformer(units, CLI::ignore_case).description("nsec|usec|msec|sec"));
  if (const auto code = parse(app, argc, argv)) return *code;
  request.store_path = store_of(request.store_path);
  request.format = json ? pipeline::ShowFormat::json : csv ? pipeline::ShowFormat::csv : pipeline::ShowFormat::text;
  request.colour = ::isatty(STDOUT_FILENO) == 1;
  return pipeline::run_in_own_process({"nsys-explain-mpi show",
                                       {request.store_path},
                                       "",
                                       [&](std::ostream& out) { return pipeline::show(request, out, std::cerr); }},
                                      std::cerr);
}

int compare(int argc, char** argv) {
  CLI::App app("Compares runs by their stores: what changed from the earlier ones to the last, beyond the noise",
               "nsys-explain-mpi compare");
  app.footer(R"(
EXAMPLES
  nsys-explain-mpi compare before after --out comparison
  nsys-explain-mpi compare monday tuesday wednesday      (the last against those before)
  nsys-explain-mpi compare vllm sglang --side-by-side --labels vLLM,SGLang --tokens 8192,8192
                           --throughput 2411,2598 --out frameworks

EXIT CODES
  0   no regression beyond the noise      2, 3, 5  as of nsys-explain-mpi itself
  10  the last run is slower beyond the noise and the tolerance
  11  with --require-judgement: nothing tells whether it is)");
  pipeline::CompareRequest request;
  app.add_option("stores", request.store_paths, "Directory of each report, or its store.h5, oldest first")
      ->required()
      ->expected(2, -1);
  app.add_option("-o,--out", request.output_directory, "Directory for compare.md, compare.json and compare.html");
  app.add_flag("-f,--force", request.overwrite, "Replace older results in a directory that is not empty");
  app.add_option("--tolerance", request.tolerance_percent, "Changes up to this many per cent are none")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("--require-judgement", request.require_judgement,
               "Exit with 11 where the comparison cannot be judged: too few steps, or none");
  app.add_flag("--side-by-side", request.side_by_side, "Runs of different programs: show them, judge nothing");
  app.add_option("--labels", request.labels, "What to call the runs: A,B,...")->delimiter(',')->allow_extra_args(false);
  auto* tokens =
      app.add_option("--tokens", request.tokens,
                     "Tokens that the job processed in its trace: one number, or one for each run (N,M,...)");
  tokens->delimiter(',')->allow_extra_args(false)->check(CLI::PositiveNumber);
  app.add_option("--throughput", request.tokens_per_second,
                 "Tokens per second measured without the profiler: one number, or one for each run")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::PositiveNumber)
      ->needs(tokens);
  if (const auto code = parse(app, argc, argv)) return *code;
  for (std::string& path : request.store_paths) path = store_of(path);
  return pipeline::run_in_own_process({"nsys-explain-mpi compare", request.store_paths, request.output_directory,
                                       [&](std::ostream& out) { return pipeline::compare(request, out, std::cerr); }},
                                      std::cerr);
}

int serve_reports(int argc, char** argv) {
  CLI::App app("Serves the reports below a directory: pages for people, answers for programs",
               "nsys-explain-mpi serve");
  app.footer(R"(
EXAMPLES
  nsys-explain-mpi serve reports                                     at http://127.0.0.1:8750/
  nsys-explain-mpi serve reports --listen 0.0.0.0:8750 --token-file token
  nsys-explain-mpi serve reports --read-only
  nsys-explain-mpi serve reports --mcp                               for an assistant that starts it

Other addresses than those of this host alone need a token: (umask 077; openssl rand -hex 32 > token). Addresses,
answers and the tools of --mcp: docs/service.md.

EXIT CODES
  0  ended by SIGTERM or SIGINT      2  wrong usage      5  could not go on)");
  serve::ServeRequest request;
  serve::ServiceOptions& options = request.options;
  app.add_option("directory", options.root, "Directory that holds the directories of reports")->required();
  app.add_option("--listen", options.listen, "ADDRESS:PORT; port 0: any that is free")->capture_default_str();
  app.add_option("--token-file", options.token_file, "File with the token that every request must carry");
  app.add_flag("--read-only", options.read_only, "Start no analysis");
  app.add_option("--exports", options.export_roots, "Directories of exports that analyses may read by path");
  app.add_option("--upload-limit", options.upload_bytes, "Most bytes of one upload, e.g. 20G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--queue", options.queue, "Most analyses that wait")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--analysis-timeout", options.analysis_seconds, "Most seconds of one analysis")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--analysis-memory", options.analysis_bytes, "Memory of one analysis, as --memory-limit, e.g. 8G")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_flag("--mcp", request.speaks_mcp,
               "Speak the Model Context Protocol on standard input and output; listen nowhere");
  app.add_flag("--reader", request.is_reader)->group("");  // how the service starts its reader processes
  if (const auto code = parse(app, argc, argv)) return *code;
  return serve::serve(request, std::cin, std::cout, std::cerr);
}

int difference(int argc, char** argv) {
  CLI::App app("Lays a table of one report beside the same table of another, row by row", "nsys-explain-mpi diff");
  app.footer(R"(
EXAMPLES
  nsys-explain-mpi diff before after kernels
  nsys-explain-mpi diff before after kernels --by name --columns total_ns,count
  nsys-explain-mpi diff before after kernels --rename '_sm[0-9]+=_sm' --rename '<.*>=' --csv)");
  pipeline::DiffRequest request;
  bool json = false, csv = false;
  app.add_option("before", request.before_path, "The directory of a report, or its store.h5")->required();
  app.add_option("after", request.after_path, "Likewise, of the later run")->required();
  app.add_option("table", request.table, "Any table of both (`nsys-explain-mpi show report` lists them)")->required();
  app.add_option("--by", request.by, "Columns that tell rows apart (default: trace_rank and all columns of text)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--columns", request.columns, "Columns to compare (default: all others that are numbers)")
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--rename", request.renames,
                 "PATTERN=REPLACEMENT, done to names before they are compared; \\1 is the first group")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--limit", request.limit, "Most rows; 0: all")->capture_default_str();
  auto* as_json = app.add_flag("--json", json, "Print JSON");
  app.add_flag("--csv", csv, "Print CSV")->excludes(as_json);
  if (const auto code = parse(app, argc, argv)) return *code;
  request.before_path = store_of(request.before_path);
  request.after_path = store_of(request.after_path);
  request.format = json ? pipeline::ShowFormat::json : csv ? pipeline::ShowFormat::csv : pipeline::ShowFormat::text;
  request.colour = ::isatty(STDOUT_FILENO) == 1;
  return pipeline::run_in_own_process(
      {"nsys-explain-mpi diff",
       {request.before_path, request.after_path},
       "",
       [&](std::ostream& out) { return pipeline::difference(request, out, std::cerr); }},
      std::cerr);
}

}  // namespace

std::optional<int> run_command(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "show") return show(argc - 1, argv + 1);
  if (name == "compare") return compare(argc - 1, argv + 1);
  if (name == "serve") return serve_reports(argc - 1, argv + 1);
  if (name == "diff") return difference(argc - 1, argv + 1);
  std::error_code ignored;
  if (name.empty() || name[0] == '-' || name.find_first_of("/.*") != std::string_view::npos) return std::nullopt;
  if (const std::string meant = suggestion(name, {"show", "compare", "diff", "merge", "serve"});
      name != "merge" && !meant.empty() && !std::filesystem::exists(name, ignored)) {
    std::cerr << "nsys-explain-mpi: there is neither a file nor a command " << name << meant << '\n';
    return pipeline::wrong_usage;
  }
  return std::nullopt;
}

}  // namespace nsys_explain
