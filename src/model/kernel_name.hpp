#pragma once

#include <string_view>

namespace nsys_explain {

/// What a kernel is called in its source: "deep_ep::intranode::dispatch" of "void deep_ep::intranode::dispatch<8,
/// 768>(int4*)". Template and argument lists name what a kernel works on, not what it does.
std::string_view function_name(std::string_view demangled);

}  // namespace nsys_explain
