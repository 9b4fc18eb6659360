#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// A file name for messages and command lines: as it is where it is plain, otherwise quoted for a POSIX shell with
/// bash's $'...' for control characters and bytes that are not UTF-8. The result is valid UTF-8 on one line.
std::string shell_quoted(std::string_view name);

/// What to do about a report file, or an export made without the payloads we need: the `nsys export` command for
/// `path` (given as .nsys-rep, .qdrep or the .sqlite beside it), and whether nsys is on this host's PATH.
std::string export_advice(const std::string& path);

}  // namespace nsys_explain::ingest
