#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nsys_explain::ingest {

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none (RFC 3629: no overlong forms,
/// no surrogates, nothing beyond U+10FFFF).
std::size_t utf8_length(std::string_view text);

/// `text` with every byte that is not part of a well-formed sequence replaced by U+FFFD.
/// Returns false where `text` was valid already; `repaired` is then left alone.
bool repair_utf8(std::string_view text, std::string& repaired);

/// `text`, repaired where it has to be.
std::string valid_utf8(std::string_view text);

}  // namespace nsys_explain::ingest
