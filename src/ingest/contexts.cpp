#include "ingest/contexts.hpp"

#include <set>
#include <tuple>

#include "ingest/input_file.hpp"
#include "ingest/table_scan.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

std::optional<std::int64_t> count_pairs(const Database& database) {
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> pairs;  // machine, process, device
  bool complete = true;
  // nsys up to 2023 lists contexts by their default streams.
  for (const char* table : {"TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_NULL_STREAM"}) {
    TableScan scan(database, table);
    const auto vm = scan.integer("vmId");
    const auto process = scan.integer("processId");
    const auto device = scan.integer("deviceId");
    scan.for_each_batch([&](std::size_t rows) {
      for (std::size_t row = 0; row < rows; ++row) {
        complete = complete && process[row] != no_time && device[row] != no_time;
        pairs.emplace(vm[row], process[row], device[row]);
      }
    });
  }
  if (pairs.empty() || !complete) return std::nullopt;
  return static_cast<std::int64_t>(pairs.size());
}

}  // namespace

std::optional<std::int64_t> most_trace_ranks(const std::string& path) {
  try {
    const InputFile file(path);
    return count_pairs({file.path_to_open(), file.is_private_copy() ? OpenMode::private_copy : OpenMode::read_only});
  } catch (const TraceError&) {
    return std::nullopt;  // said when the trace is read
  }
}

}  // namespace nsys_explain::ingest
