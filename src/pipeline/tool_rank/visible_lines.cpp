#include "pipeline/tool_rank/visible_lines.hpp"

#include <string_view>

#include "report/text.hpp"

namespace nsys_explain::pipeline {

VisibleLines::~VisibleLines() {
  send(pending_.size());
  stream_.rdbuf(target_);
}

VisibleLines::int_type VisibleLines::overflow(int_type byte) {
  const char character = traits_type::to_char_type(byte);
  if (!traits_type::eq_int_type(byte, traits_type::eof())) xsputn(&character, 1);
  return traits_type::not_eof(byte);
}

std::streamsize VisibleLines::xsputn(const char* bytes, std::streamsize count) {
  pending_.append(bytes, static_cast<std::size_t>(count));
  const std::size_t end = pending_.rfind('\n');
  if (end != std::string::npos) send(end + 1);
  return count;
}

/// What is no whole line waits: std::cerr flushes after every part of one, and a character may be in two.
int VisibleLines::sync() {
  return target_->pubsync();
}

void VisibleLines::send(std::size_t count) {
  const std::string shown = report::visible_text(std::string_view(pending_).substr(0, count));
  target_->sputn(shown.data(), static_cast<std::streamsize>(shown.size()));
  pending_.erase(0, count);
}

}  // namespace nsys_explain::pipeline
