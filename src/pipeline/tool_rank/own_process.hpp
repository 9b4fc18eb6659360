#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace nsys_explain::pipeline {

/// What is to be read by a library that damaged files can crash, or lead round in circles.
struct CrashableWork {
  std::string command;                      ///< for the message
  std::vector<std::string> stores;          ///< to read, and nothing else; their bytes bound time and memory
  std::string output_directory;             ///< beside and below which it writes; empty: nowhere
  std::function<int(std::ostream&)> run{};  ///< returns the exit code; what it says is held until it is done
};

/// Runs it in a child process and returns its exit code; where it crashes or does not end, says so and returns
/// nothing_analysed. For a process of one thread, without MPI.
int run_in_own_process(const CrashableWork& work, std::ostream& problems);

/// What a user is told: a sentence also where memory did not suffice.
std::string sentence_of(const std::exception& error);

}  // namespace nsys_explain::pipeline
