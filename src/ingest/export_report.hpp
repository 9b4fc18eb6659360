#pragma once

#include <string_view>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// True for the names of reports that only nsys itself can read (.nsys-rep, .qdrep).
bool is_report_name(std::string_view path);

/// Exports a report with `nsys`, a program by its path or on PATH, into `directory` and returns the export's path.
/// Blobs and JSON are included, nothing is written beside the report. Throws TraceError where nsys is missing or fails.
std::string export_report(const std::string& report, const std::string& directory, const std::string& nsys);

/// Kills the exports of this process that run, for an end without destructors. From any thread; never throws.
void end_exports();

/// Whether a file is no export itself, but can be made one: a report of Nsight Systems, a trace of PyTorch's profiler.
bool needs_export(std::string_view path);

struct ExportedInput {
  std::string path;               ///< of the export
  std::vector<Warning> warnings;  ///< what was lost on the way
};

/// Writes the export of such a file into a scratch directory; of a report by the program `nsys`. Throws TraceError.
ExportedInput export_input(const std::string& input, const std::string& directory, const std::string& nsys = "nsys");

/// What to do about a report file, or an export made without the payloads we need: the `nsys export` command for
/// `path` (given as .nsys-rep, .qdrep or the .sqlite beside it), and whether nsys is on this host's PATH.
std::string export_advice(const std::string& path);

/// To be called right before a program is started: it inherits nothing but its standard streams. A child with a copy of
/// one of MPI's sockets would hide from the launcher and the other ranks that its parent died, and they would wait for
/// it as long as the child runs. (Not every system has posix_spawn_file_actions_addclosefrom_np.)
void keep_descriptors_from_children();

}  // namespace nsys_explain::ingest
