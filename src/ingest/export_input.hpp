#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// Whether a file is no export itself, but can be made one: a report of Nsight Systems, a trace of PyTorch's profiler.
bool needs_export(std::string_view path);

struct ExportedInput {
  std::string path;               ///< of the export
  std::vector<Warning> warnings;  ///< what was lost on the way
};

/// Writes the export of such a file into a scratch directory; of a report by the program `nsys`. Throws TraceError.
ExportedInput export_input(const std::string& input, const std::string& directory, const std::string& nsys = "nsys");

}  // namespace nsys_explain::ingest
