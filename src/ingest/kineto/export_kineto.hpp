#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nsys_explain/model/diagnostic.hpp"

namespace nsys_explain::ingest {

/// Whether a file's name is that of a trace in JSON (.json, .json.gz), as PyTorch's profiler writes it.
bool is_kineto_name(std::string_view path);

/// Writes the events of a trace of PyTorch's profiler (Kineto) as an export with the tables of Nsight Systems to
/// `exported`. A file that is cut off is read as far as it goes, and the warnings say so. Memory: one event, and the
/// distinct names. Throws TraceError.
std::vector<Warning> export_kineto(const std::string& trace, const std::string& exported);

}  // namespace nsys_explain::ingest
