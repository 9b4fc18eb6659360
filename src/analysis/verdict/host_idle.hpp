#pragma once

#include <cstdint>
#include <span>
#include <vector>

/// GPUs that idle because their host is late, against all others of the job: it needs no peers of a role, since no
/// role's GPU has to wait for its host.
namespace nsys_explain::analysis {

/// The share of each rank's idle time (by index) that is more than usual: in the median bin, beyond the (lower) median
/// of all ranks. 0 where that is below 1% of the rank's kernel time, or where chance explains it: if in
/// every bin ranks were dealt out at random (caused_wait_p_values, 1e-3 over all ranks). `idle_ns` and `kernel_ns` are
/// by rank, then bin; bins without kernels are not known and not looked at.
std::vector<double> host_idle_surplus(std::span<const std::int64_t> idle_ns, std::span<const std::int64_t> kernel_ns,
                                      std::size_t bins);

}  // namespace nsys_explain::analysis
