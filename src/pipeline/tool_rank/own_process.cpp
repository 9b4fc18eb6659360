#include "pipeline/tool_rank/own_process.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <variant>

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pipeline/tool_rank/enclosure.hpp"
#include "pipeline/tool_rank/job.hpp"

namespace nsys_explain::pipeline {
namespace {

namespace fs = std::filesystem;

bool is_endless(int signal) {
  return signal == SIGXCPU || signal == SIGALRM;
}

bool is_crash(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGABRT || signal == SIGFPE || signal == SIGILL ||
         is_endless(signal);
}

/// Far above what it takes: `compare` reads some 100 MB/s, a disk that others use a tenth of that.
constexpr std::int64_t fewest_seconds = 60, bytes_per_second = 1'000'000, wall_seconds_per_second = 10;
/// Likewise: a store of 4 MB, of 32 trace ranks, is shown or compared in 30 MB.
constexpr std::int64_t fewest_bytes = 1'000'000'000, bytes_per_byte = 50;

#ifdef __SANITIZE_ADDRESS__
constexpr bool takes_more_memory = true;
#else
constexpr bool takes_more_memory = false;
#endif

void lower(__rlimit_resource resource, std::int64_t most) {
  rlimit limit{};
  const auto wanted = static_cast<rlim_t>(most);
  if (::getrlimit(resource, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= wanted)) return;
  limit.rlim_cur = wanted;
  ::setrlimit(resource, &limit);
}

/// The directory that is there and in which the output, or what it lies in, is made.
std::string place_of(const std::string& output_directory) {
  std::error_code ignored;
  fs::path place = fs::absolute(output_directory, ignored).lexically_normal();
  if (place.filename().empty()) place = place.parent_path();
  do {
    place = place.parent_path();
  } while (place.has_relative_path() && !fs::is_directory(place, ignored));
  return place.string();
}

std::int64_t bytes_of(const std::vector<std::string>& paths) {
  std::int64_t bytes = 0;
  for (const std::string& path : paths) {
    std::error_code error;
    const auto size = fs::file_size(path, error);
    if (!error) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

void enclose(const CrashableWork& work) {
  std::vector<std::string> writable;
  if (!work.output_directory.empty()) writable = {work.output_directory, place_of(work.output_directory)};
  Enclosure(work.stores, writable).enter();
}

[[noreturn]] void be_child(const CrashableWork& work) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // what ends the parent ends the child
  const std::int64_t bytes = bytes_of(work.stores), seconds = fewest_seconds + bytes / bytes_per_second;
  lower(RLIMIT_CPU, seconds);
  if (!takes_more_memory) lower(RLIMIT_DATA, fewest_bytes + bytes_per_byte * bytes);
  ::alarm(static_cast<unsigned>(wall_seconds_per_second * seconds));
  enclose(work);
  std::ostringstream said;
  const int code = work.run(said);
  ::alarm(0);  // a reader of what it says may take its time
  std::cout << said.view() << std::flush;
  std::cerr.flush();
  ::_exit(code);
}

}  // namespace

int run_in_own_process(const CrashableWork& work, std::ostream& problems) {
  std::cout.flush();
  const pid_t child = ::fork();
  if (child == 0) be_child(work);
  if (child < 0) return work.run(std::cout);  // no more processes to be had
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
      "{}: a store is damaged so badly that the HDF5 library {} over it, so no number of it can be trusted; run the analysis again\n",
      work.command, is_endless(signal) ? "does not end" : fmt::format("crashed (signal {})", signal));
  return nothing_analysed;
}

std::string sentence_of(const std::exception& error) {
  const bool is_of_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
                            dynamic_cast<const std::length_error*>(&error) != nullptr;
  if (dynamic_cast<const std::bad_variant_access*>(&error) != nullptr) {
    return "a store holds texts where numbers belong, or the other way round, so no number of it can be trusted; run the analysis again";
  }
  if (!is_of_memory) return error.what();
  return "this takes more memory than there is, or than anything of its size should need, so it was given up; ask for less of it, or run the analysis again where a store may be damaged";
}

}  // namespace nsys_explain::pipeline
