#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/classification.hpp"
#include "collectives/extraction.hpp"
#include "nsys_explain/model/trace.hpp"

/// Collectives that the host waits in (MPI), for jobs without communication kernels. A call is to the analyses of waits
/// what a kernel would be that it launches and waits for.
namespace nsys_explain::collectives {

/// What a call does, by the name of its function; send_recv for point-to-point calls and completions, unknown for
/// collectives of other kinds.
Operation operation_of_mpi(std::string_view function);

/// The process with a communication kernel for each of its MPI calls, on a stream and with a launching call of their
/// own, on the device that has most kernels. Its mpi_calls are those that have one: the calls of the thread that made
/// most of them, one at a time, as messages_in_a_row tells. Nothing where kernels communicate, or where there are no
/// calls or no device.
std::optional<ProcessTrace> with_kernels_of_calls(const Trace& trace, const ProcessTrace& process,
                                                  const KernelClasses& classes);

/// The calls of such a process as arrivals, by device; those of one device only.
std::vector<DeviceArrivals> arrivals_of_calls(const Trace& trace, const ProcessTrace& with_kernels);

/// What the communicators of its arrivals are called, by Arrival::communicator.
std::map<std::uint64_t, std::string> names_of_call_communicators(const std::vector<DeviceArrivals>& arrivals);

}  // namespace nsys_explain::collectives
