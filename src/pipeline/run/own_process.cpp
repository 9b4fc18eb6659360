#include "pipeline/run/own_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/run/job.hpp"

namespace nsys_explain::pipeline {
namespace {

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
         signal == SIGXCPU;
}

/// Far above what it takes: `compare` reads some 100 MB/s.
constexpr std::int64_t fewest_seconds = 60, bytes_per_second = 1'000'000;

[[noreturn]] void be_child(const CrashableWork& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // what ends the parent ends the child
  const auto seconds = static_cast<rlim_t>(fewest_seconds + work.bytes / bytes_per_second);
  rlimit limit{};
  if (::getrlimit(RLIMIT_CPU, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > seconds)) {
    limit.rlim_cur = seconds;
    ::setrlimit(RLIMIT_CPU, &limit);
  }
  const int code = work.run();
  std::cout.flush();
  std::cerr.flush();
  ::_exit(code);
}

}  // namespace

int run_in_own_process(const CrashableWork& work, std::ostream& problems) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) be_child(work);
  if (child < 0) return work.run();  // no more processes to be had
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return results_not_written;
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const int signal = WTERMSIG(status);
  if (!is_crash(signal)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // as if it had been this one: a closed pipe, a user who interrupts
  }
  problems << fmt::format(
      "{}: a store is damaged so badly that the HDF5 library {} over it, so no number of it can be trusted; run the "
      "analysis again\n",
      work.command, signal == SIGXCPU ? "does not end" : fmt::format("crashed (signal {})", signal));
  return nothing_analysed;
}

}  // namespace nsys_explain::pipeline
