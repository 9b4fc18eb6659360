#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "pipeline/commands/show.hpp"

/// `nsys-explain-mpi diff`: two tables of one name from two stores, row by row.
namespace nsys_explain::pipeline {

struct DiffRequest {
  std::string before_path, after_path;  ///< of stores
  std::string table;
  std::vector<std::string> by;       ///< columns that tell rows apart
  std::vector<std::string> columns;  ///< to compare
  std::vector<std::string> renames;  ///< PATTERN=REPLACEMENT
  ShowFormat format = ShowFormat::text;
  std::size_t limit = 50;  ///< rows; 0: all
  bool colour = false;
};

/// Returns an ExitCode (job.hpp); problems go to `problems`. Throws nothing.
int difference(const DiffRequest& request, std::ostream& out, std::ostream& problems);

}  // namespace nsys_explain::pipeline
