#include "nsys_explain/pipeline/compare.hpp"

#include <ostream>
#include <stdexcept>

#include "nsys_explain/analysis/comparison.hpp"
#include "nsys_explain/pipeline/job.hpp"
#include "nsys_explain/report/comparison_report.hpp"
#include "nsys_explain/store/store_reader.hpp"
#include "outputs.hpp"

namespace nsys_explain::pipeline {
namespace {

/// What a comparison looks at: tables with a row per thing, not per event.
analysis::RunTables read_run(const std::string& path) {
  const store::StoreReader store(path);
  analysis::RunTables run{path, {}};
  for (const char* name : {"ranks", "steps", "operations", "kernels", "categories", "phases"}) {
    if (store.has_table(name)) run.tables.push_back(store.read(name));
  }
  return run;
}

void write_reports(const CompareRequest& request, const Comparison& comparison) {
  OutputDirectory directory(request.output_directory);
  directory.write_text("compare.json", report::comparison_to_json(comparison));
  directory.write_text("compare.md", report::comparison_to_markdown(comparison));
  directory.write_text("compare.html", report::comparison_to_html(comparison));
  directory.publish();
}

}  // namespace

int compare(const CompareRequest& request, std::ostream& out, std::ostream& problems) {
  int failure_code = wrong_usage;
  try {
    if (!request.output_directory.empty()) check_output_directory(request.output_directory, request.overwrite);
    failure_code = nothing_analysed;
    std::vector<analysis::RunTables> bases;
    for (std::size_t i = 0; i + 1 < request.store_paths.size(); ++i) bases.push_back(read_run(request.store_paths[i]));
    const Comparison comparison =
        analysis::compare_runs(bases, read_run(request.store_paths.back()), {request.tolerance_percent / 100});
    failure_code = results_not_written;
    if (!request.output_directory.empty()) write_reports(request, comparison);
    out << report::comparison_summary(comparison);
    return comparison.verdict == ComparisonVerdict::worse ? regression_found : static_cast<int>(all_analysed);
  } catch (const std::exception& error) {
    problems << "nsys-explain-mpi compare: " << error.what() << '\n';
    return failure_code;
  }
}

}  // namespace nsys_explain::pipeline
