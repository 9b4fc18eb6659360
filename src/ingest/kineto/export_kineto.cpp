#include "ingest/kineto/export_kineto.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <zlib.h>

#include "ingest/kineto/event_splitter.hpp"
#include "ingest/kineto/kineto_tables.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

constexpr std::string_view how_to_record =
    "write it with torch.profiler, export_chrome_trace or tensorboard_trace_handler, one file for each rank";

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};
using InputPieces = std::unique_ptr<gzFile_s, CloseFile>;

/// Gives all pieces of a file, unpacked where it is packed. False where it breaks off.
template <class Use>
bool for_each_piece(const std::string& path, const Use& use) {
  const InputPieces file(::gzopen(path.c_str(), "rb"));
  if (!file) {
    throw TraceError(
        fmt::format("the file cannot be read ({}): its ranks are missing; check its permissions and its disk",
                    std::strerror(errno)));
  }
  constexpr unsigned piece_bytes = 1U << 20U;
  ::gzbuffer(file.get(), 1U << 18U);
  std::string piece(piece_bytes, '\0');
  int bytes = 0;
  while ((bytes = ::gzread(file.get(), piece.data(), piece_bytes)) > 0)
    use(std::string_view(piece.data(), static_cast<std::size_t>(bytes)));
  int error = Z_OK;
  ::gzerror(file.get(), &error);
  return bytes == 0 && error == Z_OK;
}

void require_trace(const EventSplitter& splitter, const KinetoTables& tables) {
  if (tables.is_amd()) {
    throw TraceError(
        "the trace was recorded on an AMD GPU: names and times of ROCm mean other things than CUDA's, so nothing is read; analyse traces of NVIDIA GPUs");
  }
  if (!splitter.is_json()) {
    throw TraceError(
        fmt::format("the file is not JSON, whatever its name says: no event can be read; {}", how_to_record));
  }
  if (!splitter.has_events()) {
    throw TraceError(
        fmt::format("the JSON holds no traceEvents, so it is no trace of PyTorch's profiler: no event can be read; {}",
                    how_to_record));
  }
}

}  // namespace

bool is_kineto_name(std::string_view path) {
  return path.ends_with(".json") || path.ends_with(".json.gz");
}

std::vector<Warning> export_kineto(const std::string& trace, const std::string& exported) {
  KinetoTables tables(exported);
  tables.add_file_name(trace.substr(trace.rfind('/') + 1));
  EventSplitter splitter({[&](const std::string& object) { tables.add_event(object); },
                          [&](std::string_view name, const std::string& value) { tables.add_member(name, value); }});
  bool is_whole = for_each_piece(trace, [&](std::string_view piece) { splitter.feed(piece); });
  require_trace(splitter, tables);
  is_whole = is_whole && splitter.is_whole();
  std::vector<Warning> warnings = tables.finish(splitter.left_out());
  if (!is_whole) {
    warnings.push_back(
        {Severity::data_loss, WarningSource::trace, 1,
         fmt::format(
             "the trace breaks off after {} events: what came after them is missing, so sums are short; copy it again, or let the profiler stop before the program ends",
             tables.events())});
  }
  return warnings;
}

}  // namespace nsys_explain::ingest
