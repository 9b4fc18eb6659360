#include "pipeline/read/partial_report.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ingest/export_report.hpp"
#include "pipeline/read/unfinished_run.hpp"
#include "pipeline/tool_rank/own_files.hpp"
#include "pipeline/tool_rank/watch.hpp"

namespace nsys_explain::pipeline {
namespace {

constexpr std::array<std::string_view, 6> launcher_prefixes = {"OMPI_",     "PMI",       "SLURM_",
                                                               "MPI_LOCAL", "MV2_COMM_", "NSYS_EXPLAIN_MPI="};

/// The environment without what launchers put there: the child is no part of the MPI job.
std::vector<std::string> environment_without_launcher() {
  std::vector<std::string> kept = {"NSYS_EXPLAIN_MPI=off"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    const bool of_launcher = std::any_of(launcher_prefixes.begin(), launcher_prefixes.end(),
                                         [&](std::string_view prefix) { return variable.starts_with(prefix); });
    if (!of_launcher) kept.emplace_back(variable);
  }
  return kept;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Runs this program with other arguments, in a session of its own: launchers end whole process groups. Without a voice
/// where nobody would read what it says. Returns its exit code; -1 where it did not start, did not end in time or was
/// killed.
int run_self(std::vector<std::string> arguments, bool has_voice) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return -1;
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = environment_without_launcher();
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  if (!has_voice) ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ingest::keep_descriptors_from_children();
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, program.c_str(), &files, &attributes, pointers_to(arguments).data(),
                                    pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (failure != 0) return -1;
  const auto deadline = std::chrono::steady_clock::now() + partial_report_grace + std::chrono::seconds(1);
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (ended < 0 && errno != EINTR) return -1;
    if (std::chrono::steady_clock::now() >= deadline) {
      ::kill(child, SIGKILL);  // it has a timeout itself: something is badly wrong
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

int write_partial_report(const JobSpecification& job) {
  const std::string shards = shard_directory(job.output_directory).string();
  std::error_code ignored;
  if (!job.shard_directories.empty()) return results_not_written;  // merges can be repeated
  if (!std::filesystem::is_directory(shards, ignored)) {
    say_in_passing("nsys-explain-mpi: nothing had been read, so there is no report\n");
    return results_not_written;
  }
  // First of all: some launchers give the survivors of a killed rank a second, others nothing.
  const bool is_heard =
      say_in_passing(fmt::format("nsys-explain-mpi: {}; making a partial report of it\n", how_to_finish(job)));
  std::vector<std::string> arguments{
      "merge",         shards,    "--out",     job.output_directory,
      "--only-shards", "--quiet", "--timeout", std::to_string(partial_report_grace.count())};
  if (!job.prometheus_path.empty()) arguments.insert(arguments.end(), {"--prometheus", job.prometheus_path});
  if (job.summary_line) arguments.push_back("--summary-line");
  const int code = run_self(std::move(arguments), is_heard);
  const bool succeeded = code == all_analysed || code == some_inputs_failed;
  say_in_passing(fmt::format("nsys-explain-mpi: {}\n",
                             succeeded ? job.output_directory + " holds a PARTIAL report" : "there is no report"));
  return succeeded ? some_inputs_failed : results_not_written;
}

int say_what_is_missing(const JobSpecification& job) {
  say_in_passing(
      fmt::format("nsys-explain-mpi: {} holds the report, but not all that was to follow it is written; {}\n",
                  job.output_directory, how_to_finish(job)));
  return results_not_written;
}

bool has_report(const JobSpecification& job) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(job.output_directory) / json_name, ignored);
}

int end_in_turn(const JobSpecification& job, int tool_rank, bool had_report, const std::atomic<bool>& has_results,
                std::chrono::seconds turn) {
  if (tool_rank == 0) return write_partial_report(job);
  const auto is_reported = [&] { return !had_report && has_report(job); };
  const auto own_turn = std::chrono::steady_clock::now() + turn * std::min(tool_rank, 2);
  while (!has_results && !is_reported() && std::chrono::steady_clock::now() < own_turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  if (has_results) return results_not_written;  // not all that was to follow
  if (is_reported()) return some_inputs_failed;
  return tool_rank == 1 ? write_partial_report(job) : results_not_written;
}

void add_partial_finding(JobReport& report) {
  Finding finding;
  std::int64_t missing = 0;
  constexpr std::size_t named = 8;
  for (const InputReport& input : report.inputs) {
    if (input.status != InputStatus::failed) continue;
    ++missing;
    if (finding.evidence.size() < named) finding.evidence.push_back(fmt::format("missing: {}", input.path));
  }
  if (missing > static_cast<std::int64_t>(named)) {
    finding.evidence.push_back(fmt::format("and {} more", missing - static_cast<std::int64_t>(named)));
  }
  if (missing == 0) finding.evidence.emplace_back("all inputs had been read, but none could be looked into again");
  finding.id = "partial-report";
  finding.severity = FindingSeverity::high;
  finding.title =
      missing > 0
          ? fmt::format("this report is partial: the run was cut off, and {} of {} inputs are missing", missing,
                        report.inputs.size())
          : "this report is partial: the run was cut off, and names of kernels and calls behind a verdict may be missing";
  finding.recommendation = "finish the run with `nsys-explain-mpi merge` and its shards";
  if (missing > 0) finding.recommendation += "; nothing below counts for the missing ranks";
  report.findings.insert(report.findings.begin(), std::move(finding));
}

}  // namespace nsys_explain::pipeline
