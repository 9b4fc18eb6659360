#pragma once

#include <optional>

/// The commands beside the analysis itself: they need no MPI and look at results, not at traces.
namespace nsys_explain {

/// Runs the command that the first argument names; its exit code, or nothing where the first argument is none.
std::optional<int> run_command(int argc, char** argv);

}  // namespace nsys_explain
