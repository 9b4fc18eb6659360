#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// What to do about a report file, or an export made without the payloads we need: the `nsys export` command for
/// `path` (given as .nsys-rep, .qdrep or the .sqlite beside it), and whether nsys is on this host's PATH.
std::string export_advice(const std::string& path);

}  // namespace nsys_explain::ingest
