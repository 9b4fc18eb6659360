#include "ingest/mpi_calls.hpp"

#include "ingest/column_value.hpp"
#include "ingest/table_scan.hpp"

namespace nsys_explain::ingest {

void for_each_mpi_call(const Reading& reading, const std::function<void(ProcessTrace&, const NvtxRange&)>& use) {
  for (const char* table : {"MPI_P2P_EVENTS", "MPI_COLLECTIVES_EVENTS", "MPI_START_WAIT_EVENTS", "MPI_OTHER_EVENTS"}) {
    TableScan scan(reading.database, table);
    const auto start = scan.integer("start", Presence::required);
    const auto end = scan.integer("end", Presence::required);
    const auto global_tid = scan.integer("globalTid", Presence::required);
    const auto text = scan.integer("textId");
    TimeFilter filter(reading.time_base, table);
    scan.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) {
        if (global_tid[row] == no_time) continue;
        ProcessTrace* process = reading.builder.find_process(process_of(global_tid[row]));
        const auto time = filter.accept(start[row], end[row]);
        if (process == nullptr || !time) continue;
        NvtxRange range;
        range.start_ns = time->start_ns;
        range.end_ns = time->end_ns;
        range.thread_id = range.end_thread_id = thread_id_of(global_tid[row]);
        range.text = reading.strings.keep_id(text[row]);
        use(*process, range);
      }
    });
    filter.report(reading.warnings);
  }
}

}  // namespace nsys_explain::ingest
