#include <fmt/format.h>

#include <algorithm>

#include "report/report.hpp"
#include "report/text.hpp"

namespace nsys_explain::report {

std::string to_phase_table(const RunFacts& run) {
  std::string out = fmt::format("{:<24} {:>9} {:>15} {:>10} {:>12}\n", "phase", "seconds", "rows", "bytes", "memory");
  const auto count_or_dash = [](std::int64_t count) { return count == 0 ? std::string("-") : format_count(count); };
  const auto bytes_or_dash = [](std::int64_t bytes) { return bytes == 0 ? std::string("-") : format_bytes(bytes); };
  double seconds = 0;
  std::int64_t memory_bytes = 0;
  for (const RunFacts::Phase& phase : run.phases) {
    out += fmt::format("{:<24} {:>9.3f} {:>15} {:>10} {:>12}\n", phase.name, phase.seconds, count_or_dash(phase.rows),
                       bytes_or_dash(phase.bytes), bytes_or_dash(phase.peak_memory_bytes));
    seconds += phase.seconds;
    memory_bytes = std::max(memory_bytes, phase.peak_memory_bytes);
  }
  out += fmt::format("{:<24} {:>9.3f} {:>15} {:>10} {:>12}\n", "all", seconds, "", "", bytes_or_dash(memory_bytes));
  out += fmt::format("{}, {} each; memory: the most that one of them held in the phase\n",
                     counted(run.tool_ranks, "tool rank"), counted(run.threads, "thread"));
  if (!run.memory) return out;
  out += fmt::format("memory limit {} for each tool rank: ", format_bytes(run.memory->limit_bytes));
  if (run.memory->traces_in_files == 0) return out + "all events were held in memory\n";
  out += fmt::format(
      "{} read with events in temporary files, up to {} for a tool rank; their pages count as memory above, but the system takes them back where it is short\n",
      counted(run.memory->traces_in_files, "trace"), format_bytes(run.memory->file_bytes));
  return out;
}

}  // namespace nsys_explain::report
