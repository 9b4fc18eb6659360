#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/window/steps.hpp"
#include "nsys_explain/model/collective.hpp"

namespace nsys_explain::analysis {

/// Arrival::call_bytes of all operations of a trace rank, also of those whose launch was lost, and with it their size;
/// -1 where nothing tells. The program does the same in each step, so an operation is as large as those at its place in
/// other steps (the same kind and communicator, as many of them in the step), if all of these agree.
std::vector<std::int64_t> sizes_in_steps(std::span<const Arrival> arrivals, const Steps& steps);

}  // namespace nsys_explain::analysis
