#include "pipeline/commands/compare.hpp"

#include <limits>
#include <ostream>
#include <stdexcept>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "analysis/compare/comparison.hpp"
#include "pipeline/tool_rank/job.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/own_process.hpp"
#include "pipeline/write/outputs.hpp"
#include "report/report.hpp"
#include "store/store_reader.hpp"

namespace nsys_explain::pipeline {

namespace {

/// What a comparison looks at; what a store lacks is left out.
analysis::RunTables read_run(const std::string& path, const std::string& name) {
  const store::StoreReader store(path);
  analysis::RunTables run{name, {}, {}};
  for (const char* table : {"ranks", "steps", "collective_instances", "kernels", "categories", "phases", "findings",
                            "rank_places", "serving", "step_budget", "run_facts", "kernel_counters"}) {
    if (store.has_table(table)) run.tables.push_back(store.read(table));
  }
  if (store.has_table("steps")) run.step_source = store.attribute("/steps", "source").value_or("");
  return run;
}

/// One value per run from one for all, or one each. Throws std::invalid_argument.
template <class Value>
std::vector<Value> of_every_run(const std::vector<Value>& given, std::size_t runs, std::string_view option) {
  if (given.empty() || given.size() == runs) return given;
  if (given.size() == 1) return std::vector<Value>(runs, given.front());
  throw std::invalid_argument(fmt::format(
      "{} has {} values for {} runs, so nobody can tell whose they are; give one for all runs, or one for each, with commas between them",
      option, given.size(), runs));
}

/// What users call the runs. Throws std::invalid_argument.
std::vector<std::string> run_names(const CompareRequest& request) {
  if (request.labels.empty()) return request.store_paths;
  if (request.labels.size() == request.store_paths.size()) return request.labels;
  throw std::invalid_argument(fmt::format("--labels names {} runs, but {} are compared; name each of them",
                                          request.labels.size(), request.store_paths.size()));
}

void write_reports(const CompareRequest& request, const Comparison& comparison) {
  OutputDirectory directory(request.output_directory);
  const auto [json, markdown, page] = comparison_names;
  directory.write_text(json, report::comparison_to_json(comparison));
  directory.write_text(markdown, report::comparison_to_markdown(comparison));
  directory.write_text(page, report::comparison_to_html(comparison));
  directory.publish();
}

}  // namespace

int compare(const CompareRequest& request, std::ostream& out, std::ostream& problems) {
  int failure_code = wrong_usage;
  try {
    if (!request.output_directory.empty()) {
      check_output_directory(request.output_directory, request.overwrite);
      failure_code = results_not_written;
      require_place_for_directory(request.output_directory);
      only_ours(comparison_in(request.output_directory));
      failure_code = wrong_usage;
    }
    const std::size_t runs = request.store_paths.size();
    const std::vector<std::string> names = run_names(request);
    const analysis::ComparisonOptions options{request.tolerance_percent / 100, request.side_by_side,
                                              of_every_run(request.tokens, runs, "--tokens"),
                                              of_every_run(request.tokens_per_second, runs, "--throughput")};
    failure_code = nothing_analysed;
    std::vector<analysis::RunTables> bases;
    for (std::size_t i = 0; i + 1 < runs; ++i) bases.push_back(read_run(request.store_paths[i], names[i]));
    const Comparison comparison =
        analysis::compare_runs(bases, read_run(request.store_paths.back(), names.back()), options);
    failure_code = results_not_written;
    if (!request.output_directory.empty()) write_reports(request, comparison);
    out << report::comparison_summary(comparison);
    if (comparison.verdict == ComparisonVerdict::worse) return regression_found;
    const bool is_open = comparison.verdict == ComparisonVerdict::unknown && request.require_judgement;
    return is_open ? not_judged : static_cast<int>(all_analysed);
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi compare: " << sentence_of(error) << '\n';
    return failure_code;
  }
}

namespace {

Rename parse_rename(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw std::invalid_argument(fmt::format(
        "--rename '{}' is not PATTERN=REPLACEMENT, so names cannot be made alike by it; write e.g. '_sm[0-9]+=_sm'",
        text));
  try {
    return Rename(text.substr(0, equals), text.substr(equals + 1));
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format(
        "--rename '{}' is no rule ({}), so names cannot be made alike by it; correct it", text, error.what()));
  }
}

Table read_table(const std::string& path, const std::string& name) {
  const store::StoreReader store(path);
  if (!store.has_table(name))
    throw std::invalid_argument(fmt::format("{} has no table '{}', so there is nothing to compare; its tables are: {}",
                                            path, name, fmt::join(store.table_names(), ", ")));
  return store.read(name);
}

}  // namespace

int difference(const DiffRequest& request, std::ostream& out, std::ostream& problems) {
  try {
    analysis::DifferenceRequest wanted;
    wanted.by = request.by;
    wanted.values = request.columns;
    for (const std::string& text : request.renames) wanted.renames.push_back(parse_rename(text));
    const Table all = analysis::table_difference(read_table(request.before_path, request.table),
                                                 read_table(request.after_path, request.table), wanted);
    const std::size_t limit = request.limit == 0 ? std::numeric_limits<std::size_t>::max() : request.limit;
    const Table shown = report::first_rows(all, limit);
    switch (request.format) {
      case ShowFormat::json:
        out << report::table_json(shown);
        break;
      case ShowFormat::csv:
        out << report::csv_header(shown.schema) << report::csv_rows(shown);
        break;
      case ShowFormat::text:
        out << report::table_text(shown, {request.colour, 60});
        if (all.row_count() > limit)
          out << fmt::format("... and {} more; --limit 0 shows all\n", all.row_count() - limit);
        break;
    }
    return all_analysed;
  } catch (const std::invalid_argument& error) {
    problems << "nsys-explain-mpi diff: " << error.what() << '\n';
    return wrong_usage;
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi diff: " << sentence_of(error) << '\n';
    return nothing_analysed;
  }
}

}  // namespace nsys_explain::pipeline
