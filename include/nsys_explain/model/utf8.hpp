#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nsys_explain {

/// What stands for a byte that is no text: U+FFFD.
inline constexpr std::string_view replacement_character = "\uFFFD";

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none (RFC 3629: no overlong forms,
/// no surrogates, nothing beyond U+10FFFF) or if it is NUL, which ends a text in C, HDF5 and SQLite.
std::size_t utf8_length(std::string_view text);

/// `text` with every byte that begins no such sequence replaced by U+FFFD.
/// Returns false where `text` was valid already; `repaired` is then left alone.
bool repair_utf8(std::string_view text, std::string& repaired);

/// `text`, repaired where it has to be.
std::string valid_utf8(std::string_view text);

/// The label without what makes every single range of PyTorch unique: ", op_id = 42", ", seq = 7", ", sizes = [...]".
std::string_view range_name(std::string_view label);

}  // namespace nsys_explain
