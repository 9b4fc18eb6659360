#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace nsys_explain::serve {

/// How a child of this program runs. Descriptors that are not named here are closed in it.
struct ChildOptions {
  int standard_input = -1, standard_output = -1, standard_error = -1;  ///< -1: /dev/null; for errors: as this process
  std::vector<int> kept;                                               ///< stay open under their numbers
  std::int64_t address_space_bytes = 0, data_bytes = 0;                ///< limits; 0: none
  std::vector<std::pair<std::string, std::string>> environment;        ///< instead of what this process has
  /// Files and directories; beside the program's own, it reaches no others where the kernel can see to that.
  std::vector<std::string> readable, writable;
};

/// Starts this same program, without MPI. The child ends when the thread that started it does, however that happens.
/// Throws Refusal (503) where the system has no more processes.
pid_t start_own_program(const std::vector<std::string>& arguments, const ChildOptions& options);

/// The status of waitpid: waits, or says nothing while the process runs.
int wait_for(pid_t process);
/// Kills it, with all that it has started, where it takes longer.
int wait_for(pid_t process, std::chrono::seconds longest);
std::optional<int> poll_for(pid_t process);

}  // namespace nsys_explain::serve
