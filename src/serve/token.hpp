#pragma once

#include <string>
#include <string_view>

namespace nsys_explain::serve {

/// The token in a file that others cannot read. Throws Refusal.
std::string read_token(const std::string& path);

/// Whether a header `Authorization` carries the token: "Bearer TOKEN", or as the password of "Basic". Takes as long
/// for any token of a length.
bool is_authorised(std::string_view header, std::string_view token);

}  // namespace nsys_explain::serve
