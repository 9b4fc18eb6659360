#pragma once

#include <sched.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "exchange/communicator.hpp"

namespace nsys_explain::pipeline {

/// Collective: cores that this tool rank may use by itself: those of its affinity mask, divided by the tool ranks of
/// the same host that have the same mask (launchers that bind give each its own). At least 1.
int available_threads(const exchange::Communicator& communicator);

/// Calls `work(i)` for every i below `count`, up to `threads` at a time, each i once. `work` must not throw.
void for_each_in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

/// Calls every task, up to `threads` at a time. Throws what the first task in order threw, once all have ended.
void run_in_parallel(const std::vector<std::function<void()>>& tasks, int threads);

/// The cores of all tool ranks of a host, for what one of them does while the others wait. Launchers bind each to its
/// own.
class HostCores {
 public:
  /// Collective. `hosts` are those of all tool ranks, `threads` those that this one may use.
  HostCores(const exchange::Communicator& communicator, std::span<const std::string> hosts, int threads);

  /// Its own and those of the others, as far as there are cores.
  int threads() const { return threads_; }
  /// As the function above, on all these cores.
  void run_in_parallel(const std::vector<std::function<void()>>& tasks, int threads) const;

 private:
  cpu_set_t cores_;
  int threads_;
};

}  // namespace nsys_explain::pipeline
