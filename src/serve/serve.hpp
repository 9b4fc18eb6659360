#pragma once

#include <iosfwd>

#include "serve/service_options.hpp"

/// `nsys-explain-mpi serve`: reports for people and for programs.
namespace nsys_explain::serve {

struct ServeRequest {
  ServiceOptions options;
  bool speaks_mcp = false;  ///< on `in` and `out`, instead of listening
  bool is_reader = false;   ///< this is a process of a service, which reads reports for it
};

/// Returns the exit code; problems go to `problems`. Throws nothing.
int serve(const ServeRequest& request, std::istream& in, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::serve
