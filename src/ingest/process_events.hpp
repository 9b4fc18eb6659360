#pragma once

#include <cstdint>

#include "ingest/cuda_events.hpp"
#include "ingest/table_scan.hpp"

/// Tables whose rows belong to processes that GPU work, CUDA calls or NVTX ranges have made known.
namespace nsys_explain::ingest {

/// The process of a global id, where the trace has it.
inline ProcessTrace* process_in(const Reading& reading, std::int64_t global_id) {
  if (global_id == no_time) return nullptr;
  return reading.builder.find_process(process_of(global_id));
}

/// Likewise; where the export holds no GPU work, every process that the rows name is known: what hosts did is then all
/// that there is. For tables that name processes of the program only, and once GPU work has been read.
inline ProcessTrace* program_process_in(const Reading& reading, std::int64_t global_id) {
  if (global_id == no_time || !reading.builder.devices().empty()) return process_in(reading, global_id);
  return &reading.builder.process(process_of(global_id));
}

/// Calls `use(process, span, row)` for the rows of known processes whose times can be; what was left out is reported.
template <class Column, class Use>
void for_each_event(const Reading& reading, const char* table, TableScan& scan, const Column& global_id,
                    const Column& start, const Column& end, const Use& use,
                    ProcessTrace* (*find)(const Reading&, std::int64_t) = process_in) {
  TimeFilter filter(reading.time_base, table);
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      ProcessTrace* process = find(reading, global_id[row]);
      if (process == nullptr) continue;
      if (const auto time = filter.accept(start[row], end[row])) use(*process, *time, row);
    }
  });
  filter.report(reading.warnings);
}

}  // namespace nsys_explain::ingest
