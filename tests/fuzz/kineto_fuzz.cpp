#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/kineto/export_kineto.hpp"
#include "ingest/kineto/trace_event.hpp"

/// libFuzzer target: the input is a trace in JSON. Whatever its bytes, it is split into the same events in one piece
/// and in pieces of 7 bytes, and each of them is understood or not, without an error. Build as page_reader_fuzz.cpp.
namespace {

using namespace nsys_explain::ingest;

std::vector<std::string> split(std::string_view text, std::size_t piece) {
  std::vector<std::string> found;
  EventParser parser;
  EventSplitter splitter({[&](const std::string& object) {
                            found.push_back(object);
                            if (const auto event = parser.event(object)) collective_call(event->collective, 0);
                          },
                          [&](std::string_view name, const std::string& value) {
                            found.push_back(std::string(name) + ':' + value);
                            parser.devices(value);
                            parser.distributed(value);
                          }});
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) splitter.feed(text.substr(0, piece));
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(bytes), size);
  nanoseconds_of(text);
  if (split(text, size + 1) != split(text, 7)) std::abort();
  return 0;
}
