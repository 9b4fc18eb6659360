#pragma once

#include <optional>
#include <string>

#include "exchange/communicator.hpp"

namespace nsys_explain::exchange {

/// Owns MPI for the life of the program. MPI is initialised only where a launcher (mpirun, srun --mpi=pmix, ...) left
/// its variables in the environment: a singleton MPI_Init forks a daemon and fails in a bare environment. Without a
/// launcher the world is the serial communicator, with the same interface.
class Session {
 public:
  /// Collective under a launcher. Never throws: a launcher whose MPI does not come up ends the process with a message.
  Session(int& argc, char**& argv);
  /// Collective under a launcher: finalises MPI.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  Communicator world() const;

  /// A message (problem, why it matters, what to do) where the launch is not what it seems: Slurm started several
  /// tasks, but this world has one rank, so every task would do the whole work and write the same files.
  std::optional<std::string> launch_warning() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// True where the environment holds the variables by which a launcher tells a process that it is one of an MPI job.
bool launched_by_mpi();

}  // namespace nsys_explain::exchange
