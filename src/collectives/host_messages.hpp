#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "nsys_explain/model/collective.hpp"
#include "nsys_explain/model/trace.hpp"

/// Messages between hosts (MPI): what each call sends, receives or completes.
namespace nsys_explain::collectives {

/// Whether it is MPI_COMM_WORLD in MPICH and what is built on it (mpi.h), or in the ABI of MPI 5.0; in Open MPI it is
/// an address.
bool is_world_handle(std::uint64_t handle);

/// What a call of this name does with the message of a recorded peer. A completion receives: of what was sent, nothing
/// is told by it. unknown: no message, or several.
Directions direction_of_call(std::string_view function);

/// The calls of one thread, in order, of which each row holds one message: those that wait and those that send. A
/// completion names as root and tag those of the receive that it completes. If it waits for several, the rows after
/// its first take the last 4 ns each, and hold as request how many come before them.
///
/// Persistent requests are followed from the call that made them: a start is a row for each of its sends, with the name
/// of that call.
///
/// Root is -1 where the peer is not known: the call completes no receive, its rows do not tell one way, messages run in
/// several communicators, or requests cannot be followed. These are followed by handles: each is completed before it
/// begins anew, and those of a peer and tag in the order in which they began. Where one is not, no completion and no
/// non-blocking send of the process tells a message.
std::vector<MpiCall> messages_in_a_row(const Trace& trace, std::vector<MpiCall> calls);

}  // namespace nsys_explain::collectives
