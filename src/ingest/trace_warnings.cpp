#include "ingest/trace_warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ingest/cuda_events.hpp"
#include "ingest/masked_secrets.hpp"
#include "ingest/table_scan.hpp"
#include "nsys_explain/model/utf8.hpp"

namespace nsys_explain::ingest {
namespace {

/// ENUM_DIAGNOSTIC_SEVERITY_LEVEL.
constexpr std::int64_t nsys_warning = 2, nsys_error = 3;
constexpr std::size_t longest_read = 16'384, longest_text = 500;
constexpr std::size_t most_texts = 50;

/// One line of valid UTF-8 of at most 500 bytes, without secrets: white space of any kind becomes one space.
std::string tidy(std::string_view text) {
  std::string line;
  for (const char c : valid_utf8(text.substr(0, longest_read))) {
    const bool is_space = static_cast<unsigned char>(c) <= ' ';
    if (is_space && (line.empty() || line.back() == ' ')) continue;
    line += is_space ? ' ' : c;
  }
  if (!line.empty() && line.back() == ' ') line.pop_back();
  line = without_secrets(std::move(line));
  if (line.size() > longest_text) {
    std::size_t cut = longest_text;
    while (cut > 0 && (static_cast<unsigned char>(line[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
    line.resize(cut);
    line += " ...";
  }
  return line;
}

/// nsys has one level for "this may be slow" and "events were dropped"; the second means that sums are short. That the
/// CPU is not sampled, say because nsys does not know its vendor, is an error to it, and takes nothing from GPU work.
/// "Not all CUDA events might have been collected." stands in every capture of a range: what ran before it is not in
/// it.
Severity severity_of(std::int64_t level, std::string_view text, bool is_range) {
  if (is_range && text.starts_with("Not all ") && text.find("might have been collected") != std::string_view::npos)
    return Severity::info;
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  for (const char* mark : {"cpu sampling", "ip sampling", "cpu vendor"}) {
    if (lower.find(mark) != std::string::npos) return Severity::info;
  }
  if (level == nsys_error) return Severity::error;
  for (const char* mark : {"not all ", "dropped", "lost", "missing", "overflow", "incomplete", "out of memory"}) {
    if (lower.find(mark) != std::string::npos) return Severity::data_loss;
  }
  return Severity::info;
}

bool has_any_launch(const Trace& trace) {
  return std::any_of(trace.processes.begin(), trace.processes.end(),
                     [](const ProcessTrace& process) { return !process.api_calls.empty(); });
}

bool has_kernels_of(const ProcessTrace& process) {
  return std::any_of(process.devices.begin(), process.devices.end(),
                     [](const DeviceTrace& device) { return !device.kernels.empty(); });
}

bool has_any_kernel(const Trace& trace) {
  return std::any_of(trace.processes.begin(), trace.processes.end(), has_kernels_of);
}

/// By the ids in their rows: true also where these are all 0, as other tools write them.
bool have_kernels_other_processes_than_calls(const Trace& trace) {
  return std::none_of(trace.processes.begin(), trace.processes.end(), [](const ProcessTrace& process) {
    return has_kernels_of(process) && !process.api_calls.empty();
  });
}

}  // namespace

void read_diagnostics(const Database& database, std::vector<Warning>& warnings) {
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> by_level;
  TableScan scan(database, "DIAGNOSTIC_EVENT");
  const auto severity = scan.integer("severity");
  const auto text = scan.text("text");
  bool is_range = false;  // cudaProfilerStart, an NVTX range or a key began the capture
  scan.for_each_batch([&](std::size_t rows) {
    for (std::size_t row = 0; row < rows; ++row) {
      is_range = is_range || text[row].starts_with("Profiling started due to ");
      if (severity[row] != nsys_warning && severity[row] != nsys_error) continue;
      ++by_level[{severity[row], tidy(text[row])}];
    }
  });
  std::map<std::pair<Severity, std::string>, std::int64_t> counts;
  for (const auto& [place, count] : by_level)
    counts[{severity_of(place.first, place.second, is_range), place.second}] += count;
  std::size_t shown = 0;
  std::int64_t hidden = 0;
  for (auto place = counts.rbegin(); place != counts.rend(); ++place) {  // errors first
    if (shown++ < most_texts) {
      warnings.push_back(
          {place->first.first, WarningSource::trace, place->second, "Nsight Systems reported: " + place->first.second});
    } else {
      hidden += place->second;
    }
  }
  if (hidden > 0) {
    warnings.push_back({Severity::info, WarningSource::trace, hidden,
                        "further diagnostics of Nsight Systems are not listed; the GUI shows them all"});
  }
}

void warn_about_gaps(const Metadata& metadata, const StringTable& strings, Trace& trace) {
  const auto warn = [&](Severity severity, std::int64_t count, std::string message) {
    if (count > 0) trace.warnings.push_back({severity, WarningSource::trace, count, std::move(message)});
  };
  const bool has_kernels = has_any_kernel(trace);
  if (has_kernels && !has_any_launch(trace)) {
    warn(Severity::info, 1,
         "the export holds no CUDA API calls: launches cannot be told from waiting; capture with nsys profile -t cuda");
  } else if (has_kernels && have_kernels_other_processes_than_calls(trace)) {
    warn(
        Severity::data_loss, 1,
        "no process has both kernels and CUDA calls, by the ids of their rows (globalPid, globalTid): which call launched a kernel, and in which NVTX range, is not known; export the report again with nsys, and leave its ids as they are");
  } else if (has_kernels) {
    warn(
        Severity::info, count_kernels_without_call(trace.processes),
        "kernels have no launching API call in the export (launched before the captured window, or on the device): they count as GPU work, but why they started when they did is not known");
  }
  if (metadata.nccl_domain_filtered) {
    warn(
        Severity::info, 1,
        "the capture excluded NCCL's NVTX domain: collectives are known by kernel names only; capture without an NVTX domain filter");
  }
  if (metadata.partial_export) {
    warn(
        Severity::info, 1,
        "only some tables or a span of time were exported: what lies outside is missing here; export without --tables and --times");
  }
  if (metadata.schema_major == 0) {
    warn(Severity::info, 1,
         "the export does not tell its schema version: columns are taken by name; export with nsys 2022.1 or later");
  }
  warn(
      Severity::info, strings.shortened_texts(),
      fmt::format(
          "names are longer than {} bytes: of each, its beginning and a hash stand in the results, which would hold it in every row else; nothing to do unless the ends of names matter",
          StringTable::longest_kept));
  warn(Severity::info, strings.repaired_texts(),
       "names were not valid UTF-8: the wrong bytes are shown as U+FFFD; names may differ from those in the program");
  warn(Severity::data_loss, strings.unknown_ids(),
       "names refer to strings that the export does not hold: they are shown empty; export the report again");
}

}  // namespace nsys_explain::ingest
