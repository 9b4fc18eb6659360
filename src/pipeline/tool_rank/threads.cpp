#include "pipeline/tool_rank/threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace nsys_explain::pipeline {

namespace {

/// None where they cannot be told.
cpu_set_t own_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  ::sched_getaffinity(0, sizeof cores, &cores);
  return cores;
}

}  // namespace

int available_threads(const exchange::Communicator& communicator) {
  const cpu_set_t own = own_cores();
  const int cores = std::max(CPU_COUNT(&own), 1);
  std::string place;
  for (int core = 0; core < CPU_SETSIZE; ++core) place += CPU_ISSET(core, &own) ? '1' : '0';
  char host[256] = {};
  if (::gethostname(host, sizeof(host) - 1) == 0) place += host;
  const std::vector<std::string> places = communicator.all_gather_text(place);
  return std::max(cores / static_cast<int>(std::count(places.begin(), places.end(), place)), 1);
}

void for_each_in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t helper_count =
      std::min(static_cast<std::size_t>(std::max(threads, 1)), std::max<std::size_t>(count, 1)) - 1;
  std::vector<std::thread> helpers;
  try {
    for (std::size_t i = 0; i < helper_count; ++i) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do all the work.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
}

void run_in_parallel(const std::vector<std::function<void()>>& tasks, int threads) {
  std::vector<std::exception_ptr> thrown(tasks.size());
  for_each_in_parallel(tasks.size(), threads, [&](std::size_t i) {
    try {
      tasks[i]();
    } catch (...) {
      thrown[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& exception : thrown) {
    if (exception) std::rethrow_exception(exception);
  }
}

HostCores::HostCores(const exchange::Communicator& communicator, std::span<const std::string> hosts, int threads)
    : cores_(own_cores()), threads_(threads) {
  const std::string& host = hosts[static_cast<std::size_t>(communicator.rank())];
  const std::vector<cpu_set_t> cores = communicator.all_gather(std::span<const cpu_set_t>(&cores_, 1)).values;
  const std::vector<int> of_all = communicator.all_gather(std::span<const int>(&threads, 1)).values;
  int of_host = 0;
  for (std::size_t r = 0; r < of_all.size(); ++r) {
    if (hosts[r] != host) continue;
    of_host += of_all[r];
    CPU_OR(&cores_, &cores_, &cores[r]);
  }
  threads_ = std::max(threads, std::min(of_host, CPU_COUNT(&cores_)));
}

void HostCores::run_in_parallel(const std::vector<std::function<void()>>& tasks, int threads) const {
  const cpu_set_t own = own_cores();
  ::sched_setaffinity(0, sizeof cores_, &cores_);  // threads begin with it; where it is refused, with their own
  try {
    pipeline::run_in_parallel(tasks, threads);
  } catch (...) {
    ::sched_setaffinity(0, sizeof own, &own);
    throw;
  }
  ::sched_setaffinity(0, sizeof own, &own);
}

}  // namespace nsys_explain::pipeline
