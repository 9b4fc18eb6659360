#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// True for the names of reports that only nsys itself can read (.nsys-rep, .qdrep).
bool is_report_name(std::string_view path);

/// Exports a report with `nsys`, a program by its path or on PATH, into `directory` and returns the export's path.
/// Blobs and JSON are included, nothing is written beside the report. Throws TraceError where nsys is missing or fails.
std::string export_report(const std::string& report, const std::string& directory, const std::string& nsys);

/// Kills the exports of this process that run, for an end without destructors. From any thread; never throws.
void end_exports();

}  // namespace nsys_explain::ingest
