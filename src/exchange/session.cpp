#include "exchange/session.hpp"

#include <fmt/format.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "exchange/launch.hpp"
#include "exchange/transport.hpp"

namespace nsys_explain::exchange {
namespace {

constexpr int kExitUsage = 2;

bool wants_mpi() {
  switch (mpi_choice(process_environment)) {
    case MpiChoice::off:
      return false;
    case MpiChoice::on:
      return true;
    case MpiChoice::launcher_decides:
      return launched_by_mpi();
    case MpiChoice::invalid:
      break;
  }
  fmt::print(stderr,
             "NSYS_EXPLAIN_MPI={} is not known (whether to use MPI is unclear); set it to off or on, or unset it\n",
             process_environment("NSYS_EXPLAIN_MPI").value_or(""));
  std::exit(kExitUsage);
}

/// Open MPI polls without a pause while a rank waits. Where other processes want the processor, too (a job that still
/// runs, more ranks than cores that its launcher does not know of), those who are waited for then get only what the
/// waiting ones leave: phases took ten times as long. Whoever has set this otherwise is right; other MPIs ignore it.
void yield_while_waiting() {
  constexpr int keep_what_is_set = 0;
  ::setenv("OMPI_MCA_mpi_yield_when_idle", "1", keep_what_is_set);
}

void initialise_mpi(int& argc, char**& argv) {
  yield_while_waiting();
  int provided = MPI_THREAD_SINGLE;
  // A failure inside MPI_Init normally ends the process with MPI's own message; the check is for those that return.
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
    fmt::print(
        stderr,
        "MPI does not start although a launcher is present, so the ranks cannot work together; check that the launcher and this program use the same MPI, or set NSYS_EXPLAIN_MPI=off to run as one process\n");
    std::exit(EXIT_FAILURE);
  }
  if (provided < MPI_THREAD_FUNNELED) {
    fmt::print(
        stderr,
        "this MPI offers no thread support (MPI_THREAD_FUNNELED), which threads beside the communicating one need; use an MPI built with it, or set NSYS_EXPLAIN_MPI=off to run as one process\n");
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
}

}  // namespace

struct Session::State {
  bool uses_mpi = false;
  int exceptions_at_start = 0;
  Communicator world = Communicator::serial();
};

Session::Session(int& argc, char**& argv) : state_(std::make_unique<State>()) {
  state_->exceptions_at_start = std::uncaught_exceptions();
  state_->uses_mpi = wants_mpi();
  if (!state_->uses_mpi) return;
  initialise_mpi(argc, argv);
  state_->world = Communicator(make_mpi_transport());
}

Session::~Session() {
  if (!state_->uses_mpi) return;
  if (std::uncaught_exceptions() > state_->exceptions_at_start) {
    // The other ranks may know nothing of this exception and wait in a collective; MPI_Finalize would wait for them.
    fmt::print(stderr, "tool rank {}: an exception left the program, so the other ranks are ended too\n",
               state_->world.rank());
    state_->world.abort(EXIT_FAILURE);
  }
  state_->world = Communicator::serial();  // frees MPI's communicator while that is still allowed
  MPI_Finalize();
}

Communicator Session::world() const {
  return state_->world;
}

std::optional<std::string> Session::launch_warning() const {
  return exchange::launch_warning(process_environment, state_->world.size());
}

}  // namespace nsys_explain::exchange
