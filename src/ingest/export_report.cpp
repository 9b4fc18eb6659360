#include "ingest/export_report.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ingest/kineto/export_kineto.hpp"
#include "model/text.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {

namespace {

/// Children of this process that run.
struct Children {
  std::mutex mutex;
  std::set<pid_t> running;
};
Children& children() {
  static auto* const all = new Children;  // outlives whatever ends last
  return *all;
}

/// Returns its wait status. Until it is no more in the set, nobody else has its number.
int wait_for(pid_t child) {
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category());
  const std::scoped_lock lock(children().mutex);
  children().running.erase(child);
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

/// Runs a program found on PATH without a shell; its output goes to `log`. Returns its wait status.
int run_program(std::vector<std::string> arguments, const std::string& log) {
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  keep_descriptors_from_children();
  pid_t child = 0;
  int error = 0;
  {
    const std::scoped_lock lock(children().mutex);
    error = ::posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
    if (error == 0) children().running.insert(child);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw std::system_error(error, std::generic_category());
  return wait_for(child);
}

std::string last_line(const std::string& log) {
  std::ifstream file(log);
  std::string line, last;
  while (std::getline(file, line))
    if (!line.empty()) last = line;
  return last.substr(0, 200);
}

}  // namespace

bool is_report_name(std::string_view path) {
  return path.ends_with(".nsys-rep") || path.ends_with(".qdrep");
}

void end_exports() {
  const std::unique_lock lock(children().mutex, std::try_to_lock);  // another thread may hang in starting one
  if (!lock.owns_lock()) return;
  for (const pid_t child : children().running) ::kill(child, SIGKILL);
}

std::string export_report(const std::string& report, const std::string& directory, const std::string& nsys) {
  std::string exported = directory + "/export.sqlite";
  const std::string log = directory + "/nsys.log";
  int status = 0;
  try {
    status = run_program({nsys, "export", "--type", "sqlite", "--include-blobs=true", "--include-json=true", "--output",
                          exported, std::filesystem::absolute(report).string()},
                         log);
  } catch (const std::system_error& error) {
    throw TraceError(
        fmt::format("is a report, and {}, which alone can read it, did not start ({}), so its ranks are missing; {}",
                    shell_quoted(nsys), error.code().message(), export_advice(report)));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || !std::filesystem::exists(exported)) {
    throw TraceError(fmt::format("is a report that nsys could not export (it said: {}), so its ranks are missing; {}",
                                 shell_quoted(last_line(log)), export_advice(report)));
  }
  return exported;
}

bool needs_export(std::string_view path) {
  return is_report_name(path) || is_kineto_name(path);
}

ExportedInput export_input(const std::string& input, const std::string& directory, const std::string& nsys) {
  if (is_report_name(input)) return {export_report(input, directory, nsys), {}};
  ExportedInput result{directory + "/export.sqlite", {}};
  result.warnings = export_kineto(input, result.path);
  return result;
}

namespace {

bool nsys_is_on_path() {
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody changes the environment
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t end = rest.find(':');
    const std::string program = std::string(rest.substr(0, end)) + "/nsys";
    struct stat status {};
    if (::stat(program.c_str(), &status) == 0 && S_ISREG(status.st_mode) && ::access(program.c_str(), X_OK) == 0)
      return true;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return false;
}

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

}  // namespace

std::string export_advice(const std::string& path) {
  std::string report = path;
  std::string overwrite;
  std::string_view instead = ", or add --export";
  constexpr std::string_view sqlite = ".sqlite";
  if (report.ends_with(sqlite)) {
    const std::string stem = report.substr(0, report.size() - sqlite.size());
    report = stem + (!exists(stem + ".nsys-rep") && exists(stem + ".qdrep") ? ".qdrep" : ".nsys-rep");
    overwrite = "--force-overwrite=true ";  // without it nsys keeps the export that is there
    instead = "";                           // an export that exists is what the tool reads
  }
  if (report.starts_with('-')) report.insert(0, "./");
  return fmt::format(
      "run `nsys export --type sqlite --include-blobs=true --include-json=true {}{}`{}", overwrite,
      shell_quoted(report),
      nsys_is_on_path()
          ? instead
          : " where Nsight Systems is installed (nsys is not on the PATH here; --nsys-command PROGRAM takes another one)");
}

void keep_descriptors_from_children() {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const int descriptor = std::atoi(entry.path().filename().c_str());
    if (descriptor <= STDERR_FILENO) continue;
    const int flags = ::fcntl(descriptor, F_GETFD);
    if (flags >= 0) ::fcntl(descriptor, F_SETFD, flags | FD_CLOEXEC);
  }
}

}  // namespace nsys_explain::ingest
