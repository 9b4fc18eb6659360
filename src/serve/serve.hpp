#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace nsys_explain::serve {

/// What the user asked for.
struct ServiceOptions {
  std::string root;                             ///< reports lie below it
  std::string listen = "127.0.0.1:8750";        ///< --listen: ADDRESS:PORT; port 0: any that is free
  std::string token_file;                       ///< --token-file; empty: none is asked for
  bool read_only = false;                       ///< --read-only: starts no analysis
  std::vector<std::string> export_roots;        ///< --exports: analyses may read what lies below
  std::int64_t upload_bytes = 20'000'000'000;   ///< --upload-limit: of one analysis
  std::int64_t queue = 16;                      ///< --queue: most analyses that wait
  std::int64_t analysis_seconds = 3'600;        ///< --analysis-timeout
  std::int64_t analysis_bytes = 8'000'000'000;  ///< --analysis-memory
};

// `nsys-explain-mpi serve`: reports for people and for programs.

struct ServeRequest {
  ServiceOptions options;
  bool speaks_mcp = false;  ///< on `in` and `out`, instead of listening
  bool is_reader = false;   ///< this is a process of a service, which reads reports for it
};

/// Returns the exit code; problems go to `problems`. Throws nothing.
int serve(const ServeRequest& request, std::istream& in, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::serve
