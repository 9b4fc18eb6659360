#include "ingest/mpi_calls.hpp"

#include "ingest/process_events.hpp"

namespace nsys_explain::ingest {

void for_each_mpi_call(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use) {
  for (const char* table : {"MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}) {
    TableScan scan(reading.database, table);
    const auto start = scan.integer("start", Presence::required);
    const auto end = scan.integer("end", Presence::required);
    const auto global_tid = scan.integer("globalTid", Presence::required);
    const auto text = scan.integer("textId");
    for_each_event(
        reading, table, scan, global_tid, start, end,
        [&](ProcessTrace& process, const Interval& time, std::size_t row) {
          NvtxRange range;
          range.start_ns = time.start_ns;
          range.end_ns = time.end_ns;
          range.thread_id = range.end_thread_id = thread_id_of(global_tid[row]);
          range.text = reading.strings.keep_id(text[row]);
          use(process, range);
        },
        program_process_in);
  }
}

}  // namespace nsys_explain::ingest
