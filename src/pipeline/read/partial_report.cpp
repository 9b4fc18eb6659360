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
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "ingest/child_process.hpp"
#include "pipeline/read/unfinished_run.hpp"

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

/// Runs this program with other arguments, in a session of its own: launchers end whole process groups. Returns its
/// exit code; -1 where it did not start, did not end in time or was killed.
int run_self(std::vector<std::string> arguments) {
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (error) return -1;
  arguments.insert(arguments.begin(), program);
  std::vector<std::string> environment = environment_without_launcher();
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  ingest::keep_descriptors_from_children();
  pid_t child = 0;
  const int failure = ::posix_spawn(&child, program.c_str(), nullptr, &attributes, pointers_to(arguments).data(),
                                    pointers_to(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) return -1;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(partial_report_grace_s + 1);
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
    fmt::print(stderr, "nsys-explain-mpi: nothing had been read, so there is no report\n");
    return results_not_written;
  }
  // First of all: some launchers give the survivors of a killed rank a second, others nothing.
  fmt::print(
      stderr,
      "nsys-explain-mpi: what was read lies in {}: nsys-explain-mpi merge {} --out {} --force finishes it; making "
      "a partial report of it\n",
      shards, shards, job.output_directory);
  std::fflush(stderr);
  const int code = run_self({"merge", shards, "--out", job.output_directory, "--only-shards", "--quiet", "--timeout",
                             std::to_string(partial_report_grace_s)});
  const bool has_report = code == all_analysed || code == some_inputs_failed;
  fmt::print(stderr, "nsys-explain-mpi: {}\n",
             has_report ? fmt::format("{} holds a PARTIAL report", job.output_directory) : "there is no report");
  std::fflush(stderr);
  return has_report ? some_inputs_failed : results_not_written;
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
  if (missing == 0) return;
  if (missing > static_cast<std::int64_t>(named)) {
    finding.evidence.push_back(fmt::format("and {} more", missing - static_cast<std::int64_t>(named)));
  }
  finding.id = "partial-report";
  finding.severity = FindingSeverity::high;
  finding.title = fmt::format("this report is partial: the run was cut off, and {} of {} inputs are missing", missing,
                              report.inputs.size());
  finding.recommendation =
      "finish the run with `nsys-explain-mpi merge` and its shards; nothing below counts for the missing ranks";
  report.findings.insert(report.findings.begin(), std::move(finding));
}

}  // namespace nsys_explain::pipeline
