#pragma once

#include "nsys_explain/model/diagnostic.hpp"
#include "nsys_explain/model/table.hpp"
#include "nsys_explain/model/trace.hpp"

/// The files that a user gives besides exports, as tables, or as lines that the analysis reads.
namespace nsys_explain::ingest {

/// The tables allocator_summary, allocator_memory and allocator_peak of a snapshot of PyTorch's allocator
/// (torch.cuda.memory._snapshot(), as JSON). The history may have lost its oldest events: levels are counted back from
/// the blocks that are in use in the snapshot. A block is in use until it can be given out again (free_completed).
/// Throws std::runtime_error: problem, why it matters, what to do.
std::vector<Table> allocator_tables(std::string_view json);

/// Without rows.
std::vector<Table> allocator_tables();

/// One map from kernel names to categories, as a user's file holds it.
struct NamedCategoryRules {
  std::string name;                                        ///< "ENGINE/MODEL"
  std::vector<std::pair<std::string, std::string>> rules;  ///< regular expression and category; the first match wins
};

/// The maps of a file in gputrc2graph's form: {"ENGINE": {"MODEL": {"PATTERN": "CATEGORY", ...}}}. Throws
/// std::runtime_error that names `path`: problem, why it matters, what to do. Patterns are not tried.
std::vector<NamedCategoryRules> parse_category_file(const std::string& text, const std::string& path);

/// Table engine_layers of what trtexec --exportProfile writes: [{"count": N}, {"name": ..., "timeMs": ..., "averageMs":
/// ..., "medianMs": ...}, ...] (class Profiler of TensorRT's samples). Throws std::runtime_error: problem, why
/// it matters, what to do.
Table engine_layers(std::string_view json);

/// A phase map as nsys-llm-explainer reads it, {"PHASE": ["WORDS", "re:PATTERN", ...], ...}, in lines `PHASE PATTERN`:
/// words match anywhere, in whatever case. Other texts stay as they are. Throws std::runtime_error: problem, why it
/// matters, what to do. Patterns are not tried.
std::string phase_map_lines(std::string_view text);

/// A file of requests as CSV: what is CSV stays as it is; the JSON that vLLM's and SGLang's serving benchmarks write
/// with details (lists `input_lens`, `output_lens`, `ttfts`, `itls`, `start_times`, `errors`, and `duration`) becomes a
/// line per request. Throws std::runtime_error: problem, why it matters, what to do.
std::string request_rows(std::string_view text);

// Logs of NCCL Inspector, NCCL's profiler plugin (plugins/profiler/inspector in NCCL's sources; format v4.0 of
// NCCL 2.28 to v4.2): a file "HOST-pidPID.log" per process, a JSON object per line. A line with `coll_perf` is a
// collective that has ended, one with `p2p_perf` (since NCCL 2.30) a send or receive; those with `dump_stats` and
// proxies are others. Logs have holes by design: small messages and what did not fit a ring buffer between two dumps
// are left out.

struct InspectorLog {
  std::vector<InspectorRecord> records;  ///< as logged, times in UTC of the host
  std::vector<Warning> warnings;         ///< lines that could not be used, and why
};

/// What a log says. Lines that are damaged or of another format are counted in the warnings; nothing throws.
InspectorLog parse_inspector_log(std::string_view text);

/// The log of one process: the file of that process id in `directory` whose host is this one as far as both names go
/// ("node1" and "node1.example.org"), or, where the export names no host, the only one of that id. No record and a
/// warning where there is none. Throws nothing for a bad file; std::runtime_error where the directory cannot be read.
InspectorLog read_inspector_log(const std::string& directory, const std::string& host, std::int32_t process_id);

/// Names, sizes and modification times of the logs of a directory, as text: what a cache must know of them. Throws
/// std::runtime_error where there is no such directory.
std::string list_inspector_logs(const std::string& directory);

}  // namespace nsys_explain::ingest
