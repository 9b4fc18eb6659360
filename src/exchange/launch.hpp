#pragma once

#include <functional>
#include <optional>
#include <string>

namespace nsys_explain::exchange {

/// The value of an environment variable; nothing where it is unset or empty.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// The environment of this process.
std::optional<std::string> process_environment(const char* name);

enum class MpiChoice { launcher_decides, off, on, invalid };

/// What NSYS_EXPLAIN_MPI says: off | on; unset lets the launcher decide.
MpiChoice mpi_choice(const Environment& environment);

bool launched_by_mpi(const Environment& environment);

/// See Session::launch_warning.
std::optional<std::string> launch_warning(const Environment& environment, int world_size);

}  // namespace nsys_explain::exchange
