#pragma once

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

/// Collective: threads that this tool rank may use while the others of its host wait for it: its own and theirs, as far
/// as it may use as many cores. `hosts` are those of all tool ranks.
int threads_while_others_wait(const exchange::Communicator& communicator, std::span<const std::string> hosts,
                              int threads);

/// Calls `work(i)` for every i below `count`, up to `threads` at a time, each i once. `work` must not throw.
void for_each_in_parallel(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

/// Calls every task, up to `threads` at a time. Throws what the first task in order threw, once all have ended.
void run_in_parallel(const std::vector<std::function<void()>>& tasks, int threads);

}  // namespace nsys_explain::pipeline
