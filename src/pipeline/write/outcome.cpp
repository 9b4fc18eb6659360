#include "pipeline/write/outcome.hpp"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <future>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/whole_file.hpp"
#include "report/report.hpp"

namespace nsys_explain::pipeline {

namespace {

std::int64_t failed_inputs(const JobReport& report) {
  return std::count_if(report.inputs.begin(), report.inputs.end(),
                       [](const InputReport& input) { return input.status == InputStatus::failed; });
}

/// What is left out is told before anything else.
void print_other_jobs(const JobReport& report, std::ostream& problems) {
  constexpr std::size_t most_lines = 5;
  const std::vector<OtherJob>& others = report.other_jobs;
  for (std::size_t j = 0; j < std::min(others.size(), most_lines); ++j) {
    problems << fmt::format("the inputs hold {} jobs, and one of {} rank{} ({}) cannot be judged here: {}\n",
                            others.size() + 1, others[j].trace_ranks, others[j].trace_ranks == 1 ? "" : "s",
                            others[j].reason, others[j].command);
  }
  if (others.size() > most_lines) problems << fmt::format("and {} more jobs\n", others.size() - most_lines);
}

bool is_told_with_its_job(const JobReport& report, const std::string& path) {
  return std::any_of(report.other_jobs.begin(), report.other_jobs.end(), [&](const OtherJob& job) {
    return std::find(job.paths.begin(), job.paths.end(), path) != job.paths.end();
  });
}

/// One line for all that failed alike: hundreds of traces often do.
void print_failures(const JobReport& report, std::ostream& problems) {
  constexpr std::size_t most_lines = 5;
  std::vector<std::string> messages;  // in the order of the inputs
  std::map<std::string, std::vector<std::string>> paths;
  for (const InputReport& input : report.inputs) {
    if (input.status != InputStatus::failed || is_told_with_its_job(report, input.path)) continue;
    std::vector<std::string>& alike = paths[input.message];
    if (alike.empty()) messages.push_back(input.message);
    alike.push_back(input.path);
  }
  for (std::size_t m = 0; m < std::min(messages.size(), most_lines); ++m) {
    const std::vector<std::string>& alike = paths[messages[m]];
    problems << (alike.size() == 1 ? fmt::format("{}: {}\n", alike.front(), messages[m])
                                   : fmt::format("{} inputs, {} to {}: {}\n", alike.size(), alike.front(), alike.back(),
                                                 messages[m]));
  }
  if (messages.size() > most_lines)
    problems << fmt::format("and inputs with {} other problems\n", messages.size() - most_lines);
}

}  // namespace

bool is_report_worth_writing(const JobReport& report) {
  return failed_inputs(report) < std::ssize(report.inputs);
}

int exit_code(const JobSpecification& job, const JobReport& report) {
  const std::int64_t failed = failed_inputs(report);
  if (!is_report_worth_writing(report) || report.trace_ranks.empty()) return nothing_analysed;
  const bool ranks_missing =
      job.require_ranks && static_cast<std::int32_t>(report.trace_ranks.size()) < *job.require_ranks;
  return failed > 0 || !report.other_jobs.empty() || ranks_missing || job.only_shards ? some_inputs_failed
                                                                                      : all_analysed;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

void write_metrics(const JobSpecification& job, const JobReport& report, int code) {
  if (job.prometheus_path.empty()) return;
  JobSpecification metrics = job;
  metrics.perfetto_path.clear();  // this run has written it by now
  check_outside_files(metrics);   // others may have written there meanwhile
  WholeFile file(job.prometheus_path,
                 "whoever reads it sees an older one or none; make room there or name another file");
  file.write(report::to_prometheus(report, job.output_directory, code));
  file.publish();
}

void print_outcome(const JobSpecification& job, const JobReport& report, int code, std::ostream& out,
                   std::ostream& problems) {
  print_other_jobs(report, problems);
  print_failures(report, problems);
  const bool has_report = is_report_worth_writing(report);
  if (!has_report) problems << "nsys-explain-mpi: no input could be analysed, so there is no report\n";
  const bool is_silent = job.quiet || job.summary_line;
  if (has_report && report.trace_ranks.empty() && is_silent)
    problems << fmt::format("nsys-explain-mpi: {}\n", report.verdict.text);
  if (job.summary_line) {
    out << report::to_summary_line(report, job.output_directory, code) << '\n';
  } else if (!job.quiet && has_report) {
    out << report::to_summary(report, job.output_directory);
    if (job.show_timing) out << '\n' << report::to_phase_table(report.run);
  }
}

void tell_failure(const JobSpecification& job, const std::string& problem, int code, std::ostream& out) noexcept {
  try {
    JobReport report;
    report.run.date_utc = now_utc();
    report.run.tool_version = NSYS_EXPLAIN_VERSION;
    report.verdict.text = "No verdict: " + problem;
    report.verdict.complete = false;
    JobSpecification metrics = job;
    metrics.overwrite = false;  // nothing was checked yet: only an earlier file of metrics is replaced
    if (job.summary_line) out << report::to_summary_line(report, job.output_directory, code) << std::endl;
    write_metrics(metrics, report, code);
  } catch (const std::exception&) {
    return;
  }
}

void tell_cut_off(const JobSpecification& job, int code, std::ostream& out) {
  auto told = std::make_shared<std::promise<void>>();
  std::future<void> is_told = told->get_future();
  std::thread([told = std::move(told), code, job, &out] {
    tell_failure(job, "the run was cut off before all of its results were written", code, out);
    told->set_value();
  }).detach();
  is_told.wait_for(std::chrono::seconds(5));
}

}  // namespace nsys_explain::pipeline
