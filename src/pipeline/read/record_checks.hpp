#pragma once

#include "pipeline/read/local_traces.hpp"

namespace nsys_explain::pipeline {

/// Whether what a record holds can be what reading leaves: numbers that name something name what is there, values of
/// enumerations have a name, tables are whole. What comes after reading relies on it; a record may be damaged or made
/// up.
bool can_be_read(const LocalTrace& trace);

}  // namespace nsys_explain::pipeline
