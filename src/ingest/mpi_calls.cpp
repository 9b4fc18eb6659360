#include "ingest/mpi_calls.hpp"

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

}  // namespace

void read_mpi_calls(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use) {
  for (const char* table : {"MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}) {
    TableScan scan(reading.database, table);
    const auto start = scan.integer("start", Presence::required);
    const auto end = scan.integer("end", Presence::required);
    const auto global_tid = scan.integer("globalTid", Presence::required);
    const auto text = scan.integer("textId");
    const auto communicator = scan.integer("commUid"), handle = scan.integer("commHandle");
    const auto root = scan.integer("rootRank"), bytes = scan.integer("size"), received = scan.integer("recvSize");
    for_each_event(
        reading, table, scan, global_tid, start, end,
        [&](ProcessTrace& process, const Interval& time, std::size_t row) {
          NvtxRange range;
          range.start_ns = time.start_ns;
          range.end_ns = time.end_ns;
          range.thread_id = range.end_thread_id = thread_id_of(global_tid[row]);
          range.text = reading.strings.keep_id(text[row]);
          use(process, range);
          if (!waits_for_others(table, reading.strings.value(text[row]))) return;
          MpiCall& call = process.mpi_calls.emplace_back();
          call.start_ns = time.start_ns;
          call.end_ns = time.end_ns;
          call.communicator = static_cast<std::uint64_t>(zero_if_null(communicator[row]));
          call.handle = static_cast<std::uint64_t>(zero_if_null(handle[row]));
          call.bytes = bytes[row] != no_time ? bytes[row] : received[row] != no_time ? received[row] : -1;
          call.root = root[row] == no_time ? -1 : static_cast<std::int32_t>(root[row]);
          call.thread_id = range.thread_id;
          call.name = range.text;
        },
        program_process_in);
  }
}

}  // namespace nsys_explain::ingest
