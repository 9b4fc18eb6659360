#pragma once

#include <string>
#include <string_view>

namespace nsys_explain {

/// A file name for messages and command lines: as it is where it is plain, otherwise quoted for a POSIX shell with
/// bash's $'...' for control characters and bytes that are not UTF-8. The result is valid UTF-8 on one line.
std::string shell_quoted(std::string_view name);

}  // namespace nsys_explain
