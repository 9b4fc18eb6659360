#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>

namespace nsys_explain::pipeline {

/// What is to be read by a library that damaged files can crash, or lead round in circles.
struct CrashableWork {
  std::string command;       ///< for the message
  std::int64_t bytes = 0;    ///< to read: they bound the processor time
  std::function<int()> run;  ///< returns the exit code
};

/// Runs it in a child process and returns its exit code; where it crashes or does not end, says so and returns
/// nothing_analysed. For a process of one thread, without MPI.
int run_in_own_process(const CrashableWork& work, std::ostream& problems);

}  // namespace nsys_explain::pipeline
