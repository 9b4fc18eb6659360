#include "ingest/mpi_calls.hpp"

#include <limits>
#include <string_view>

#include "ingest/process_events.hpp"

namespace nsys_explain::ingest {
namespace {

/// Whether the thread waits for other processes in it. MPI_Ibcast, MPI_Isend, MPI_Bcast_init, MPI_Start, MPI_Test do
/// not.
bool waits_for_others(std::string_view table, std::string_view function) {
  if (function.starts_with("MPI_I") || function.ends_with("_init")) return false;
  return table == "MPI_START_WAIT_EVENTS" ? function.starts_with("MPI_Wait") : table != "MPI_OTHER_EVENTS";
}

/// Of a rank or a tag, which are -1 or less where any will do.
std::int32_t number_of(std::int64_t value) {
  return value >= 0 && value <= std::numeric_limits<std::int32_t>::max() ? static_cast<std::int32_t>(value) : -1;
}

/// Or makes a persistent request for one. MPI_Isendrecv does both, which one row does not tell apart.
bool begins_message(std::string_view table, std::string_view function) {
  if (table == "MPI_START_WAIT_EVENTS") return function.starts_with("MPI_Start");
  const bool is_nonblocking =
      function.starts_with("MPI_I") && (function.ends_with("send") || function.ends_with("Irecv"));
  return table == "MPI_P2P_EVENTS" && (is_nonblocking || function.ends_with("send_init") ||
                                       function.ends_with("Send_init") || function == "MPI_Recv_init");
}

}  // namespace

void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use) {
  for (const char* table : {"MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}) {
    TableScan scan(reading.database, table);
    const auto start = scan.integer("start", Presence::required);
    const auto end = scan.integer("end", Presence::required);
    const auto global_tid = scan.integer("globalTid", Presence::required);
    const auto text = scan.integer("textId");
    const auto communicator = scan.integer("commUid"), handle = scan.integer("commHandle");
    const auto root = scan.integer("rootRank"), peer = scan.integer("remoteRank"), tag = scan.integer("tag");
    const auto request = scan.integer("requestHandle");
    const auto bytes = scan.integer("size"), received = scan.integer("recvSize");
    for_each_event(
        reading, table, scan, global_tid, start, end,
        [&](ProcessTrace& process, const Interval& time, std::size_t row) {
          NvtxRange range;
          range.start_ns = time.start_ns;
          range.end_ns = time.end_ns;
          range.thread_id = range.end_thread_id = thread_id_of(global_tid[row]);
          range.text = reading.strings.keep_id(text[row]);
          use(process, range);
          const std::string_view function = reading.strings.value(text[row]);
          if (!waits_for_others(table, function) && !begins_message(table, function)) return;
          MpiCall& call = process.mpi_calls.emplace_back();
          call.start_ns = time.start_ns;
          call.end_ns = time.end_ns;
          call.communicator = static_cast<std::uint64_t>(zero_if_null(communicator[row]));
          call.handle = static_cast<std::uint64_t>(zero_if_null(handle[row]));
          call.bytes = bytes[row] != no_time ? bytes[row] : received[row] != no_time ? received[row] : -1;
          call.request = static_cast<std::uint64_t>(zero_if_null(request[row]));
          call.root = number_of(root[row] != no_time ? root[row] : peer[row]);
          call.tag = number_of(tag[row]);
          call.thread_id = range.thread_id;
          call.name = range.text;
        },
        program_process_in);
  }
}

}  // namespace nsys_explain::ingest
