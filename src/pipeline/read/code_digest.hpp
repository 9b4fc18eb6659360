#pragma once

#include <string_view>

namespace nsys_explain::pipeline {

/// SHA-256 of all sources that decide what reading and analysing a trace leaves (code_digest.cmake), the same wherever
/// they lie and whenever they were built.
std::string_view code_digest();

}  // namespace nsys_explain::pipeline
