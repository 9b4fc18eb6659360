#include "ingest/kineto/export_kineto.hpp"

#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <zlib.h>

#include "ingest/kineto/kineto_tables.hpp"
#include "nsys_explain/ingest/ingest.hpp"

namespace nsys_explain::ingest {
namespace {

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool ends_scalar(char c) {
  return c == ',' || c == '}' || c == ']' || is_space(c);
}

}  // namespace

std::string_view ValueScanner::take(std::string_view& text) {
  std::size_t at = 0;
  while (at < text.size() && !is_done_) {
    const char c = text[at];
    if (escaped_) {
      escaped_ = false;
      ++at;
    } else if (in_string_) {
      while (at < text.size() && text[at] != '"' && text[at] != '\\') ++at;
      if (at == text.size()) break;
      escaped_ = text[at] == '\\';
      in_string_ = escaped_;
      is_done_ = !in_string_ && depth_ == 0;
      ++at;
    } else if (is_scalar_) {
      is_done_ = ends_scalar(c);
      if (!is_done_) ++at;
    } else if (c == '"') {
      in_string_ = true;
      ++at;
    } else if (c == '{' || c == '[') {
      ++depth_;
      ++at;
    } else if (depth_ == 0) {
      is_scalar_ = true;
    } else {
      if (c == '}' || c == ']') is_done_ = --depth_ == 0;
      ++at;
    }
  }
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at);
  return taken;
}

void EventSplitter::feed(std::string_view text) {
  while (!text.empty() && place_ != Place::behind && place_ != Place::foreign) {
    if (in_value_) {
      take_value(text);
    } else if (place_ == Place::name) {
      take_name(text);
    } else if (place_ == Place::events) {
      take_event(text);
    } else {
      see_mark(text.front());
      if (!in_value_) text.remove_prefix(1);
    }
  }
}

void EventSplitter::see_mark(char mark) {
  if (is_space(mark)) return;
  if (place_ == Place::before) {
    constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
    if (byte_order_mark.find(mark) != std::string_view::npos) return;
    is_bare_ = has_events_ = mark == '[';
    place_ = mark == '{' ? Place::name : mark == '[' ? Place::events : Place::foreign;
  } else if (place_ == Place::colon) {
    place_ = mark == ':' ? Place::value : Place::foreign;
  } else if (mark == '[' && name_ == "traceEvents") {
    has_events_ = true;
    place_ = Place::events;
  } else {
    in_value_ = true;
    scanner_.start();
  }
}

/// The name of the next member, or the end of the trace.
void EventSplitter::take_name(std::string_view& text) {
  const char c = text.front();
  if (c == '"') {
    in_value_ = true;
    scanner_.start();
  } else {
    if (c == '}') place_ = Place::behind;
    if (c != '}' && c != ',' && !is_space(c)) place_ = Place::foreign;
    text.remove_prefix(1);
  }
}

/// The next event, or the end of the array.
void EventSplitter::take_event(std::string_view& text) {
  const char c = text.front();
  if (c == ']') place_ = is_bare_ ? Place::behind : Place::name;
  if (c == ']' || c == ',' || is_space(c)) {
    text.remove_prefix(1);
  } else if (c == '}' || c == ':') {  // no value begins so: without this a scalar of no length
    ++left_out_;
    text.remove_prefix(1);
  } else {
    in_value_ = true;
    scanner_.start();
  }
}

void EventSplitter::take_value(std::string_view& text) {
  const std::string_view taken = scanner_.take(text);
  const std::size_t longest = place_ == Place::events ? longest_event : longest_member;
  is_too_long_ = is_too_long_ || value_.size() + taken.size() > longest;
  if (!is_too_long_) value_ += taken;
  if (scanner_.is_done()) end_value();
}

void EventSplitter::end_value() {
  in_value_ = false;
  if (place_ == Place::name) {
    name_ = is_too_long_ ? "" : value_.substr(1, value_.size() - 2);
    place_ = Place::colon;
  } else if (place_ == Place::value) {
    if (!is_too_long_) handlers_.member(name_, value_);
    place_ = Place::name;
  } else if (is_too_long_ || value_.front() != '{') {
    ++left_out_;
  } else {
    handlers_.event(value_);
  }
  value_.clear();
  is_too_long_ = false;
}

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
